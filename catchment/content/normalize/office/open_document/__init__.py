"""Read texts, presentations and drawings of OpenDocument (ODF 1.3 part 3), with their metadata.

Emphasis is omitted. `unread` adds headers and footers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import count
from xml.etree.ElementTree import Element

from catchment.content.normalize.html import linked
from catchment.content.normalize.office import drawings
from catchment.content.normalize.office.extraction import Metadata
from catchment.content.normalize.office.flow import Flow, heading
from catchment.content.normalize.packages import Package
from catchment.errors import ParseError, ResourceExhausted

READ = frozenset({"text", "presentation", "drawing"})
"""The elements of a body that this module reads; another reader reads spreadsheets."""
_OMITTED = frozenset(
    {"tracked-changes", "note-citation", "ruby-text", "forms", "sequence-decls", "variable-decls", "user-field-decls"}
    | {"covered-table-cell", "page-number", "page-count", "bibliography-source", "table-of-content-source"}
)
_SHAPES = frozenset(
    {"frame", "custom-shape", "rect", "circle", "ellipse", "line", "polygon", "polyline", "path", "regular-polygon"}
    | {"caption", "connector", "measure", "g", "page-thumbnail", "scene"}
)
_NO_ADDRESSES = ("#", "vnd.sun.star")
"""The starts of links to places inside the document and to macros."""
_MOST_CELLS = 1_000
"""Repetitions of an empty cell or row."""
_MOST_PARENTS = 20
"""Maximum number of parents to search for the position of a style; a chain of parents may have a circle."""
_SPACE = re.compile(r"[ \t\r\n]+")


def text(package: Package) -> tuple[str, list[str]]:
    """Return the text, and warnings."""
    reader = _Reader(package)
    return reader.read(), reader.warnings


def metadata(package: Package) -> Metadata:
    """Return the metadata; empty if they are missing or damaged."""
    try:
        elements = [each for meta in package.tree("meta.xml").iter("meta") for each in meta]
    except (ParseError, ResourceExhausted):
        return Metadata()
    texts = {each.tag: each.text or "" for each in reversed(elements)}
    author = texts.get("initial-creator") or texts.get("creator")
    return Metadata(
        texts.get("title"),
        (author,) if author else (),
        texts.get("creation-date"),
        texts.get("date"),
        tuple(each.text or "" for each in elements if each.tag == "keyword"),
        texts.get("subject"),
        texts.get("language"),
    )


class _Reader:
    def __init__(self, package: Package) -> None:
        self.warnings: list[str] = []
        self._package = package
        self._content = package.tree("content.xml")
        self._numbered = {
            each.get("name", "")
            for each in self._content.iter("list-style")
            if each.find("list-level-style-number") is not None
        }
        self._positions = dict(map(_position, self._styles()))
        self._body = Flow()
        self._notes: list[str] = []
        self._slides = count(1)
        self._objects = 0

    def read(self) -> str:
        for body in self._content.iter("body"):
            for part in body:
                self._blocks(self._body, part)
        if self._objects:
            self.warnings.append(f"embedded files not read: {self._objects}")
        return "\n\n".join(filter(None, (self._body.text(), *self._notes)))

    def _styles(self) -> Iterator[Element]:
        """Yield the styles of text: first the named ones, then those of the content, which take precedence."""
        try:
            named = self._package.tree("styles.xml").find("styles")
        except (ParseError, ResourceExhausted):  # `unread` reports it
            named = None
        for styles in (named, self._content.find("automatic-styles")):
            if styles is not None:
                yield from (style for style in styles if style.get("family") == "text")

    def _shift(self, element: Element, outer: str) -> str:
        """Return "^" for raised and "~" for lowered text. `outer`: of the text around the element."""
        name = element.get("style-name", "")
        for _ in range(_MOST_PARENTS):
            position, name = self._positions.get(name, ("", ""))
            if position:
                return "~" if position.startswith(("sub", "-")) else "" if position.startswith("0%") else "^"
        return outer

    def _blocks(self, flow: Flow, parent: Iterable[Element], mark: str = "", indent: str = "") -> None:
        """Write the paragraphs, lists and tables of an element. `mark`: of the first paragraph, `indent`: of the others."""
        for element in parent:
            match element.tag:
                case "p" | "h":
                    self._runs(flow, element)
                    is_heading = element.tag == "h" and not mark
                    flow.end_paragraph(heading(_number(element, "outline-level")) if is_heading else mark)
                    mark = indent
                case "list":
                    self._list(flow, element, indent)
                case "table":
                    self._table(flow, element)
                case "page":
                    self._page(flow, element)
                case "header-decl" | "footer-decl" | "date-time-decl":
                    flow.write(_collapsed(element.text))
                    flow.end_paragraph()
                case "a":
                    for shape in element:
                        self._shape(flow, shape, element.get("href", ""))
                    flow.end_paragraph()
                case name if name in _SHAPES:
                    self._shape(flow, element)
                    flow.end_paragraph()
                case name if name not in _OMITTED:
                    self._blocks(flow, element, mark, indent)

    def _list(self, flow: Flow, element: Element, indent: str) -> None:
        sign = "1. " if element.get("style-name") in self._numbered else "- "
        for item in element:
            mark = sign if item.tag == "list-item" else ""
            self._blocks(flow, item, indent + mark, indent + " " * len(mark))

    def _table(self, flow: Flow, table: Element) -> None:
        flow.end_paragraph()
        for row in _rows(table):
            for cell in row:
                if cell.tag not in ("table-cell", "covered-table-cell"):
                    continue
                words = self._cell(cell)
                for _ in range(min(_number(cell, "number-columns-repeated"), _MOST_CELLS if words else 1)):
                    flow.write(words)
                    flow.end_cell()
            flow.end_row()
        flow.end_table()

    def _cell(self, cell: Element) -> str:
        if cell.find(".//table") is not None:  # a table has no place in a cell of Markdown
            return " ".join(word for paragraph in cell.iter("p") for word in "".join(paragraph.itertext()).split())
        return self._inside(cell)

    def _page(self, flow: Flow, page: Element) -> None:
        """Write a slide, its title first, and its notes."""
        number = next(self._slides)
        for shape in sorted(page, key=lambda each: each.get("class") != "title"):
            if shape.tag == "notes":
                if words := " ".join(map(self._inside, shape.iter("text-box"))).split():
                    self._notes.append(f"Notes on slide {number}: {' '.join(words)}")
            elif shape.get("class") == "title":
                flow.write(self._inside(shape))
                flow.end_paragraph("## ")
            else:
                self._blocks(flow, [shape])

    def _runs(self, flow: Flow, element: Element, address: str = "", mark: str = "") -> None:
        """Write the content of a paragraph. `mark`: of raised or lowered text."""
        flow.write(_collapsed(element.text), address, mark)
        for child in element:
            match child.tag:
                case "s" | "tab" | "soft-page-break":
                    flow.write(" ", address)
                case "line-break":
                    flow.write("\n", address)
                case "a":
                    self._runs(flow, child, child.get("href", ""), mark)
                case "note":
                    self._notes.append("")
                    number = len(self._notes)
                    flow.write(f"[^{number}]")
                    self._notes[number - 1] = f"[^{number}]: {self._inside(child)}"
                case "annotation":
                    words = " ".join(self._inside(each) for each in child if each.tag in ("p", "list"))
                    flow.add_aside(f"Comment: {words}")
                case name if name in _SHAPES:
                    self._shape(flow, child, address)
                case name if name not in _OMITTED:
                    self._runs(flow, child, address, self._shift(child, mark))
            flow.write(_collapsed(child.tail), address, mark)

    def _inside(self, element: Element) -> str:
        """Return the text of a part beside a paragraph."""
        flow = Flow()
        if element.tag == "p":
            self._runs(flow, element)
        else:
            self._blocks(flow, element)
        return flow.text()

    def _shape(self, flow: Flow, shape: Element, address: str = "") -> None:
        """Write the text of a shape beside the paragraph: its paragraphs, its description, the labels of its chart.

        `address`: of the link around the shape. It is on the first paragraph, or alone if that has links.
        """
        flow.write(" ")
        described = [each.text or "" for each in shape if each.tag in ("title", "desc")]
        parts = [part for part in (*described, self._inside(shape), *self._labels(shape)) if part.strip()]
        listener = shape.find("event-listeners/event-listener[@href]")
        address = address if listener is None else listener.get("href", "")
        if address and not address.startswith(_NO_ADDRESSES):
            first, *rest = "\n\n".join(parts).split("\n\n")
            parts = [address, *parts] if "](" in first or not first else [linked(first, address), *rest]
        for part in parts:
            flow.add_aside(part)

    def _labels(self, shape: Element) -> Iterator[str]:
        for thing in shape:
            if thing.tag not in ("object", "object-ole"):
                continue
            part = f"{thing.get('href', '').removeprefix('./')}/content.xml"
            root = next(iter(thing), None) if len(thing) else None
            try:
                root = self._package.tree(part) if root is None and self._package.has(part) else root
            except (ParseError, ResourceExhausted):
                root = None
            if root is None:
                self._objects += 1
                continue
            if root.tag == "math":
                source = root.find(".//annotation")
                yield " ".join("".join((root if source is None else source).itertext()).split())
                continue
            words = (" ".join("".join(each.itertext()).split()) for each in root.iter("p"))
            yield from drawings.chart_line(word for word in words if any(map(str.isalpha, word)))


def _rows(table: Element) -> Iterator[Element]:
    """Yield the rows of a table, without those of tables inside it."""
    for element in table:
        if element.tag == "table-row":
            yield element
        elif element.tag != "table":
            yield from _rows(element)


def _position(style: Element) -> tuple[str, tuple[str, str]]:
    """Return the name of a style, its position (`style:text-position`, such as `super 58%`), and the name of its parent."""
    look = style.find("text-properties")
    position = "" if look is None else look.get("text-position", "").strip()
    return style.get("name", ""), (position, style.get("parent-style-name", ""))


def _collapsed(text: str | None) -> str:
    return _SPACE.sub(" ", text or "")


def _number(element: Element, attribute: str) -> int:
    written = element.get(attribute, "1")
    return max(1, int(written)) if written.isdigit() else 1
