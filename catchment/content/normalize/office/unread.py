"""Find the paragraphs of a package that are missing in the text of xberg.

Paragraphs of headers, footers, speaker notes, comments, charts and diagrams are missing if the text does not contain them. In
parts that xberg reads, one of their words must be missing too, because links and footnote marks split paragraphs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from catchment.content.normalize.office import drawings
from catchment.content.normalize.office.workbooks import PAGE_WORDS
from catchment.content.normalize.packages import Package, Relation, local_name
from catchment.errors import ParseError, ResourceExhausted

_T = TypeVar("_T")
_ADDRESS = re.compile(r"\]\([^()\s]*(?:\([^()\s]*\)[^()\s]*)*\)|\[\^\w+\]|</?\w+>")
_NOT_A_WORD = re.compile(r"[\W_]+")
_WORD = re.compile(r"[^\W_]+")
_WRITTEN = {"textpath": "string", "docPr": "descr"}
"""Elements with text in an attribute: WordArt of VML, and the description of a picture."""
_PARAGRAPHS = frozenset({"p", "h"})
_BREAKS = frozenset({"br", "cr", "tab", "s", "line-break", "ptab"})
_SKIPPED = frozenset(
    {
        "del",
        "moveFrom",
        "Fallback",
        "rPh",
        "oMath",
        "tracked-changes",
        "note-citation",
        "creator",
        "date",
        "date-string",
    }
)
_FIELDS = frozenset(["page-number", "page-count", "time", "sheet-name", "title", "file-name"])
_NO_NOTES = frozenset({"sldNum", "hdr", "ftr", "dt", "sldImg"})
_ODF_MARGINS = re.compile(r"(header|footer)(?:-left|-first)?")


@dataclass
class Unread:
    """Additions to the text and the warnings of a document."""

    lines: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    chunks: list[tuple[str, bytes]] = field(default_factory=list)
    """Names and contents of files that the document includes (altChunk)."""


def of_document(package: Package, text: str) -> Unread:
    """Return the content of a text document (OOXML) that is missing in the text of xberg."""
    search = _Search(package, text)
    main = package.main_part or ""
    related = search.relations(main)
    search.add("", main, is_read=True)
    search.add_all("Header: ", related, "header")
    search.add_all("Footer: ", related, "footer")
    search.add_all("Note: ", related, "footnotes", is_read=True)
    search.add_all("Note: ", related, "endnotes", is_read=True)
    search.add_all("Comment: ", related, "comments", is_read=True)
    search.add_drawings(related)
    for relation in related:
        if relation.kind == "aFChunk" and not relation.is_external:
            search.add_chunk(relation.target)
    return search.result()


def of_slides(package: Package, slides: Iterable[str], text: str) -> Unread:
    """Return the texts beside the slides of a presentation (OOXML): notes, comments, charts and diagrams."""
    search = _Search(package, text)
    for number, slide in enumerate(slides, 1):
        beside = search.relations(slide)
        search.add_all(f"Notes on slide {number}: ", beside, "notesSlide")
        search.add_all(f"Comment on slide {number}: ", beside, "comments")
        search.add_drawings(beside)
    return search.result()


def of_binary_workbook(package: Package, text: str) -> Unread:
    """Return the XML content of a binary workbook (.xlsb) besides its cells. Comments are binary and give a warning."""
    search = _Search(package, text)
    related: list[Relation] = []
    for sheet in search.relations(package.main_part or ""):
        beside = search.relations(sheet.target) if sheet.kind in ("worksheet", "chartsheet") else []
        search.add_links(beside)
        for drawing in (relation.target for relation in beside if relation.kind == "drawing"):
            search.add("", drawing)
            search.add_drawings(search.relations(drawing))
        related += beside
    unread = search.result()
    if any(relation.kind == "comments" for relation in related):
        unread.warnings.append("comments of cells were not read; save the file as .xlsx")
    return unread


def of_open_document(package: Package, text: str, *, has_sheets: bool = False) -> Unread:
    """Return the content of an ODF file that is missing in its text. `has_sheets`: xberg read it."""
    search = _Search(package, text, ignores_numbers=has_sheets)
    if has_sheets:
        search.add("", "content.xml", is_read=True, is_mixed=True)
        for name in package.names:
            if name.endswith("/content.xml"):
                search.add("", name, is_mixed=True)
    search.add("", "styles.xml", is_mixed=True, is_margin=True)
    return search.result()


class Written:
    """A text in which paragraphs are searched, ignoring markup and punctuation."""

    def __init__(self, text: str, *, ignores_numbers: bool = False) -> None:
        plain = _ADDRESS.sub(" ", re.sub(r"\\([^\w\s])", r"\1", text))
        self._ignores_numbers = ignores_numbers
        self._words = set(_WORD.findall(plain))
        self._letters = _NOT_A_WORD.sub("", plain)
        self._at = 0

    def has(self, paragraph: str) -> bool:
        """Return whether the text contains a paragraph. Search from the last hit first: paragraphs mostly arrive in order."""
        letters = _NOT_A_WORD.sub("", paragraph)
        at = self._letters.find(letters, self._at)
        if at < 0:
            return letters in self._letters
        self._at = at + len(letters)
        return True

    def lacks_a_word(self, paragraph: str) -> bool:
        """Return whether the text lacks the paragraph and at least one of its words."""
        missing = set(_WORD.findall(paragraph)) - self._words
        if self._ignores_numbers:  # a cell shows a rounded number, xberg returns the stored number
            missing = {word for word in missing if word.isalpha()}
        return bool(missing) and not self.has(paragraph) and any(word not in self._letters for word in missing)


class _Search:
    """Compares parts of a package with a text and collects the missing paragraphs."""

    def __init__(self, package: Package, text: str, *, ignores_numbers: bool = False) -> None:
        self._package = package
        self._written = Written(text, ignores_numbers=ignores_numbers)
        self._unread = Unread()
        self._damaged = 0

    def result(self) -> Unread:
        """Return the result."""
        if self._damaged:
            self._unread.warnings.append(f"unreadable parts: {self._damaged}")
        return self._unread

    def relations(self, part: str) -> list[Relation]:
        return self._attempt(lambda: self._package.relations(part)) or []

    def add_all(self, label: str, related: list[Relation], kind: str, *, is_read: bool = False) -> None:
        for relation in related:
            if relation.kind == kind:
                self.add(label, relation.target, is_read=is_read)

    def add_drawings(self, related: list[Relation]) -> None:
        lines, warnings = drawings.beside(self._package, related)
        for line in lines:
            if not self._written.has(line.partition(": ")[2]):
                self._unread.lines.append(line)
        self._unread.warnings += warnings

    def add_links(self, related: list[Relation]) -> None:
        for relation in related:
            if relation.kind == "hyperlink" and relation.is_external and not self._written.has(relation.target):
                self._unread.lines.append(relation.target)

    def add_chunk(self, part: str) -> None:
        content = self._attempt(lambda: self._package.read(part))
        if content is not None:
            self._unread.chunks.append((part, content))

    def add(
        self, label: str, part: str, *, is_read: bool = False, is_mixed: bool = False, is_margin: bool = False
    ) -> None:
        """Collect the missing paragraphs of a part, each with a label."""
        if not self._package.has(part):
            return
        reader = _Paragraphs(is_mixed=is_mixed, is_margin=is_margin)
        self._attempt(lambda: self._package.feed(part, reader))
        for margin, paragraph in reader.paragraphs:
            words = _ADDRESS.sub(" ", paragraph)
            is_missing = self._written.lacks_a_word(words) if is_read else not self._written.has(words)
            line = f"{margin.capitalize()}: {paragraph}" if margin else f"{label}{paragraph}"
            if is_missing and line not in self._unread.lines[-50:]:
                self._unread.lines.append(line)

    def _attempt(self, read: Callable[[], _T]) -> _T | None:
        try:
            return read()
        except (ParseError, ResourceExhausted):
            self._damaged += 1
            return None


class _Paragraphs:
    """A target for `Package.feed` that collects paragraphs; a text box inside a paragraph is a separate paragraph.

    With `is_mixed` (ODF), all characters of a paragraph are text; otherwise only the content of `t` elements.
    With `is_margin`, only paragraphs of headers and footers are collected, each labelled as such.
    """

    def __init__(self, *, is_mixed: bool, is_margin: bool) -> None:
        self.paragraphs: list[tuple[str, str]] = []
        self._is_mixed, self._is_margin = is_mixed, is_margin
        self._open: list[list[str]] = []
        self._skipped = 0
        self._is_text = self._has_no_notes = self._is_placeholder = False
        self._margin = ""

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = local_name(tag)
        self._is_text = name in ("t", "text") and not self._is_mixed
        if self._skipped or self._is_left_out(name, tag):
            self._skipped += 1
        elif name in _PARAGRAPHS or (name == "text" and not self._is_mixed):
            self._open.append([])
        elif name in _BREAKS and self._open:
            self._open[-1].append(" ")
        elif self._is_margin and (margin := _ODF_MARGINS.fullmatch(name)):
            self._margin = margin[1]
        elif name in ("sp", "sdt"):
            self._has_no_notes = self._is_placeholder = False
        elif name == "ph":
            self._has_no_notes = attributes.get("type") in _NO_NOTES
        elif words := " ".join(attributes.get(_WRITTEN.get(name, ""), "").split()):
            self.paragraphs.append(("", words))
        elif name == "showingPlcHdr":
            self._is_placeholder = True

    def data(self, text: str) -> None:
        if self._open and not self._skipped and (self._is_text or self._is_mixed):
            self._open[-1].append(text)

    def end(self, tag: str) -> None:
        name = local_name(tag)
        self._is_text = False
        if self._skipped:
            self._skipped -= 1
        elif (name in _PARAGRAPHS or (name == "text" and not self._is_mixed)) and self._open:
            words = " ".join("".join(self._open.pop()).split())
            is_wanted = self._margin or not self._is_margin
            if is_wanted and _WORD.search(words) and not (self._margin and words.lower() in PAGE_WORDS):
                self.paragraphs.append((self._margin, words))
        elif self._margin and _ODF_MARGINS.fullmatch(name):
            self._margin = ""

    def doctype(self, _name: str, _public: str | None, _system: str | None) -> None:
        raise ParseError("a part has a document type definition")

    def _is_left_out(self, name: str, tag: str) -> bool:
        return (
            name in _SKIPPED
            or (self._is_mixed and name in _FIELDS and ":chart:" not in tag)
            or (name == "txBody" and self._has_no_notes)
            or (name == "sdtContent" and self._is_placeholder)
        )
