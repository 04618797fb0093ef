"""Prepare the tags of a page for the HTML parser: limit their nesting depth, and close the tags that XHTML closes by a slash.

The parser searches all open elements at every block: 800 kB of nested lists take it more than a minute. This module tracks
the open elements tag by tag, closely enough to the HTML standard that a page of normal depth is never changed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator

_DEEPEST = 1_000
"""Open elements; browsers stop at 512."""
_FEW = 20_000
"""Tags; a page with fewer is parsed in about a second at any depth."""
_LONGEST_VALUE = 2_000

_TAG = re.compile(rb"<(?:(!--)|(/?)([a-zA-Z][^\s/>]*))")
_REST = re.compile(rb"""(?:[^>"']|"[^"]{0,%d}"|'[^']{0,%d}')*+>""" % (_LONGEST_VALUE, _LONGEST_VALUE))


def _names(words: str) -> frozenset[bytes]:
    return frozenset(words.encode().split())


_VOID = _names("area base basefont bgsound br col embed frame hr img input keygen link meta param source track wbr")
_NOT_NESTED = _names("html head body option optgroup rt rp rb rtc image")
_RAW = {
    name: re.compile(rb"</" + name, re.IGNORECASE)
    for name in _names("script style textarea title iframe noembed noframes xmp")
}
_FORMATTING = _names("a b big code em font i nobr s small strike strong tt u")
_HEADINGS = _names("h1 h2 h3 h4 h5 h6")
_PARTS = {
    b"td": _names("tr tbody thead tfoot table"),
    b"th": _names("tr tbody thead tfoot table"),
    b"tr": _names("tbody thead tfoot table"),
    **dict.fromkeys(_names("tbody thead tfoot caption colgroup"), _names("table")),
}
"""The parts of a table. A start tag of a part closes all elements inside the innermost of the listed elements."""
_BARRIERS = _names("table td th caption object marquee applet template")
_CLOSE_P = _HEADINGS | _names("""
    address article aside blockquote center details dialog dir div dl fieldset figcaption figure footer form header
    hgroup listing main menu nav ol p pre search section summary table ul li dd dt plaintext""")
_SPECIAL = _CLOSE_P | _BARRIERS | frozenset(_PARTS) | _names("button select svg math noscript")
_BETWEEN = _SPECIAL - _names("address div p")
_CLOSING = {
    b"li": (_names("li"), _BETWEEN),
    b"dd": (_names("dd dt"), _BETWEEN),
    b"dt": (_names("dd dt"), _BETWEEN),
    b"button": (_names("button"), _BARRIERS),
}
"""The elements that a start tag closes, and the elements that stop the search for them."""
_P = _names("p")
_P_STOPS = _BARRIERS | _names("button")


_ATTRIBUTES = rb"""(?>(?:[^<>"']|"[^"<]*"|'[^'<]*')*)"""
_XML_PARTS = re.compile(
    rb"<!--.*?(?:-->|\Z)|(?P<instruction><\?.*?(?:\?>|\Z))|<!\[CDATA\[(?P<text>.*?)(?:\]\]>|\Z)"
    rb"|<(?:script|style)(?=[\s>])" + _ATTRIBUTES + rb"(?<!/)>.*?(?:</(?:script|style)|\Z)"
    rb"|<(?P<name>[a-z][\w.:-]*)(?P<attributes>" + _ATTRIBUTES + rb")(?<=/)>",
    re.IGNORECASE | re.DOTALL,
)
"""The parts of XML that the HTML parser reads differently, and parts that only look like them."""
_XHTML = b"http://www.w3.org/1999/xhtml"
_EMPTY_RAW = re.compile(rb"<(?:%s)(?=[\s/])" % b"|".join(_RAW) + _ATTRIBUTES + rb"(?<=/)>", re.IGNORECASE)
_FRAMESET = re.compile(rb"<frameset\b", re.IGNORECASE)
_FRAMES = re.compile(rb"</?(?:frameset|noframes)\b[^<>]*>", re.IGNORECASE)


def closed(page: bytes) -> bytes:
    """Return an XHTML page as HTML: an empty element has an end tag, and CDATA is text."""
    return _XML_PARTS.sub(_as_html, page)


def readable(page: bytes, *, is_xml: bool) -> bytes:
    """Return a page as HTML whose text the HTML parser finds, also the text for browsers without frames.

    A page in the namespace of XHTML may close a `title` or `script` by a slash; the rest would be its content.
    """
    if is_xml or (_XHTML in page[:_LONGEST_VALUE] and _EMPTY_RAW.search(page)):
        page = closed(page)
    # Beside frames, and only there, this text is for programs that do not show them.
    return _FRAMES.sub(b"", page) if _FRAMESET.search(page) else page


def _as_html(part: re.Match[bytes]) -> bytes:
    if part["name"]:
        name, attributes = part["name"], part["attributes"].removesuffix(b"/")
        return part[0] if name.lower() in _VOID else b"<%s%s></%s>" % (name, attributes, name)
    if part["text"] is not None:
        return part["text"].replace(b"&", b"&amp;").replace(b"<", b"&lt;")
    return b"" if part["instruction"] else part[0]


def flattened(page: bytes) -> bytes:
    """Return the page without the tags of elements nested more than 1 000 deep. Text is preserved."""
    if page.count(b"<") <= _FEW:
        return page
    parts: list[bytes] = []
    at = 0
    for start, end, name in _too_deep(page):
        parts += (page[at:start], b" " if name in _SPECIAL else b"")
        at = end
    return b"".join((*parts, page[at:])) if parts else page


def _too_deep(page: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield start, end and name of each tag to leave out."""
    opened, below, at = _Open(), Counter[bytes](), 0
    while tag := _TAG.search(page, at):
        at = tag.end()
        if tag[1]:
            if (end := page.find(b"-->", tag.start() + 2)) < 0:
                return
            at = end + 3
            continue
        is_end, name = bool(tag[2]), tag[3].lower()
        if name in _RAW:
            if is_end:
                continue
            if (closed := _RAW[name].search(page, at)) is None:
                return
            at = closed.end()
        elif name in _VOID or name in _NOT_NESTED:
            continue
        elif is_end and not below[name] and opened.has(name):
            if opened.end(name):
                below.clear()
        elif below or (not is_end and opened.depth >= _DEEPEST):
            if (end := _end_of_tag(page, at)) < 0:
                return
            yield tag.start(), end, name
            at = end
            if not is_end:
                below[name] += 1
            elif below[name] > 1:
                below[name] -= 1
            else:
                del below[name]
        elif not is_end and not (opened.is_foreign and _closes_itself(page, at)):
            opened.start(name)


def _end_of_tag(page: bytes, at: int) -> int:
    """Return the end of the tag with a name that ends at `at`, or -1 if the page ends first."""
    rest = _REST.match(page, at)
    return rest.end() if rest else page.find(b">", at) + 1 or -1


def _closes_itself(page: bytes, at: int) -> bool:
    end = _end_of_tag(page, at)
    return end > 1 and page[end - 2 : end] == b"/>"


class _Open:
    """The stack of open elements at a position in a page."""

    def __init__(self) -> None:
        self._names: list[bytes] = []
        self._counts: Counter[bytes] = Counter()

    @property
    def depth(self) -> int:
        return len(self._names)

    @property
    def is_foreign(self) -> bool:
        """Whether `svg` or `math` is open; elements inside them may be self-closing."""
        return bool(self._counts[b"svg"] or self._counts[b"math"])

    def has(self, name: bytes) -> bool:
        return self._counts[name] > 0

    def start(self, name: bytes) -> None:
        """Open an element and close the elements that the standard closes implicitly."""
        if name in _PARTS:
            if not self.has(b"table"):
                return
            self._cut(self._find(_PARTS[name], ()) + 1)
        elif name in _CLOSING:
            self._close(*_CLOSING[name])
        elif name in (b"a", b"nobr"):
            self._remove(name)
        elif name == b"form" and self.has(name):
            return
        if name in _CLOSE_P:
            self._close(_P, _P_STOPS)
            if name in _HEADINGS and self._names and self._names[-1] in _HEADINGS:
                self._cut(len(self._names) - 1)
        self._names.append(name)
        self._counts[name] += 1

    def end(self, name: bytes) -> bool:
        """Close an element and the elements inside it. Return False if the standard ignores the tag."""
        if name in _FORMATTING:
            return self._remove(name)
        stops: Collection[bytes] = _BARRIERS if name in _SPECIAL else _SPECIAL
        if name in _PARTS or name == b"table":
            stops = (b"table", b"template")
        return self._close({name}, stops)

    def _close(self, names: Collection[bytes], stops: Collection[bytes]) -> bool:
        if any(self._counts[name] for name in names) and (index := self._find(names, stops)) >= 0:
            self._cut(index)
            return True
        return False

    def _remove(self, name: bytes) -> bool:
        if not self.has(name):
            return False
        del self._names[self._find({name}, ())]
        self._counts[name] -= 1
        return True

    def _find(self, names: Collection[bytes], stops: Collection[bytes]) -> int:
        """Return the index of the innermost of these elements; -1 if none is open, or if a `stops` element is inside it."""
        for index in range(len(self._names) - 1, -1, -1):
            if self._names[index] in names:
                return index
            if self._names[index] in stops:
                return -1
        return -1

    def _cut(self, depth: int) -> None:
        for name in self._names[depth:]:
            self._counts[name] -= 1
        del self._names[depth:]
