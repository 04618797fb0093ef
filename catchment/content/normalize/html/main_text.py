"""Read the main text of a web page, without its navigation, comments and advertisements.

trafilatura selects the text, and `html` writes the selected part of the page as Markdown: trafilatura's own output loses the
numbers of lists, nested tables and code. Prose of an article that it drops is put back. Pages without main text
are read whole, except for the navigation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Any
from unicodedata import normalize
from urllib.parse import urljoin

from catchment.content.normalize.decode import charset_of, decode
from catchment.content.normalize.html import (
    LARGE,
    markdown_of,
    meta,
    named_language,
    page_of,
    tree_of,
)
from catchment.content.normalize.html.elements import BLOCKS, HEADINGS, READINGS, is_content, walk
from catchment.content.normalize.html.facts import facts_of
from catchment.content.normalize.language_detection import language
from catchment.model import Document
from catchment.runtime.system.linux import trim_memory

_WHOLE = re.compile(rb"<(?:!doctype|html|head|body|title)\b", re.IGNORECASE)
"""A page has one of these tags. Markup without them, such as the content of a feed entry, has no navigation."""
_SELECTED_BYTES, _SELECTED_LINES, _SELECTED_NODES = 3_000_000, 10_000, 40_000
"""Larger pages, which are manuals and lists, are read whole: the time for a selection grows with the square of the lines."""
_NAVIGATION = """
    nav, aside, footer, form, body > header, [hidden], [aria-hidden=true], [role=navigation], [role=banner], [role=contentinfo],
    [role=complementary], [role=search]"""
_TAKEN_FOR_CONTROLS = ", ".join(
    f"{name}:not(nav *, header *, footer *, aside *, form *)"
    for name in ("button", "label", "fieldset", "legend", "output")
)
_HOLDERS = BLOCKS - HEADINGS.keys() - {"p", "summary", "dt", "caption"}
_READINGS = re.compile(r"<(rt|rtc|rp)\b[^<>]*>.{0,1000}?</\1>|</?(?:ruby|rb)\b[^<>]*>", re.DOTALL)
_LAZY = ("data-src", "data-lazy-src", "data-original")
"""The address of a picture that a script loads late; its `src` is a placeholder."""
_SCRIPTS = re.compile(r"\A.{0,200}\bjava[- ]?script(?!\w).{0,300}\Z", re.IGNORECASE | re.DOTALL)
"""A text that requests JavaScript, in any language, and is too short for much other content."""
_LEAVES = frozenset({"-text", "img", "hr", "br"})
_BREAKS = BLOCKS | {"br", "td", "th"}
_WORD = re.compile(r"\w+")
_BETWEEN_LINES = re.compile(r"\n| \| ")
_GRAM = 4
"""Words. Shorter lines are common in navigation too; they count only between lines of the main text."""
_LEAST_SHARE = 0.6
"""Share of the word sequences of a line that are in the selected text."""
_PROSE = 12
"""Words of a line, most of them outside links, from which it is prose."""
_LEAST_PROSE, _MOST_LINKS = 0.2, 0.5
"""Shares of the prose and of the linked words of a page; with less prose or more links, a selection is no main text."""
_LEADS = ("description", "og:description", "twitter:description")
_LEAST_WRITTEN = 0.33
"""If the body has less than this share of the selected words, the selection replaces it: `html` omits `noscript` and others."""
_LOGIN_CHARACTERS = 500


def web_page(data: bytes, address: str, media_type: str = "text/html", encoding: str | None = None) -> Document:
    """Read the main text of the page at this address. Markup that is not a whole page is kept, with absolute links."""
    text, warnings, guess = decode(data, encoding, charset_of(data))
    page = page_of(text, media_type)
    tree = tree_of(page)
    base = _made_absolute(tree, address)
    is_large, is_whole = len(page) >= LARGE, bool(_WHOLE.search(page))
    if len(page) > _SELECTED_BYTES:
        text = ""  # free it early
    elif is_whole:
        text = _for_selection(tree, page.decode())
    del page
    fields = meta(tree)
    leads = {"".join(_words(fields.get(key, ""))) for key in _LEADS}
    unseen, selected = _unseen(tree, text, leads) if is_whole else (set[int](), "")
    body = markdown_of(tree, frozenset(unseen)).replace("\xad", "")
    if selected and len(_words(selected)) * _LEAST_WRITTEN > len(_words(body)):
        body = selected
    document = facts_of(tree, fields, base, media_type)
    named = named_language(tree)
    asks_for_login = len(body) < _LOGIN_CHARACTERS and tree.css_first("input[type=password]") is not None
    del tree
    if is_large:
        trim_memory()
    return replace(
        document,
        text=body,
        language=named or language(body),
        properties=dict(sorted({**document.properties, **guess}.items())),
        warnings=(*warnings, "the page asks for a login") if asks_for_login else warnings,
    )


def _made_absolute(tree: Any, address: str) -> str:
    """Make links and images of the page absolute. Return the base address."""
    base = tree.css_first("base[href]")
    base = _joined(address, (base.attributes.get("href") or "") if base else "")
    for name, nodes in (("href", tree.css("a[href]")), ("src", tree.css("img"))):
        for node in nodes:
            lazy = [node.attributes.get(each) for each in _LAZY] if name == "src" else []
            target = (next(filter(None, lazy), None) or node.attributes.get(name) or "").strip()
            if target and not target.startswith(("#", "data:", "javascript:", "mailto:")):
                node.attrs[name] = _joined(base, target)
    return base


def _joined(base: str, target: str) -> str:
    try:
        return urljoin(base, target)
    except ValueError:  # an address such as "http://[1"
        return target


def _for_selection(tree: Any, page: str) -> str:
    """Return the page without obstacles for the library: elements that it would drop by name, and readings of ruby.

    In the tree these elements are replaced by their content.
    """
    controls = [node for node in tree.css(_TAKEN_FOR_CONTROLS) if node.tag != "button" or is_content(node)]
    for node in controls:
        is_line = node.tag != "fieldset" and node.parent.tag in _HOLDERS
        if is_line and (node.next is None or node.next.tag in BLOCKS):
            line = tree.create_node("p")
            for part in node.iter(include_text=True):
                line.insert_child(part)
            node.replace_with(line)
        else:
            node.unwrap()
    for box in (boxes := tree.css("[class*=toolbar]:has(pre)")):
        box.attrs["class"] = "code"
    for request in (requests := [node for node in tree.css("noscript") if _SCRIPTS.search(node.text())]):
        request.decompose()
    is_changed = boxes or controls or requests or tree.css_first("ruby") is not None
    return _READINGS.sub("", tree.html) if is_changed else page


def _unseen(tree: Any, page: str, leads: set[str]) -> tuple[set[int], str]:
    """Return the `mem_id`s of the nodes outside the main text, and the main text as trafilatura selects it."""
    selected, in_text = "", list[bool]()
    if page:
        lines = _Lines()
        walk(tree.body or tree.root, lines)
        if lines.are_few():
            selected, in_text = _selection(lines.lines, page, leads)
    unseen = lines.outside(in_text) if selected else {node.mem_id for node in tree.css(_NAVIGATION)}
    signs = (link for link in tree.css("a[href^='#']") if not _words(link.text()))  # such as "¶" beside a heading
    return unseen | {link.mem_id for link in signs}, selected


def _selection(lines: list[_Line], page: str, leads: set[str]) -> tuple[str, list[bool]]:
    """Return the main text as trafilatura selects it, and for each line of the page whether it is of the main text.

    If the quick selection is not a main text, the selection by two more algorithms is used. It takes twice the time, and often
    adds the next article of the page.
    """
    selected, in_text = "", list[bool]()
    for is_quick in (True, False):
        selected = _selected(page, is_quick)
        in_text = _lines_in_text(lines, selected, leads)
        if _is_main(lines, in_text):
            break
    return selected, in_text


def _selected(page: str, is_quick: bool) -> str:
    """Return the main text as trafilatura selects it, or ""."""
    import trafilatura

    try:
        return trafilatura.extract(page, include_comments=False, fast=is_quick) or ""
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - a page that it cannot read is read whole, whatever it raises
        return ""


@dataclass(slots=True)
class _Line:
    """The texts and images between two line breaks of a page."""

    nodes: list[int] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    linked: int = 0
    """Number of words within links."""
    place: int = 0
    """Hash of the names and classes of the blocks around the line, within its article."""

    @property
    def is_prose(self) -> bool:
        return len(self.words) >= _PROSE and self.linked * 2 <= len(self.words)


class _Lines:
    """Visits a tree and collects its lines, and the range of lines of each `pre` element."""

    def __init__(self) -> None:
        self.lines = [_Line()]
        self.code: list[tuple[int, int, int]] = []
        self._starts: list[int] = []
        self._readings = self._links = 0
        self._places = [0]

    def enter(self, node: Any) -> None:
        tag = node.tag
        if tag in _LEAVES:
            self.lines[-1].nodes.append(node.mem_id)
        if tag in _BREAKS:
            self._end_line()
            kind = node.mem_id if tag == "article" else node.attributes.get("class")
            self._places.append(hash((self._places[-1], tag, kind)))
        self._readings += tag in READINGS
        self._links += tag == "a"
        if tag == "-text" and not self._readings:
            words, line = _words(node.text_content or ""), self.lines[-1]
            line.words += words
            line.linked += len(words) if self._links else 0
            line.place = self._places[-1]
        elif tag == "pre":
            self._starts.append(len(self.lines) - 1)

    def leave(self, node: Any) -> None:
        tag = node.tag
        self._readings -= tag in READINGS
        self._links -= tag == "a"
        if tag == "pre":
            self.code.append((node.mem_id, self._starts.pop(), len(self.lines)))
        if tag in _BREAKS:
            self._end_line()
            self._places.pop()

    def are_few(self) -> bool:
        nodes = sum(len(line.nodes) for line in self.lines)
        return len(self.lines) <= _SELECTED_LINES and nodes <= _SELECTED_NODES

    def outside(self, in_text: list[bool]) -> set[int]:
        """Return the `mem_id`s of the nodes of the lines that are not kept."""
        nodes = {node for line, is_kept in zip(self.lines, in_text, strict=True) if not is_kept for node in line.nodes}
        return nodes | {node for node, start, end in self.code if not any(in_text[start:end])}

    def _end_line(self) -> None:
        if self.lines[-1].nodes:
            self.lines.append(_Line())


def _words(text: str) -> list[str]:
    return _WORD.findall(normalize("NFC", text))


def _lines_in_text(lines: list[_Line], selected: str, leads: set[str]) -> list[bool]:
    """Return for each line whether it is part of the selected text, or prose that belongs to it.

    Lines are aligned with those of the selected text. The remaining text had other line breaks; its lines are found by words.
    """
    worded = [index for index, line in enumerate(lines) if line.words]
    text_lines = [words for line in _BETWEEN_LINES.split(selected) if (words := _words(line))]
    in_text = [False] * len(lines)
    for block in SequenceMatcher(
        None, ["".join(lines[index].words) for index in worded], ["".join(words) for words in text_lines]
    ).get_matching_blocks():
        for index in worded[block.a : block.a + block.size]:
            in_text[index] = True
        text_lines[block.b : block.b + block.size] = [[]] * block.size
    unmatched = [word for words in text_lines for word in words]
    grams = {gram for size in range(1, _GRAM + 1) for gram in _grams(unmatched, size)}
    for index in worded:
        words = lines[index].words
        if not in_text[index] and len(words) >= _GRAM:
            line_grams = _grams(words, _GRAM)
            in_text[index] = sum(gram in grams for gram in line_grams) >= _LEAST_SHARE * len(line_grams)
    _add_prose(lines, in_text, leads)
    if any(in_text):
        first, last = in_text.index(True), len(in_text) - in_text[::-1].index(True)
        for index in worded:
            if first < index < last and len(lines[index].words) < _GRAM:
                in_text[index] |= tuple(lines[index].words) in grams
    for before, after in pairwise(worded):
        if in_text[before] and in_text[after]:
            in_text[before:after] = [True] * (after - before)
    return in_text


def _add_prose(lines: list[_Line], in_text: list[bool], leads: set[str]) -> None:
    """Keep the prose that has the place of kept prose, and before it the lead, which the page states as its description.

    trafilatura takes the first of the elements if advertisements divide the body of an article.
    """
    prose = [index for index, line in enumerate(lines) if line.is_prose]
    first = next((index for index in prose if in_text[index]), 0)
    places = {lines[index].place for index in prose if in_text[index]}
    for index in prose:
        is_lead = index < first and "".join(lines[index].words) in leads
        in_text[index] |= is_lead or lines[index].place in places


def _is_main(lines: list[_Line], in_text: list[bool]) -> bool:
    """Return whether the kept lines are a main text: a good part of the prose, without most of the links."""
    main_lines = [line for line, is_kept in zip(lines, in_text, strict=True) if is_kept]
    prose, all_prose = (sum(len(line.words) for line in part if line.is_prose) for part in (main_lines, lines))
    links, all_links = (sum(line.linked for line in part) for part in (main_lines, lines))
    return prose > _LEAST_PROSE * all_prose and links <= _MOST_LINKS * all_links


def _grams(words: list[str], size: int) -> list[tuple[str, ...]]:
    return [tuple(words[start : start + size]) for start in range(len(words) - size + 1)]
