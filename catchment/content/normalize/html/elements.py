"""The elements of HTML: which are separate lines, which are part of a line, and which have no text for a reader."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, Protocol

_BLOCK_NAMES = """
    address article aside blockquote body caption center dd details dialog dir div dl dt fieldset figcaption figure footer form
    frameset h1 h2 h3 h4 h5 h6 header hgroup hr html legend li listing main menu nav ol optgroup option p plaintext pre search
    section summary table tbody tfoot thead tr ul xmp"""
BLOCKS = frozenset(_BLOCK_NAMES.split())
"""Elements that start and end a line."""
_INLINE_NAMES = """
    a abbr acronym applet audio b bdi bdo big blink br button canvas cite code data del dfn em font i img ins kbd label map
    mark marquee meter multicol nobr object output picture progress q rb rt rtc ruby s samp slot small span strike strong sub
    sup td textarea th time tt u var video"""
INLINE = frozenset(_INLINE_NAMES.split())
"""Elements that are part of a line, as unknown elements are. The content of a media element replaces it in a text."""
_DROPPED_NAMES = """
    area base basefont bgsound col colgroup datalist embed frame head iframe input isindex keygen link math meta nextid noembed
    noframes noscript param rp script select selectedcontent source spacer style svg template title track wbr -comment"""
DROPPED = frozenset(_DROPPED_NAMES.split())
"""Elements without text, or with text that is for programs, for no reader, or a choice in a form."""

HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
LISTS = frozenset({"ul", "ol", "menu", "dir"})
CODE = frozenset({"pre", "listing", "xmp", "plaintext"})
READINGS = frozenset({"rt", "rtc"})
"""How the words of a `ruby` element are read."""

_PANELS = BLOCKS - CODE
_LEAVES = frozenset({"-text", "img"})
_NAMING = frozenset({*HEADINGS, "dt", "summary", "legend", "caption", "figcaption"})
_OPENS = frozenset({"aria-expanded", "aria-controls"})
_SPACE = re.compile(r"\s+")


class Visitor(Protocol):
    """The callbacks of `walk`: `enter` for each element and text, `leave` for each element."""

    def enter(self, node: Any) -> None: ...

    def leave(self, node: Any) -> None: ...


def walk(root: Any, visitor: Visitor, unseen: Collection[int] = ()) -> None:
    """Visit an element and all below it without recursion: a page may nest deeper than Python's stack.

    Elements without text are left out, and elements that `unseen` names by `mem_id`.
    """
    top = root.mem_id if root is not None else 0
    node = root
    while node is not None:
        tag = node.tag
        if tag not in DROPPED and node.mem_id not in unseen and (tag != "button" or is_content(node)):
            visitor.enter(node)
            if node.child is not None and tag not in _LEAVES:
                node = node.child
                continue
            if tag != "-text":
                visitor.leave(node)
        while node is not None and node.mem_id != top and node.next is None:
            node = node.parent
            if node is not None:
                visitor.leave(node)
        node = node.next if node is not None and node.mem_id != top else None


def is_content(button: Any) -> bool:
    """Return whether the words of a button are content: it opens or names a part of the page, or is in a sentence."""
    if not _OPENS.isdisjoint(button.attributes):
        return True
    block = button.parent
    while block is not None and block.tag in INLINE:
        block = block.parent
    if block is not None and block.tag in _NAMING:
        is_first = block.css_first("button").mem_id == button.mem_id
        return is_first and bool(block.text(strip=True) == button.text(strip=True))
    before, after = button.prev, button.next
    if any(node is not None and node.tag == "-text" and (node.text_content or "").strip() for node in (before, after)):
        return True
    while after is not None and after.tag not in BLOCKS and after.tag != "button":
        after = after.next
    return after is not None and after.tag in _PANELS and after.css_first("pre, input, button") is None


def words_of(element: Any) -> str:
    """Return the words of an element on one line, without the readings of ruby."""
    words = _Words()
    walk(element, words)
    return _SPACE.sub(" ", "".join(words.parts)).strip()


class _Words:
    def __init__(self) -> None:
        self.parts: list[str] = []
        self._readings = 0

    def enter(self, node: Any) -> None:
        tag = node.tag
        if tag == "-text" and not self._readings:
            self.parts.append(node.text_content or "")
        elif tag == "br" or tag in BLOCKS:
            self.parts.append(" ")
        self._readings += tag in READINGS

    def leave(self, node: Any) -> None:
        self._readings -= node.tag in READINGS
