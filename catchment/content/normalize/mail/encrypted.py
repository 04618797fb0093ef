"""Read the parts of signed and encrypted messages that need no key (S/MIME, RFC 8551; OpenPGP, RFC 3156, 9580).

Signatures are not verified, because that requires the public keys of senders. Encrypted text is replaced by a note.
"""

from __future__ import annotations

import re

_SIGNED_DATA = bytes.fromhex("06092a864886f70d010702")
_COMPRESSED_DATA = bytes.fromhex("060b2a864886f70d0109100109")
_MAX_NESTING = 12

_ARMORED = re.compile(
    r"^-----BEGIN PGP MESSAGE-----[ \t]*\n.*?(?:^-----END PGP MESSAGE-----[ \t]*$|\Z)", re.MULTILINE | re.DOTALL
)
_CLEARSIGNED = re.compile(
    r"^-----BEGIN PGP SIGNED MESSAGE-----[ \t]*\n(?:[A-Za-z-]+: [^\n]*\n)*[ \t]*\n(.*?)"
    r"(?:^-----BEGIN PGP SIGNATURE-----[ \t]*$.*?(?:^-----END PGP SIGNATURE-----[ \t]*$|\Z)|\Z)",
    re.MULTILINE | re.DOTALL,
)
_DASHED = re.compile(r"^- ", re.MULTILINE)
ENCRYPTED = "*(encrypted text that cannot be read here)*"


def unarmored(text: str) -> tuple[str, str, str]:
    """Return the text without OpenPGP armor, the signature format and the encryption format ("" if not used)."""
    if "-----BEGIN PGP " not in text:
        return text, "", ""
    plain, signed = _CLEARSIGNED.subn(lambda match: _DASHED.sub("", match[1]), text)
    plain, hidden = _ARMORED.subn(ENCRYPTED, plain)
    return plain, "OpenPGP" if signed else "", "OpenPGP" if hidden else ""


def signed_content(data: bytes) -> bytes | None:
    """Return the message inside an S/MIME body that is signed but not encrypted; None for other bodies."""
    if _SIGNED_DATA not in data[:64] or _COMPRESSED_DATA in data[:64]:
        return None
    place = data.index(_SIGNED_DATA) + len(_SIGNED_DATA)
    try:
        return _encapsulated(data, place)
    except (IndexError, ValueError):
        return None


def _encapsulated(data: bytes, place: int) -> bytes | None:
    """Return `eContent` of BER `SignedData` (RFC 5652, 5.1): [0] SEQUENCE (version, digests, SEQUENCE (type, [0] octets))."""
    for expected in (0xA0, 0x30):
        tag, place, _ = _header(data, place)
        if tag != expected:
            return None
    for expected in (0x02, 0x31):
        tag, start, length = _header(data, place)
        if tag != expected or length is None:
            return None
        place = start + length
    tag, place, _ = _header(data, place)
    kind, start, length = _header(data, place)
    if (tag, kind) != (0x30, 0x06) or length is None:
        return None
    tag, place, _ = _header(data, start + length)
    return _octets(data, place, 0)[0] if tag == 0xA0 else None


def _octets(data: bytes, place: int, depth: int) -> tuple[bytes, int]:
    """Return an octet string, primitive or constructed, and its end. Raises ValueError for other types."""
    tag, start, length = _header(data, place)
    if tag == 0x04 and length is not None:
        return data[start : start + length], start + length
    if tag != 0x24 or depth > _MAX_NESTING:
        raise ValueError("not an octet string")
    pieces: list[bytes] = []
    stop = len(data) if length is None else start + length
    while start < stop and data[start : start + 2] != b"\x00\x00":
        piece, start = _octets(data, start, depth + 1)
        pieces.append(piece)
    return b"".join(pieces), start + 2 if length is None else stop


def _header(data: bytes, place: int) -> tuple[int, int, int | None]:
    """Return tag, start of the value, and its length (None if it is indefinite)."""
    tag, length = data[place], data[place + 1]
    place += 2
    if length == 0x80:
        return tag, place, None
    if length > 0x80:
        size = length & 0x7F
        length = int.from_bytes(data[place : place + size], "big")
        place += size
    if length > len(data):
        raise ValueError("length exceeds the data")
    return tag, place, length
