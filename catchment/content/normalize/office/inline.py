"""Write the inline elements that xberg skips or glues as plain text into the XML of a package, and decode escaped characters.

Word (ECMA-376 part 1, 17.3.3): breaks, alignment tabs, symbols and computed values become text, text between runs a run. Text
that was moved away and the pronunciation of a text (ruby) are dropped. OpenDocument (1.3, 6.1): spaces, tabs and breaks become
a space.
"""

from __future__ import annotations

import re

from catchment.content.foreign_json import with_whole_characters
from catchment.content.normalize.office.symbol_fonts import FONTS
from catchment.content.normalize.packages import Package
from catchment.errors import ParseError, ResourceExhausted

_TAG = re.compile(
    rb"</w:r>(?P<loose>\s*+[^<\s][^<]*+)|<(?P<end>/)?(?:w:(?P<word>br(?=\s[^<>]*:type)|cr|ptab|sym|noBreakHyphen|commentReference|pgNum|(?:day|month|year)(?:Long|Short))"
    rb"|text:(?P<space>s|tab|line-break|soft-page-break)|w:moveFrom|w:rt|text:ruby-text)(?=[\s/>])(?P<attributes>[^<>]*)>"
)
"""A tag of an element that is replaced (`word`, `space`), or dropped with its content; or the text between two runs (`loose`).

xberg knows these prefixes only.
"""
_FONT = re.compile(rb":font\s*=\s*[\"']([^\"']*)")
_CODE = re.compile(rb":char\s*=\s*[\"'](?!00[01]|[dD][89a-fA-F]|[fF]{3})([0-9A-Fa-f]{4})[\"']")
_ID = re.compile(rb":id\s*=\s*[\"'](\d+)[\"']")
ESCAPED_CONTROLS = re.compile(r" ?(?:_x00[01][0-9A-Fa-f]_ ?)+")
"""Control characters that Office escapes as `_x000D_`, by rule in the texts of workbooks only (see `decoded`)."""
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")


def with_plain_text(data: bytes) -> bytes:
    """Return a package of Word or OpenDocument in which inline elements are plain text; the same bytes if there are none."""
    package = Package(data)
    changed: dict[str, bytes] = {}
    for name in package.names:
        if not name.endswith(".xml"):
            continue
        try:
            part = package.read(name)
        except (ParseError, ResourceExhausted):  # `unread` reports it
            continue
        plain = _plain(part)
        if plain is not None and plain != part:
            changed[name] = plain
    return package.with_parts(changed) if changed else data


def decoded(text: str) -> str:
    """Return the text of a workbook without escapes (ST_Xstring: ECMA-376 part 1, 22.9.2.19)."""
    return with_whole_characters(_ESCAPED.sub(_character, text)) if "_x" in text else text


def _plain(part: bytes) -> bytes | None:
    """Return a part with its inline elements as text; None if it has none, or is not well-formed."""
    kept: list[bytes] = []
    at = depth = 0
    for tag in _TAG.finditer(part):
        is_replaced = tag["word"] or tag["space"] or tag["loose"]
        if not depth:
            kept.append(part[at : tag.start()])
            if tag["loose"]:
                kept.append(b'</w:r><w:r><w:t xml:space="preserve"> %s </w:t></w:r>' % tag["loose"])
            elif is_replaced and not tag["end"]:
                kept.append(_run_content(tag) if tag["word"] else b" ")
        at = tag.end()
        if not is_replaced and not tag["attributes"].endswith(b"/"):
            depth += -1 if tag["end"] else 1
    return b"".join((*kept, part[at:])) if at and not depth else None


def _run_content(tag: re.Match[bytes]) -> bytes:
    """Return the content of a run for an element of Word."""
    if tag["word"] in (b"br", b"cr"):
        return b"<w:br/>"
    if tag["word"] == b"noBreakHyphen":
        return "<w:t>\u2011</w:t>".encode()
    if tag["word"] == b"commentReference":
        named = _ID.search(tag["attributes"])
        return b"<w:t>[^cmt%s]</w:t>" % named[1] if named else b""
    code = _CODE.search(tag["attributes"]) if tag["word"] == b"sym" else None
    if code is None:
        return b"<w:tab/>"
    number, font = int(code[1], 16), _FONT.search(tag["attributes"])
    symbols = FONTS.get(font[1].decode("utf-8", "replace").lower(), {}) if font else {}
    return b"<w:t>&#%d;</w:t>" % ord(symbols.get(number % 0xF000, chr(number)))


def _character(escape: re.Match[str]) -> str:
    character = chr(int(escape[1], 16))
    return character if character >= " " else " "
