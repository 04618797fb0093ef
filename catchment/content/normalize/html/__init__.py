"""Convert web pages to Markdown. Headings, lists, tables, quotations, code and links are kept; scripts and styles are not."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from catchment.content.normalize.decode import charset_of, decode
from catchment.content.normalize.formats import XHTML
from catchment.content.normalize.html.elements import BLOCKS, CODE, HEADINGS, LISTS, READINGS, walk
from catchment.content.normalize.html.nesting import flattened, readable
from catchment.content.normalize.html.page_titles import title_of
from catchment.content.normalize.language_detection import declared_language, language
from catchment.model import Document, time_of
from catchment.runtime.system.linux import trim_memory

_RAISED = frozenset({"sup", "sub", *READINGS})
_SPACE = re.compile(r"[ \t\n\r\f\xa0]+")
_TICKS = re.compile(r"[> \t]*(`{3,})")
_IN_BRACKETS = re.compile(r"\[[^\[\]]*\]")
_BRACKET = re.compile(r"[\[\]\\]")
_BETWEEN_CELLS = " |\xa0\t\n\r\f"
_NUMBER = re.compile(r"[0-9]{1,9}\Z")
_PART_OF_THE_WORD = re.compile(r"\W*|[A-Za-z\xc0-\xff]{2,}\.?|[aeor]\.?|\[.*")
"""Raised texts that need no mark: signs, an abbreviation, an ordinal such as 1st and XIXe, or a number in brackets."""
_BLANK_LINES = re.compile(r"\n{3,}")
_MARKUP = re.compile(r"</?[a-zA-Z]|<!--|&#?\w+;")
LARGE = 1_000_000
"""Bytes; larger pages are reduced before parsing, because the tree takes twelve times the memory of the page."""
_SPANS = re.compile(rb"""<(?:/span\s*|span(?:\s(?:[^<>"']|"[^"<>]*"|'[^'<>]*')*)?)>""", re.IGNORECASE)
"""Tags without meaning in Markdown. In a manual with highlighted code they are two fifths of the tree."""
_TITLE_END = re.compile(rb"</title\s*>", re.IGNORECASE)
_AUTHOR = ("author", "dc.creator", "article:author")
_CREATED = ("article:published_time", "date", "dc.date", "dcterms.created")
_MODIFIED = ("article:modified_time", "last-modified", "dcterms.modified")


def html(data: bytes, media_type: str = "text/html", encoding: str | None = None) -> Document:
    """Read a page into a document, repairing it as browsers do. `encoding` applies if the page declares none."""
    text, warnings, guess = decode(data, charset_of(data), encoding)
    page = page_of(text, media_type)
    del text  # free it early: a large page and its tree set the peak of memory
    is_large = len(page) >= LARGE
    tree = tree_of(page)
    del page
    writer = _written(tree, frozenset())
    fields = meta(tree)
    title = title_of(tree, fields, fields.get("og:site_name"))
    named = named_language(tree)
    del tree
    if is_large:
        trim_memory()
    body = writer.text()
    return Document(
        text=body,
        media_type=media_type,
        title=title,
        language=named or language(body),
        author=next((fields[key] for key in _AUTHOR if key in fields), None),
        created=_moment(fields, _CREATED),
        modified=_moment(fields, _MODIFIED),
        properties={key: fields[key] for key in ("description", "keywords") if key in fields} | dict(guess),
        warnings=warnings,
    )


def page_of(text: str, media_type: str) -> bytes:
    """Return a page in UTF-8 as HTML."""
    return readable(text.encode("utf-8", "replace"), is_xml=media_type == XHTML)


def tree_of(page: bytes) -> Any:
    """Parse a page in UTF-8."""
    from selectolax.lexbor import LexborHTMLParser

    return LexborHTMLParser(flattened(_without_spans(page) if len(page) >= LARGE else page))


def markdown_of(tree: Any, unseen: frozenset[int] = frozenset()) -> str:
    """Return the body as Markdown, without the elements that `unseen` names by `mem_id`."""
    return _written(tree, unseen).text()


def fragment(text: str) -> str:
    """Return text that may be HTML, such as a label or a description, as Markdown."""
    return markdown_of(tree_of(text.encode("utf-8", "replace"))) if _MARKUP.search(text) else text


def _written(tree: Any, unseen: frozenset[int]) -> _Writer:
    writer = _Writer()
    walk(tree.body or tree.root, writer, unseen)
    return writer


def _without_spans(page: bytes) -> bytes:
    """Remove `span` tags after the title; in a title they would be text."""
    title = _TITLE_END.search(page)
    start = title.end() if title else 0
    return page[:start] + _SPANS.sub(b"", page[start:])


class _Writer:
    """Builds the text line by line as the walk enters and leaves elements."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._line: list[str] = []
        self._lists: list[int | None] = []
        self._quotes = 0
        self._fences: list[int] = []
        """For each open `pre`, the index of the line where it starts."""
        self._links: list[tuple[int, str]] = []
        self._raised: list[int] = []
        """For each open `sup`, `sub` and reading, the length of the line where it starts."""
        self._readings: list[str] = []
        self._ruby_end = -1
        """The length of the line where the last `ruby` ended."""
        self._lead = ""
        self._in_heading = False
        self._seamless: set[int] = set()
        """The `mem_id`s of blocks that are the only content of a cell; they do not start a line."""

    def text(self) -> str:
        self._end_line()
        return _BLANK_LINES.sub("\n\n", "\n".join(self._lines)).strip("\n")

    def enter(self, node: Any) -> None:
        tag = node.tag
        if tag == "-text":
            self._words(node.text_content or "")
        elif tag == "br":
            self._line.append("\n" if self._fences else " " if self._in_heading else " \n")
        elif tag == "img":
            self._image(node.attributes)
        elif tag == "a":
            self._links.append((len(self._line), (node.attributes.get("href") or "").strip()))
        elif tag in ("td", "th"):
            self._line.append(" | " if any(self._line) else "")
            if (block := _only_block(node)) is not None:
                self._seamless.add(block)
        elif tag in BLOCKS:
            if self._is_line(node):
                self._open(node)
        elif tag in _RAISED:
            self._raised.append(len(self._line))
        elif tag == "ruby" and len(self._line) != self._ruby_end:
            self._readings.append("")

    def leave(self, node: Any) -> None:
        tag = node.tag
        if tag == "a" and self._links:
            self._link(*self._links.pop())
        elif tag in BLOCKS:
            if self._is_line(node):
                self._end_line()
                self._close(tag)
        elif tag == "ruby":
            self._ruby_end = len(self._line)
        elif tag in _RAISED:
            start = self._raised.pop()
            words = "".join(self._line[start:])
            if tag in READINGS:
                self._readings[-1:] = ["".join((*self._readings[-1:], words.strip()))]
                del self._line[start:]
            elif words.strip():
                self._line[start:] = [self._marked(node, words, self._line[start - 1] if start else "")]

    def _marked(self, node: Any, words: str, before: str) -> str:
        """Return raised or lowered words with marks, unless they are part of the word before them."""
        plain = words.strip()
        if node.tag == "sup":
            return words if _PART_OF_THE_WORD.fullmatch(plain) else f"^{plain}^"
        after = node.next.text_content if node.next is not None and node.next.tag == "-text" else ""
        makes_number = (before[-1:].isdigit() and plain[0].isdigit()) or (
            plain[-1].isdigit() and (after or "")[:1].isdigit()
        )
        return f"~{plain}~" if makes_number else words

    def _is_line(self, block: Any) -> bool:
        return not (self._seamless and block.mem_id in self._seamless)

    def _open(self, node: Any) -> None:
        self._end_line()
        tag = node.tag
        if tag in LISTS:
            self._lists.append(_first_number(node) - 1 if tag == "ol" else None)
        elif tag == "li":
            self._lead = self._bullet()
        elif tag == "blockquote":
            self._quotes += 1
        elif tag in CODE:
            self._fences.append(len(self._lines))
            if len(self._fences) == 1:
                self._emit("```")
            self._lead = ""
        elif tag == "hr":
            if self._lines and self._lines[-1].strip("> "):
                self._emit("")  # otherwise the rule would make the line above a heading
            self._emit("---")
        elif tag in HEADINGS:
            self._emit("")
            self._lead = HEADINGS[tag]
            self._in_heading = True

    def _close(self, tag: str) -> None:
        if tag in LISTS and self._lists:
            self._lists.pop()
        elif tag == "blockquote":
            self._quotes -= 1
            while self._lines and self._lines[-1].startswith(">") and not self._lines[-1].strip("> "):
                self._lines.pop()
        elif tag in CODE:
            start = self._fences.pop()
            if not self._fences:
                self._end_code(start)
        if tag in HEADINGS or tag == "li":
            self._lead = ""
            self._in_heading = False
        if (
            tag in ("p", "blockquote", "table", "figure", "dl")
            or tag in HEADINGS
            or tag in CODE
            or (tag in LISTS and not self._lists)
        ):
            self._emit("")

    def _end_code(self, start: int) -> None:
        """Close the fence, making it longer than any fence in the code."""
        ticks = max((len(match[1]) for line in self._lines[start + 1 :] if (match := _TICKS.match(line))), default=0)
        fence = "`" * max(3, ticks + 1)
        self._lines[start] = self._lines[start].replace("```", fence)
        self._emit(fence)

    def _bullet(self) -> str:
        indent = "   " * min(max(len(self._lists) - 1, 0), 8)
        if self._lists and (number := self._lists[-1]) is not None:
            self._lists[-1] = number + 1
            return f"{indent}{number + 1}. "
        return f"{indent}- "

    def _words(self, text: str) -> None:
        if self._fences:
            self._line.append(text)
        elif words := _SPACE.sub(" ", text):
            self._line.append(words if self._line else words.lstrip())

    def _image(self, attributes: dict[str, str | None]) -> None:
        alt = _SPACE.sub(" ", attributes.get("alt") or "").strip()
        source = (attributes.get("src") or "").strip()
        if alt and source and not source.startswith("data:"):
            self._line.append(f"![{alt}]({_destination(source)})")
        elif alt:
            self._line.append(alt)

    def _link(self, start: int, address: str) -> bool:
        """Turn the line from `start` into a link; return whether it is one."""
        if not address or address.startswith(("#", "javascript:", "data:")) or self._fences:
            return False
        words = "".join(self._line[start:])
        self._line[start:] = [linked(words, address)]
        return self._line[start] != words

    def _end_line(self) -> None:
        if self._links:  # a link that spans lines applies to the first line with text
            self._links = [(0, "" if self._link(start, address) else address) for start, address in self._links]
        text, self._line = "".join(self._line), []
        if self._raised:
            self._raised = [0] * len(self._raised)
        if self._readings and text.strip() and (readings := [*filter(None, dict.fromkeys(self._readings))]):
            text = f"{text.rstrip()} ({', '.join(readings)})"  # at the end of the line they split no phrase
            self._readings = []
            self._ruby_end = -1
        if self._fences:
            if text.strip("\n"):
                self._emit(text.strip("\n"))
            return
        text = "\n".join(_SPACE.sub(" ", line).strip() for line in text.split("\n")).strip()
        if text:
            self._emit(self._lead + text)
            self._lead = ""

    def _emit(self, text: str) -> None:
        mark = "> " * min(self._quotes, 8)
        self._lines += ((mark + line).rstrip() if mark else line for line in text.split("\n"))


def _only_block(cell: Any) -> int | None:
    """Return the `mem_id` of the paragraph that is the only content of a cell, or None."""
    block = _first_nonblank(cell.child)
    is_alone = block is not None and block.tag in ("p", "div") and _first_nonblank(block.next) is None
    return block.mem_id if is_alone else None


def _first_nonblank(node: Any) -> Any:
    """Return the first of this node and its next siblings that is not white space."""
    while node is not None and node.tag == "-text" and not (node.text_content or "").strip():
        node = node.next
    return node


def _first_number(numbered: Any) -> int:
    start = (numbered.attributes.get("start") or "").strip()
    return int(start) if _NUMBER.match(start) else 1


def linked(words: str, address: str) -> str:
    """Return words as a link, with the spaces around them outside; blank words as they are."""
    if not (label := _label(words.rstrip(_BETWEEN_CELLS).strip("^"))):
        return words
    ends = words[: len(words) - len(words.lstrip())], words[len(words.rstrip(_BETWEEN_CELLS)) :]
    return f"{ends[0]}[{label}]({_destination(address)}){ends[1]}"


def _label(words: str) -> str:
    """Return the label of a link on one line, with brackets escaped if they would end it."""
    label = " ".join(words.split())
    is_plain = "[" not in label and "]" not in label and "\\" not in label
    if is_plain or "](" in label or not _BRACKET.search(_IN_BRACKETS.sub("", label)):
        return label
    return _BRACKET.sub(r"\\\g<0>", label)


def _destination(address: str) -> str:
    if not re.search(r"[\s()<>]", address):
        return address
    address = re.sub(r"[\t\n\r]", "", address).replace("<", "%3C").replace(">", "%3E")
    return f"<{address}>" if re.search(r"[\s()]", address) else address


def meta(tree: Any) -> dict[str, str]:
    fields: dict[str, str] = {}
    for node in tree.css("meta"):
        key = (node.attributes.get("name") or node.attributes.get("property") or "").strip().lower()
        content = _SPACE.sub(" ", node.attributes.get("content") or "").strip()
        if key and content:
            fields.setdefault(key, content)
    return fields


def _moment(fields: dict[str, str], keys: tuple[str, ...]) -> datetime | None:
    return next((moment for key in keys if key in fields and (moment := time_of(fields[key].strip()))), None)


def named_language(tree: Any) -> str | None:
    roots = (element.attributes for element in (tree.css_first("html"), tree.body) if element)
    names = (root.get(name) for root in roots for name in ("lang", "xml:lang"))
    return next(filter(None, map(declared_language, names)), None)
