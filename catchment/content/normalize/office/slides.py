"""Read the slides of a presentation in their order (ECMA-376 part 1, 19.3 and 21.1), with the descriptions of pictures.

Emphasis is omitted. `unread` adds notes, comments, charts and diagrams.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from xml.etree.ElementTree import Element

from catchment.content.normalize.office import drawings
from catchment.content.normalize.office.flow import Flow
from catchment.content.normalize.packages import Package
from catchment.errors import ParseError, ResourceExhausted

_TITLES = frozenset({"title", "ctrTitle"})
_LISTS = frozenset({"body", "obj", None})
"""Placeholders with paragraphs that are elements of lists, unless the paragraphs state otherwise."""
_SHAPES = frozenset({"sp", "graphicFrame", "pic", "cxnSp"})


def text(package: Package, parts: Iterable[str]) -> tuple[str, list[str]]:
    """Return the text of slides, and warnings."""
    texts, unreadable = [], 0
    for part in parts:
        try:
            texts.append(_slide(package, part))
        except (ParseError, ResourceExhausted):
            unreadable += 1
    return "\n\n".join(filter(None, texts)), [f"slides not read: {unreadable}"] if unreadable else []


def in_order(package: Package) -> list[str]:
    """Return the parts of the slides in the order in which they are shown, and at the end the parts that no list names.

    Raises ParseError if there is no presentation.
    """
    if (main := package.main_part) is None:
        raise ParseError("cannot be read as a presentation; open it in its own program and save it again")
    slides = {relation.id: relation.target for relation in package.relations(main) if relation.kind == "slide"}
    listed = (slides.get(each.get("r:id", "")) for each in package.tree(main).iter("sldId"))
    return [*dict.fromkeys((*filter(None, listed), *slides.values()))]


def _slide(package: Package, part: str) -> str:
    links = {relation.id: relation.target for relation in package.relations(part) if relation.is_external}
    flow = Flow()
    for shape in _shapes(package.tree(part)):
        place = shape.find(".//nvPr/ph")
        kind = None if place is None else place.get("type")
        if kind == "sldNum":
            continue
        properties = shape.find("*/cNvPr")
        address = _address(properties, links)
        for row in shape.iter("tr"):
            for cell in row.iter("tc"):
                if cell.get("hMerge") != "1" and cell.get("vMerge") != "1":
                    for paragraph in cell.iter("p"):
                        _write(flow, paragraph, links)
                        flow.write("\n")
                flow.end_cell()
            flow.end_row()
        flow.end_table()
        is_title, is_list = kind in _TITLES, place is not None and kind in _LISTS
        for paragraph in shape.findall("txBody/p"):
            _write(flow, paragraph, links, address)
            if not is_title:
                flow.end_paragraph(_mark(paragraph, is_list=is_list))
            else:
                flow.write("\n")
        flow.end_paragraph("## " if is_title else "")
        words = "" if properties is None else properties.get("descr", "")
        flow.write(words, address)
        if not words and not any(each.text for each in shape.iter("t")):
            flow.write(address)
        flow.end_paragraph()
    return flow.text()


def _shapes(root: Element) -> Iterator[Element]:
    """Yield the shapes of a slide in their order, also of groups, without the pictures for programs that are too old."""
    waiting = [root]
    while waiting:
        element = waiting.pop()
        if element.tag in _SHAPES:
            yield element
        elif element.tag != "Fallback":
            waiting += reversed(element)


def _mark(paragraph: Element, *, is_list: bool) -> str:
    look = paragraph.find("pPr")
    look = Element("pPr") if look is None else look
    level = look.get("lvl", "0")
    indent = "  " * min(int(level), 8) if level.isdigit() else ""
    if look.find("buAutoNum") is not None:
        return f"{indent}1. "
    has_sign = look.find("buChar") is not None or look.find("buBlip") is not None
    return f"{indent}- " if has_sign or (is_list and look.find("buNone") is None) else ""


def _address(properties: Element | None, links: dict[str, str]) -> str:
    """Return the address that a click on a shape or a run opens."""
    click = None if properties is None else properties.find("hlinkClick")
    return "" if click is None else links.get(click.get("r:id", ""), "")


def _write(flow: Flow, paragraph: Element, links: dict[str, str], address: str = "") -> None:
    """Write the runs of a paragraph; a formula is its letters. `address`: the target of runs without a link."""
    for run in paragraph:
        if run.tag == "br":
            flow.write("\n")
        elif run.tag in ("r", "fld") and run.get("type") != "slidenum":
            look = run.find("rPr")
            is_struck = look is not None and look.get("strike", "noStrike") != "noStrike"
            raised = int(shift) if look is not None and (shift := look.get("baseline", "")).lstrip("-").isdigit() else 0
            mark = "^" if raised > 0 else "~" if raised < 0 else ""
            flow.write(run.findtext("t") or "", _address(look, links) or address, mark, is_struck=is_struck)
        elif run.tag in ("m", "AlternateContent"):
            formula = run if run.tag == "m" else run.find("Choice")
            flow.write(drawings.formula(formula) if formula is not None else "")
