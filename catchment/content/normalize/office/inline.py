"""Write the inline elements that xberg skips or glues as plain text into the XML of a package, and decode escaped characters.

Word (ECMA-376 part 1, 17.3.3): breaks, alignment tabs, symbols and computed values become text, text between runs a run. Text
that was moved away and the pronunciation of a text (ruby) are dropped. A link that is a field of several runs becomes one
element. Sheets of OpenDocument (1.3, 6.1): spaces, tabs and breaks become a space, links become Markdown.
"""

from __future__ import annotations

import re
from html import escape, unescape

from catchment.content.foreign_json import with_whole_characters
from catchment.content.normalize.html import linked
from catchment.content.normalize.office.flow import field_address
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
_FIELD = re.compile(
    rb"<w:instrText\b[^<>]*>(?P<instruction>[^<]*)|<w:fldChar\b[^<>]*?:fldCharType\s*=\s*[\"'](?P<mark>begin|separate|end)"
    rb"|<w:fldSimple\b[^<>]*?:instr\s*=\s*\"(?P<simple>[^\"<>]*)\"|</?w:p[\s>]"
)
"""An instruction of a field, a mark of its parts, a field that is one element, or the start or end of a paragraph."""
_RUNS = re.compile(rb"(?>(?:<w:r(?:\s[^<>]*)?>(?>(?:(?!</?w:r[\s>]).)*)</w:r>|<w:(?!r\b)[^<>]*/>|\s+)+)", re.DOTALL)
"""Runs, and marks between them."""
_END_OF_RUN = re.compile(rb"[^<>]*>(?:</w:fldChar>)?\s*</w:r>")
_START_OF_RUN = re.compile(rb"<w:r[\s>]")
_SHEET_LINK = re.compile(
    rb"<text:a\b(?P<about>[^<>]*)(?<!/)>(?P<label>(?>(?:(?!</?text:a\b).)*))</text:a>"
    rb"|(?P<cell><table:table-cell\b(?>[^<>]*?:formula=\")(?:\w+:)?=HYPERLINK\(&quot;(?P<address>(?>(?:(?!&quot;)[^<>\"])+))"
    rb"(?>[^<>]*>\s*<text:p\b[^<>]*>))(?P<words>[^<]+)",
    re.DOTALL,
)
"""A link in a cell, or a cell with a link as its formula."""
_HREF = re.compile(rb":href\s*=\s*[\"']([^\"'#][^\"']*)")
_IN_ADDRESS = str.maketrans({" ": "%20", "(": "%28", ")": "%29"})
"""Characters for which an address would need brackets, which xberg escapes."""
_ELEMENT = re.compile(rb"<[^<>]*>")
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
        plain = _SHEET_LINK.sub(_sheet_link, _with_link_elements(part if plain is None else plain))
        if plain != part:
            changed[name] = plain
    return package.with_parts(changed) if changed else data


def decoded(text: str) -> str:
    """Return the text of a workbook without escapes (ST_Xstring: ECMA-376 part 1, 22.9.2.19)."""
    return with_whole_characters(_ESCAPED.sub(_character, text)) if "_x" in text else text


def _plain(part: bytes) -> bytes | None:
    """Return a part with its inline elements as text; None if it has none, or is not well-formed."""
    pieces: list[bytes] = []
    at = depth = 0
    for tag in _TAG.finditer(part):
        is_replaced = tag["word"] or tag["space"] or tag["loose"]
        if not depth:
            pieces.append(part[at : tag.start()])
            if tag["loose"]:
                pieces.append(b'</w:r><w:r><w:t xml:space="preserve"> %s </w:t></w:r>' % tag["loose"])
            elif is_replaced and not tag["end"]:
                pieces.append(_run_content(tag) if tag["word"] else b" ")
        at = tag.end()
        if not is_replaced and not tag["attributes"].endswith(b"/"):
            depth += -1 if tag["end"] else 1
    return b"".join((*pieces, part[at:])) if at and not depth else None


def _with_link_elements(part: bytes) -> bytes:
    """Return a part of Word in which each HYPERLINK field within a paragraph is one element, with the whole address."""
    pieces: list[bytes] = []
    instructions: list[list[bytes]] = []
    at = start = 0
    for piece in _FIELD.finditer(part) if b"<w:fld" in part else ():
        if piece["simple"]:
            if link := _link_element(piece["simple"]):
                pieces += part[at : piece.start()], link
                at = piece.end()
        elif piece["mark"] == b"begin":
            instructions.append([])
            start = 0
        elif piece["mark"] == b"separate":
            end_of_run = _END_OF_RUN.match(part, piece.end())
            start = end_of_run.end() if end_of_run else 0
        elif piece["mark"] and instructions:
            link = _link_element(b"".join(instructions.pop()))
            runs = _RUNS.match(part, start, piece.start()) if start and link else None
            if runs and _START_OF_RUN.match(part, runs.end()):
                pieces += part[at:start], link, b">", runs[0], b"</w:fldSimple>"
                at = runs.end()
            start = 0
        elif piece["instruction"] and instructions and not start:
            instructions[-1].append(piece["instruction"])
        elif piece["instruction"] is None:
            instructions, start = [], 0
    return b"".join((*pieces, part[at:]))


def _link_element(instruction: bytes) -> bytes:
    """Return the start of an element for a link, or empty bytes for other fields."""
    address = field_address(unescape(instruction.decode("utf-8", "replace")))
    return f'<w:fldSimple w:instr="HYPERLINK &quot;{escape(address)}&quot;"'.encode() if address else b""


def _sheet_link(link: re.Match[bytes]) -> bytes:
    """Return a link of a sheet as Markdown. A place inside the file has no address."""
    href = _HREF.search(link["about"] or b"")
    written = link["words"] or _ELEMENT.sub(b"", link["label"] or b""), href[1] if href else link["address"] or b""
    words, address = (unescape(each.decode("utf-8", "replace")) for each in written)
    text = linked(words, address.translate(_IN_ADDRESS)) if words and address not in ("", words) else words or address
    return (link["cell"] or b"") + escape(text, quote=False).encode()


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
