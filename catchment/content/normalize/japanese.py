"""Decode ISO-2022-JP and EUC-JP with the NEC and IBM extensions, which Python's codecs reject.

Circled digits and symbols such as ① and ㈱ occupy rows that JIS X 0208 leaves empty. Windows code page 932 has them at the
corresponding positions, so each pair of bytes is mapped to it.
"""

from __future__ import annotations

import re

_ESCAPE = re.compile(rb"\x1b(\$[@B]|\$\([@BD]|\([BJI])")
_EUC = re.compile(rb"([\x00-\x7f]+)|\x8e([\xa1-\xdf])|\x8f([\xa1-\xfe]{2})|([\xa1-\xfe]{2})")
_HIGH = bytes(byte | 0x80 for byte in range(256))
_LOW = bytes(byte & 0x7F for byte in range(256))


def from_iso_2022_jp(data: bytes) -> str:
    """Decode ISO-2022-JP with its extensions and half-width kana. Raises ValueError for other bytes."""
    first, *rest = _ESCAPE.split(data)
    if b"\x1b" in first or any(b"\x1b" in run for run in rest[1::2]):
        raise ValueError("not ISO-2022-JP")
    out = [first.decode("ascii")]
    for escape, run in zip(rest[::2], rest[1::2], strict=True):
        match escape:
            case b"(B" | b"(J":
                out.append(run.decode("ascii"))
            case b"(I":
                out.append(run.translate(_HIGH).decode("cp932"))
            case _:
                out += _lines_of_pairs(run, is_supplement=escape.endswith(b"D"))
    return "".join(out)


def from_euc_jp(data: bytes) -> str:
    """Decode EUC-JP. Raises ValueError for other bytes."""
    out, place = [], 0
    while place < len(data):
        match = _EUC.match(data, place)
        if match is None:
            raise ValueError("not EUC-JP")
        plain, kana, supplement, pair = match.groups()
        if plain is not None:
            out.append(plain.decode("ascii"))
        elif kana is not None:
            out.append(kana.decode("cp932"))
        elif supplement is not None:
            out.append(match[0].decode("euc_jp"))
        else:
            out.append(_pair(pair.translate(_LOW)))
        place = match.end()
    return "".join(out)


def _lines_of_pairs(run: bytes, *, is_supplement: bool) -> list[str]:
    """Decode two-byte characters; some encoders leave line ends and spaces between them."""
    out = []
    for piece in re.split(rb"([\x00-\x20]+)", run):
        if piece[:1] <= b" ":
            out.append(piece.decode("ascii"))
        elif len(piece) % 2:
            raise ValueError("half a character")
        elif is_supplement:
            pairs = [b"\x8f" + piece[at : at + 2].translate(_HIGH) for at in range(0, len(piece), 2)]
            out.append(b"".join(pairs).decode("euc_jp"))
        else:
            out += [_pair(piece[at : at + 2]) for at in range(0, len(piece), 2)]
    return out


def _pair(pair: bytes) -> str:
    """Return the character at a row and column of JIS X 0208, by its position in code page 932."""
    row, column = pair[0] - 0x21, pair[1]
    lead = row // 2 + (0x81 if row < 62 else 0xC1)
    trail = column + 0x7E if row % 2 else column + (0x20 if column >= 0x60 else 0x1F)
    return bytes((lead, trail)).decode("cp932")
