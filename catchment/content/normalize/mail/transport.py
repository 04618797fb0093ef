"""Decode transport encodings (RFC 2045, 6): base64, quoted-printable and uuencode, tolerating common damage."""

from __future__ import annotations

import binascii
import re

_SOFT_BREAK = re.compile(rb"=[ \t]+(\r?\n)")
_FOOTER = re.compile(
    rb"=[=\n][ \t\r\n]*\n[^\n]*[^A-Za-z0-9+/=\s]"
)  # text that a list server appended to an encoded body
_PADDING_INSIDE = re.compile(rb"(?<==)\s+(?=[A-Za-z0-9+/]{2})")  # between two concatenated encoded blocks
_WORD = re.compile(rb"[A-Za-z]?[a-z]{1,30}[.!?]?")
_NOT_BASE64 = bytes(set(range(256)) - set(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"))
_SAMPLE = 8_192
_LONG_WORD = 12
"""Characters. The average word is shorter, the average line of base64 longer."""
_BEYOND_ASCII = bytes(range(0x80, 0x100))
_PLAIN = frozenset({"", "7bit", "8bit", "binary", "7-bit", "8-bit", "none"})


def is_known(encoding: str) -> bool:
    """Return whether `decode` supports this encoding."""
    return is_plain(encoding) or encoding in _DECODERS


def is_plain(encoding: str) -> bool:
    """Return whether this encoding leaves the body unchanged."""
    return encoding in _PLAIN


def decode(body: bytes, encoding: str) -> bytes:
    """Return the content of a body, unchanged if the encoding is unknown. Undecodable parts are omitted."""
    decoder = _DECODERS.get(encoding)
    return decoder(body) if decoder else body


def _from_base64(body: bytes) -> bytes:
    """Decode base64, ignoring invalid characters and an incomplete end.

    Plain text that is only labelled as base64 is returned unchanged.
    """
    if end := _FOOTER.search(body):
        body = body[: end.start() + 2]
    if _is_prose(body[:_SAMPLE]):
        return body
    padding = body.find(b"=")
    blocks = _PADDING_INSIDE.split(body) if 0 <= padding < len(body.rstrip(b"= \t\r\n")) else [body]
    return b"".join(_base64_block(block) for block in blocks if not _is_prose(block[:_SAMPLE]))


def _base64_block(body: bytes) -> bytes:
    try:
        return binascii.a2b_base64(body)
    except binascii.Error:
        body = body.translate(None, _NOT_BASE64)
        body = body[:-1] if len(body) % 4 == 1 else body
        return binascii.a2b_base64(body + b"=" * (-len(body) % 4))


def _is_prose(sample: bytes) -> bool:
    """Return whether a body is plain text: bytes beyond ASCII, only short words, or several words per line."""
    words = sample.split()
    if not words or len(sample) - len(sample.translate(None, _BEYOND_ASCII)) > len(sample) // 10:
        return bool(words)
    if all(_WORD.fullmatch(word) for word in words):
        return True
    lines = sum(1 for line in sample.splitlines() if line.strip())
    return len(words) > 1.5 * lines and sum(map(len, words)) < _LONG_WORD * len(words)


def _from_quoted_printable(body: bytes) -> bytes:
    return binascii.a2b_qp(_SOFT_BREAK.sub(rb"=\1", body))


def _from_uuencode(body: bytes) -> bytes:
    lines = body.splitlines()
    first = next((number for number, line in enumerate(lines, 1) if line.startswith(b"begin ")), 0)
    out = []
    for line in lines[first:]:
        if line == b"end":
            break
        try:
            out.append(binascii.a2b_uu(line))
        except binascii.Error:  # some encoders pad a line wrongly; its first character gives the length
            length = (((line[0] - 32) & 63) * 4 + 5) // 3
            out.append(_uu_line(line[:length]))
    return b"".join(out)


def _uu_line(line: bytes) -> bytes:
    try:
        return binascii.a2b_uu(line)
    except binascii.Error:
        return b""


_DECODERS = {
    "base64": _from_base64,
    "b": _from_base64,
    "quoted-printable": _from_quoted_printable,
    "quotedprintable": _from_quoted_printable,
    "x-uuencode": _from_uuencode,
    "x-uue": _from_uuencode,
    "uuencode": _from_uuencode,
}
