"""Read the texts of exchange formats in XML, by a table of their elements."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from catchment.content.normalize.html import fragment
from catchment.content.normalize.packages import tree
from catchment.errors import ParseError
from catchment.model import Document, time_of

_DOCTYPE = re.compile(rb"<!DOCTYPE[^<>\[\]]*>")
_ENCRYPTED = re.compile(r"<en-crypt\b[^<>]*>[^<]*</en-crypt>")
_BLANK_LINES = re.compile(r"\n{3,}")
_ITEM, _FILE = "outline", "resource"
_DEEPEST = 8
"""Levels of indentation."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where a format has its texts. `title` and `created`: the paths of elements below the root."""

    title: str = "DocumentProperties/Title"
    created: str = "DocumentProperties/Created"
    headings: tuple[str, ...] = ()
    """Elements with a heading as text or `Name`."""
    texts: tuple[str, ...] = ()
    """Elements with plain text or HTML."""
    lines: tuple[str, str] = ("", "")
    """Names of an element and of its inner elements that form a line: words of a paragraph, or cells of a row."""


_WORD = _Layout(lines=("p", "t"))
_BREAKS = ("br", "cr", "tab", "ptab")
_LAYOUTS = {
    "kml": _Layout(
        "Document/name", headings=("name",), texts=("description", "Snippet", "address", "value", "SimpleData")
    ),
    "gpx": _Layout("metadata/name", "metadata/time", headings=("name",), texts=("desc", "cmt")),
    "opml": _Layout("head/title"),
    "en-export": _Layout(
        "note/title", "note/created", headings=("title",), texts=("content", "tag", "author", "source-url", "file-name")
    ),
    "Workbook": _Layout(headings=("Worksheet",), lines=("Row", "Data")),
    "wordDocument": _WORD,
    "package": _WORD,
}
_ATTRIBUTES = ("text", "title", "_note", "htmlUrl", "xmlUrl", "url")


def texts(data: bytes, media_type: str) -> Document:
    """Return the texts in order as Markdown. Raises ParseError for damaged XML, ResourceExhausted beyond fixed limits."""
    root = tree(_DOCTYPE.sub(b"", data, count=1))
    layout = _LAYOUTS.get(root.tag)
    if layout is None:
        raise ParseError("the file is truncated or of another type; export it again")
    blocks = filter(str.strip, (_block(element, depth, layout) for element, depth in _elements(root)))
    titles = root.findall(layout.title) or [element for name in layout.headings for element in root.iter(name)]
    created = root.findall(layout.created)
    left_out = {
        "attached files": sum(1 for _ in root.iter(_FILE)),
        "encrypted texts": sum(len(_ENCRYPTED.findall(content.text or "")) for content in root.iter("content")),
    }
    return Document(
        text=_BLANK_LINES.sub("\n\n", "\n".join(blocks)).strip("\n"),
        media_type=media_type,
        title=_heading(titles[0]) or None if len(titles) == 1 else None,
        created=time_of(created[0].text) if len(created) == 1 else None,
        warnings=tuple(f"{label} not read: {count}" for label, count in left_out.items() if count),
    )


def _block(element: Element, depth: int, layout: _Layout) -> str:
    if element.tag in layout.headings:
        return f"\n## {words}\n" if (words := _heading(element)) else ""
    if element.tag in layout.texts:
        return f"\n{fragment(_ENCRYPTED.sub('', element.text or '')).strip()}\n"
    if element.tag == layout.lines[0]:
        if layout is _WORD:
            return _paragraph(element) + "\n"
        return " | ".join(_one_line("".join(part.itertext())) for part in element.iter(layout.lines[1]))
    values = (_one_line(fragment(element.get(name, ""))) for name in _ATTRIBUTES if element.tag == _ITEM)
    words = " ".join(filter(None, dict.fromkeys(values)))
    return "   " * min(depth - 1, _DEEPEST) + f"- {words}" if words else ""


def _paragraph(element: Element) -> str:
    """Return the words of a paragraph of Word, without those of a paragraph inside it, such as a footnote."""
    words, pending = [], [element]
    while pending:
        part = pending.pop()
        words.append((part.text or "") if part.tag == _WORD.lines[1] else " " if part.tag in _BREAKS else "")
        pending += [inner for inner in reversed(part) if inner.tag not in ("p", "pPr")]
    return _one_line("".join(words))


def _heading(element: Element) -> str:
    return _one_line(element.get("Name") or element.text)


def _elements(root: Element) -> Iterator[tuple[Element, int]]:
    """Yield the elements in order, with the number of list items around and including each, without recursion."""
    pending = [(root, 0)]
    while pending:
        element, above = pending.pop()
        depth = above + (element.tag == _ITEM)
        yield element, depth
        pending += [(inner, depth) for inner in reversed(element)]


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split())
