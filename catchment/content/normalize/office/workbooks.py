"""Read OOXML workbooks (.xlsx, .xlsm): cells as tables, with the links, comments, text boxes and charts of each sheet.

Cells are read as a stream, so memory grows with the text and not with the XML. Empty rows and columns are omitted, so distant
cells do not enlarge a table.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import chain
from xml.etree.ElementTree import Element

from catchment.content.normalize.office import drawings
from catchment.content.normalize.office.inline import decoded
from catchment.content.normalize.packages import Package, Relation, local_name
from catchment.errors import ParseError, ResourceExhausted

MAX_CHARACTERS = 32_000_000
"""Characters of all cells; about four million cells."""
_MAX_SHEETS = 1_000
_FULL = f"only the first {MAX_CHARACTERS:,} characters of the cells were read (a fixed limit)"
_DATES = {*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)}
"""The built-in number formats that are dates and times (ECMA-376 part 1, 18.8.30)."""
_NO_CODE = re.compile(r'"[^"]*"|\\.|_.|\*.|\[(?!h+\]|m+\]|s+\])[^\]]*\]', re.IGNORECASE)
_LEAP_DAY = 60
"""The number of 29 February 1900."""
_DURATION = "46"
"""The number of the built-in format `[h]:mm:ss`."""
_DURATION_CODE = re.compile(r"\[[hms]+\]", re.IGNORECASE)
_DATE_CODE = re.compile(r"[dmyhs]", re.IGNORECASE)
_LINK_FORMULA = re.compile(r'\s*HYPERLINK\(\s*"([^"]+)"', re.IGNORECASE)
_MOST_DIGITS = 9
_PLACE = re.compile(r"\$?([A-Z]{1,3})\$?(\d{1,7})")
_PRINT_CODE = re.compile(r'&(?:\[[^\]]*\]|"[^"]*"|\d+|K[0-9A-F]{6}|[LCRPNDTZFAGBIUESXYHO&])|\s+')
PAGE_WORDS = frozenset({"page", "seite", "página", "pagina", "strona", "страница", "sheet"})
"""Words in printed headers and footers that contain only page numbers."""
_THREADED = "[Threaded comment]"


def text(package: Package) -> tuple[str, list[str]]:
    """Return a workbook's text as Markdown, and warnings. Raises ParseError if the workbook or its strings are damaged."""
    return _Workbook(package).text()


def printed(text: str) -> str:
    """Return the text of a printed header or footer without codes for fonts, fields and sections."""
    words = _PRINT_CODE.sub(" ", decoded(text)).split()
    return "" if len(words) == 1 and words[0].lower() in PAGE_WORDS else " ".join(words)


class _Workbook:
    def __init__(self, package: Package) -> None:
        self._package = package
        main = package.main_part or ""
        self._related = {relation.id: relation for relation in package.relations(main)}
        self._root = package.tree(main)
        by_kind = {relation.kind: relation.target for relation in self._related.values()}
        self._strings = _strings(package, by_kind.get("sharedStrings"))
        self._warnings: list[str] = []
        try:
            self._times = _time_styles(package, by_kind.get("styles"))
        except (ParseError, ResourceExhausted):
            self._times = []
            self._warnings.append("the number formats cannot be read; dates and times are shown as numbers")
        properties = self._root.find(".//workbookPr")
        is_1904 = properties is not None and properties.get("date1904") in ("1", "true")
        self._epoch = datetime(1904, 1, 1) if is_1904 else datetime(1899, 12, 30)  # noqa: DTZ001 - sheets have no time zone
        self._room = MAX_CHARACTERS

    def text(self) -> tuple[str, list[str]]:
        blocks: list[str] = []
        sheets = list(self._root.iter("sheet"))
        for sheet in sheets[:_MAX_SHEETS]:
            relation = self._related.get(sheet.get("r:id", ""))
            hidden = " (hidden)" if sheet.get("state", "visible") != "visible" else ""
            name = _line(sheet.get("name", "")) + hidden
            if relation is None or not self._package.has(relation.target):
                self._warnings.append("a sheet is missing in the file")
                continue
            parts = self._sheet(relation)
            if parts:
                blocks += [f"## {name}", *parts]
        if len(sheets) > _MAX_SHEETS:
            self._warnings.append(f"only the first {_MAX_SHEETS:,} sheets were read (a fixed limit)")
        return "\n\n".join(blocks), list(dict.fromkeys(self._warnings))

    def _sheet(self, relation: Relation) -> list[str]:
        related = self._package.relations(relation.target)
        reader = _SheetReader(self, {each.id: each.target for each in related if each.is_external})
        try:
            self._package.feed(relation.target, reader)
        except ParseError:
            self._warnings.append("a sheet is damaged; only the cells before the damage were read")
        for (row, column), address in reader.links.items():
            cells = reader.rows.setdefault(row, {})
            words = cells.get(column, "")
            if words != address:
                cells[column] = f"[{words}]({_destination(address)})" if words else address
        return [part for part in (_table(reader.rows), *self._beside(related), *reader.printed) if part]

    def _beside(self, related: list[Relation]) -> list[str]:
        """Return the comments, text boxes, charts and diagrams of a sheet, each as a paragraph."""
        paragraphs: list[str] = []
        try:
            paragraphs += _comments(self._package, related)
            for drawing in (relation for relation in related if relation.kind == "drawing"):
                paragraphs += drawings.paragraphs(self._package.tree(drawing.target))
                lines, warnings = drawings.beside(self._package, self._package.relations(drawing.target))
                paragraphs += lines
                self._warnings += warnings
        except (ParseError, ResourceExhausted):
            self._warnings.append("comments or drawings of a sheet cannot be read")
        return paragraphs

    def value(self, kind: str, style: int, written: str) -> str:
        """Return a cell's value as text."""
        if kind == "s":
            number = _whole(written, -1)
            return self._strings[number] if 0 <= number < len(self._strings) else ""
        if kind == "b":
            return "true" if written.strip() == "1" else "false"
        if kind in ("str", "inlineStr", "e", "d"):
            return _line(written)
        return self._number(style, written.strip())

    def _number(self, style: int, written: str) -> str:
        try:
            number = float(written)
        except ValueError:
            return written
        if 0 <= style < len(self._times) and (notation := self._times[style]) and 0 <= number < 2_958_466:
            return notation(self._epoch, number)
        return f"{number:.15g}" if "." in written or "E" in written.upper() else written

    def takes(self, length: int) -> bool:
        """Reserve room for a text of this length; return whether there is enough."""
        self._room -= length
        if self._room < 0 and _FULL not in self._warnings:
            self._warnings.append(_FULL)
        return self._room >= 0


class _SheetReader:
    """A target for `Package.feed` that collects the cells, links and printed headers of a sheet."""

    def __init__(self, workbook: _Workbook, addresses: dict[str, str]) -> None:
        self.rows: dict[int, dict[int, str]] = {}
        self.links: dict[tuple[int, int], str] = {}
        self.printed: list[str] = []
        self._workbook, self._addresses = workbook, addresses
        self._row = self._column = self._style = 0
        self._kind = ""
        self._cells: dict[int, str] = {}
        self._written: list[str] = []
        self._value = self._formula = ""
        self._texts: list[str] = []

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = local_name(tag)
        if name == "c":
            place = _place(attributes.get("r", ""))
            self._column = place[1] if place else self._column + 1
            self._kind, style = attributes.get("t", "n"), attributes.get("s", "0")
            self._style = _whole(style, 0)
            self._value, self._formula, self._texts = "", "", []
        elif name == "row":
            number = attributes.get("r", "")
            self._row = _whole(number, self._row + 1)
            self._column, self._cells = 0, {}
        elif name == "hyperlink":
            self._link(attributes)
        self._written = []

    def data(self, text: str) -> None:
        self._written.append(text)

    def end(self, tag: str) -> None:
        name = local_name(tag)
        if name == "v":
            self._value = "".join(self._written)
        elif name == "f":
            self._formula = "".join(self._written)
        elif name == "t":
            self._texts.append("".join(self._written))
        elif name == "rPh":
            self._texts = self._texts[:-1]
        elif name == "c":
            self._cell()
        elif name == "row" and self._cells:
            self.rows.setdefault(self._row, {}).update(self._cells)
        elif name in ("oddHeader", "oddFooter", "evenHeader", "evenFooter", "firstHeader", "firstFooter"):
            words = printed("".join(self._written))
            if words and words not in self.printed:
                self.printed.append(words)
        self._written = []

    def doctype(self, _name: str, _public: str | None, _system: str | None) -> None:
        raise ParseError("a sheet has a document type definition")

    def _cell(self) -> None:
        if self._kind == "inlineStr":
            text = _line("".join(self._texts))
        elif self._value:
            text = self._workbook.value(self._kind, self._style, self._value)
        else:
            text = f"={self._formula}" if self._formula else ""
        if text and self._workbook.takes(len(text) + 3):
            self._cells[self._column] = text
            if link := _LINK_FORMULA.match(self._formula):
                self.links[self._row, self._column] = link[1]

    def _link(self, attributes: dict[str, str]) -> None:
        identity = next((value for key, value in attributes.items() if key.endswith("/relationships}id")), "")
        place = _place(attributes.get("ref", ""))
        if place and (address := self._addresses.get(identity)):
            self.links[place] = address


def _place(reference: str) -> tuple[int, int] | None:
    """Return row and column of a reference such as B7, or of the first cell of a range."""
    match = _PLACE.match(reference)
    if match is None:
        return None
    column = 0
    for letter in match[1]:
        column = column * 26 + ord(letter) - 64
    return int(match[2]), column


def _table(rows: dict[int, dict[int, str]]) -> str:
    """Return cells as a Markdown table without empty rows and columns. Rows end at their last value."""
    columns = sorted(set(chain.from_iterable(rows.values())))
    if not columns:
        return ""
    lines = []
    for number in sorted(rows):
        cells = rows[number]
        if not cells:
            continue
        last = max(cells)
        written = (cells.get(column, "") for column in columns if column <= last)
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in written)} |")
    missing = len(columns) - sum(column <= max(rows[min(rows)]) for column in columns)
    lines[0] += "  |" * missing
    return "\n".join((lines[0], "|" + " --- |" * len(columns), *lines[1:]))


def _strings(package: Package, part: str | None) -> list[str]:
    if part is None or not package.has(part):
        return []
    reader = _StringsReader()
    package.feed(part, reader)
    return reader.strings


class _StringsReader:
    """A target for `Package.feed` that collects the shared strings of a workbook, without their phonetic hints."""

    def __init__(self) -> None:
        self.strings: list[str] = []
        self._parts: list[str] = []
        self._is_text = self._is_hint = False
        self._room = 2 * MAX_CHARACTERS

    def start(self, tag: str, _attributes: dict[str, str]) -> None:
        name = local_name(tag)
        if name == "si":
            self._parts = []
        elif name == "rPh":
            self._is_hint = True
        self._is_text = name == "t" and not self._is_hint

    def data(self, text: str) -> None:
        if self._is_text:
            self._parts.append(text)

    def end(self, tag: str) -> None:
        name = local_name(tag)
        self._is_text = False
        if name == "rPh":
            self._is_hint = False
        elif name == "si":
            text = _line("".join(self._parts))
            self._room -= len(text)
            if self._room < 0:
                raise ResourceExhausted(
                    f"the cells have more than {2 * MAX_CHARACTERS:,} characters (a fixed limit); split the file"
                )
            self.strings.append(text)

    def doctype(self, _name: str, _public: str | None, _system: str | None) -> None:
        raise ParseError("the strings have a document type definition")


_Notation = Callable[[datetime, float], str]


def _time_styles(package: Package, part: str | None) -> list[_Notation | None]:
    """Return for each cell style how its numbers are written if they are dates, times or durations."""
    if part is None or not package.has(part):
        return []
    root = package.tree(part)
    codes = {each.get("numFmtId"): each.get("formatCode", "") for each in root.iter("numFmt")}
    styles = root.find("cellXfs")
    return [_notation(each.get("numFmtId", "0"), codes) for each in (styles if styles is not None else ())]


def _notation(number: str, codes: dict[str | None, str]) -> _Notation | None:
    if number in codes:
        code = codes[number].partition(";")[0]
        if _DURATION_CODE.search(code):
            return _duration
        return _moment if "general" not in code.lower() and _DATE_CODE.search(_NO_CODE.sub("", code)) else None
    return _duration if number == _DURATION else _moment if _whole(number, -1) in _DATES else None


def _whole(digits: str, otherwise: int) -> int:
    """Return a number of a row, string or style, or `otherwise` for text that cannot be such a number."""
    return int(digits) if digits.isdecimal() and len(digits) <= _MOST_DIGITS else otherwise


def _moment(epoch: datetime, number: float) -> str:
    if epoch.year < 1900 and 1 <= number < _LEAP_DAY:
        number += 1  # this epoch is right behind the day that Excel counts and the calendar does not have
    try:
        moment = epoch + timedelta(seconds=round(number * 86_400))
    except OverflowError:  # behind the year 9999
        return f"{number:.15g}"
    if number < 1:
        return moment.strftime("%H:%M:%S")
    return moment.strftime("%Y-%m-%d" if moment.hour == moment.minute == moment.second == 0 else "%Y-%m-%d %H:%M:%S")


def _duration(_epoch: datetime, number: float) -> str:
    minutes, seconds = divmod(round(number * 86_400), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"


def _comments(package: Package, related: list[Relation]) -> list[str]:
    """Return the comments of a sheet, row by row; replies follow their comment."""
    threads: dict[str, list[str]] = {}
    notes: dict[str, list[str]] = {}
    for relation in related:
        if relation.kind == "threadedComment":
            for comment in package.tree(relation.target).iter("threadedComment"):
                threads.setdefault(comment.get("ref", ""), []).append(_words(comment, "text"))
        elif relation.kind == "comments":
            for comment in package.tree(relation.target).iter("comment"):
                notes.setdefault(comment.get("ref", ""), []).append(_words(comment, "t"))
    for place, texts in notes.items():  # Excel stores a copy of each thread for older programs
        if place not in threads or not texts[0].startswith(_THREADED):
            threads.setdefault(place, []).extend(texts)
    ordered = sorted(threads.items(), key=lambda thread: _place(thread[0]) or (0, 0))
    return [f"Comment on {place}: {' / '.join(filter(None, texts))}" for place, texts in ordered if any(texts)]


def _words(element: Element, name: str) -> str:
    return _line("".join(part.text or "" for part in element.iter(name)))


def _line(text: str) -> str:
    return " ".join(decoded(text).split())


def _destination(address: str) -> str:
    return f"<{address}>" if re.search(r"[\s()]", address) else address
