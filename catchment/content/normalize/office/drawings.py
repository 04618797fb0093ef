"""Read the text of drawings in office files: text boxes, charts and diagrams of DrawingML (ECMA-376 part 1, 20 and 21)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from xml.etree.ElementTree import Element

from catchment.content.normalize.packages import Package, Relation
from catchment.errors import ParseError, ResourceExhausted

_MAX_LABELS = 200
"""Labels read per chart."""


def paragraphs(root: Element) -> list[str]:
    """Return the paragraphs of all DrawingML text bodies below an element."""
    texts = (" ".join("".join(_runs(paragraph)).split()) for paragraph in root.iter("p"))
    return [text for text in texts if text]


def beside(package: Package, relations: list[Relation]) -> tuple[list[str], list[str]]:
    """Return a line for each chart and diagram in the relationships, and warnings for unreadable parts."""
    lines: list[str] = []
    unread = 0
    for relation in relations:
        read = _READERS.get(relation.kind)
        if read is None:
            continue
        try:
            lines += read(package.tree(relation.target))
        except (ParseError, ResourceExhausted):
            unread += 1
    return lines, [f"unreadable charts or diagrams: {unread}"] if unread else []


def _chart(root: Element) -> list[str]:
    """Return the titles, series and categories of a chart on one line, without numbers."""
    titles = [" ".join(paragraphs(title)) for title in root.iter("title")]
    labels = chain.from_iterable(_labels(each) for name in ("tx", "cat", "xVal", "strDim") for each in root.iter(name))
    return chart_line(filter(None, (*titles, *labels)))


def chart_line(words: Iterable[str]) -> list[str]:
    """Return the words of a chart on one line, each once; no line without words."""
    labels = [*dict.fromkeys(words)][:_MAX_LABELS]
    return [f"Chart: {'; '.join(labels)}"] if labels else []


def _labels(element: Element) -> Iterator[str]:
    for cache in ("strCache", "strLit", "multiLvlStrCache", "lvl", "txData"):
        for values in element.iter(cache):
            for value in chain(values.iter("v"), values.iter("pt")):
                yield " ".join((value.text or "").split())


def _diagram(root: Element) -> list[str]:
    words = paragraphs(root)
    return [f"Diagram: {'; '.join(words)}"] if words else []


def formula(element: Element) -> str:
    """Return a formula (ECMA-376 part 1, 22.1) on one line, with signs for powers, indices and fractions."""
    if element.tag == "t":
        return element.text or ""
    inside = "".join(map(formula, element))
    return SIGNS.get(element.tag, "") + inside if inside else ""


SIGNS = {"sup": "^", "sub": "_", "den": "/"}
"""The signs before the parts of a formula."""
_READERS = {"chart": _chart, "chartEx": _chart, "diagramData": _diagram}


def _runs(paragraph: Element) -> Iterator[str]:
    for element in paragraph.iter():
        if element.tag == "t":
            yield element.text or ""
        elif element.tag in ("br", "tab"):
            yield " "
