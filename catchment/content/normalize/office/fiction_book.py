"""Read FictionBook 2 (.fb2): chapters, poems, quotations, tables, notes and metadata. Emphasis and pictures are omitted."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import unescape
from typing import Any

from catchment.content.normalize.office.extraction import Metadata
from catchment.content.normalize.office.flow import Flow, heading
from catchment.errors import ParseError

MEDIA_TYPE = "application/x-fictionbook+xml"
_INFO = "description/title-info"
_BINARY = re.compile(rb"<binary\b[^<]*</binary\s*>")
_SPACE = re.compile(r"\s+")
_LETTER = re.compile(r"[^\W\d_]")
_Look = dict[str, Any]
"""Arguments of `Flow.write`."""
_LOOKS: dict[str, _Look] = {"sup": {"mark": "^"}, "sub": {"mark": "~"}, "strikethrough": {"is_struck": True}}
_CONTAINERS = frozenset({"section", "poem", "epigraph", "cite", "annotation"})
_DAMAGED = "the book is damaged; text may be missing"


def book(data: bytes) -> tuple[str, Metadata, list[str]]:
    """Return text, metadata and warnings. Raises ParseError if there are no elements."""
    from lxml import etree

    parser = etree.XMLParser(
        recover=True, resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True
    )
    try:
        root = etree.fromstring(_BINARY.sub(b"", data), parser)
    except etree.XMLSyntaxError:
        root = None
    if root is None:
        raise ParseError(f"cannot be read as {MEDIA_TYPE}; fetch it again or convert it to EPUB")
    for element in root.iter("*"):
        element.tag = etree.QName(element).localname
    is_damaged = any(error.level == etree.ErrorLevels.FATAL for error in parser.error_log)
    return _Book(root).text(), _metadata(root), [_DAMAGED] if is_damaged else []


def _metadata(root: Any) -> Metadata:
    def texts(name: str) -> list[str]:
        return ["".join(each.itertext()) for each in root.iterfind(f"{_INFO}/{name}")]

    date = root.find(f"{_INFO}/date")
    return Metadata(
        title=" ".join(texts("book-title")),
        authors=tuple(filter(None, map(_name, root.iterfind(f"{_INFO}/author")))),
        created=None if date is None else date.get("value") or date.text,
        keywords=tuple(",".join(texts("keywords")).split(",")),
        subject=", ".join(texts("genre")),
        language=" ".join(texts("lang")),
    )


def _name(author: Any) -> str:
    names = (author.findtext(f"{part}-name") for part in ("first", "middle", "last"))
    return " ".join(filter(None, names)) or author.findtext("nickname") or ""


class _Book:
    def __init__(self, root: Any) -> None:
        self._root = root
        self._notes = {each.get("id"): each for each in root.iterfind("body[@name]//section[@id]")}
        self._numbers: dict[str, int] = {}
        """The number of each note that has a mark."""
        self._marked: list[Any] = []

    def text(self) -> str:
        """Return the annotation, the chapters and the notes; notes without a mark are chapters."""
        flow = Flow()
        for part in (*self._root.iterfind(f"{_INFO}/coverpage"), *self._root.iterfind(f"{_INFO}/annotation")):
            self._blocks(flow, part)
        notes: list[str] = []
        for path in ("body[not(@name)]", "body[@name]"):
            for body in self._root.xpath(path):
                if any(each.tag != "title" and each.get("id") not in self._numbers for each in body):
                    self._blocks(flow, body, 1)
            while len(notes) < len(self._marked):  # a note may have marks of others
                notes.append(f"[^{len(notes) + 1}]: {self._note(self._marked[len(notes)])}")
        return "\n\n".join((flow.text(), *notes))

    def _note(self, note: Any) -> str:
        """Return the text of a note without a title that is only its number."""
        flow = Flow()
        self._blocks(flow, (each for each in note if each.tag != "title" or _LETTER.search("".join(each.itertext()))))
        return flow.text()

    def _blocks(self, flow: Flow, parent: Iterable[Any], level: int = 0, mark: str = "") -> None:
        """Write the blocks of an element. `level`: of its title, 0 for none; `mark`: of its paragraphs."""
        for element in parent:
            match element.tag:
                case "title" | "stanza":
                    for line in element:
                        self._runs(flow, line, {})
                        flow.write("\n")
                    flow.end_paragraph(heading(level) if element.tag == "title" else mark)
                case "table":
                    for row in element:
                        for cell in row:
                            self._runs(flow, cell, {})
                            flow.end_cell()
                        flow.end_row()
                    flow.end_table()
                case "section" if element.get("id") in self._numbers:
                    continue
                case name if name in _CONTAINERS:
                    inner = level + 1 if name in ("section", "poem") else level
                    self._blocks(flow, element, inner, "> " if name == "cite" else mark)
                case name:
                    self._run(flow, element, {})
                    flow.end_paragraph(heading(level and level + 1) if name == "subtitle" else mark)

    def _runs(self, flow: Flow, element: Any, look: _Look) -> None:
        """Write the content of an element of a paragraph."""
        flow.write(_SPACE.sub(" ", element.text or ""), **look)
        for child in element:
            self._run(flow, child, look)
            flow.write(_SPACE.sub(" ", child.tail or ""), **look)

    def _run(self, flow: Flow, element: Any, look: _Look) -> None:
        """Write an element of a paragraph: a picture is its description, a link to a note its mark."""
        address = next((value for name, value in element.items() if name.endswith("href")), "")
        match element.tag:
            case "image":
                words = dict.fromkeys(filter(None, map(element.get, ("alt", "title"))))
                flow.write(f" {' '.join(words)} ", **look)
            case "a" if (note := self._notes.get(address.removeprefix("#"))) is not None:
                flow.write(f"[^{self._number(note)}]")
            case "a":
                self._runs(flow, element, {**look, "address": "" if address.startswith("#") else address})
            case str(name):
                self._runs(flow, element, {**look, **_LOOKS.get(name, {})})
            case _:  # an entity
                flow.write(unescape(element.text), **look)

    def _number(self, note: Any) -> int:
        if note.get("id") not in self._numbers:
            self._marked.append(note)
        return self._numbers.setdefault(note.get("id"), len(self._marked))
