"""Read the labels of diagrams: draw.io (mxGraph), Excalidraw and Gliffy."""

from __future__ import annotations

import binascii
import zlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote
from xml.etree.ElementTree import Element

from catchment.content.normalize.canvas import json_object
from catchment.content.normalize.html import fragment
from catchment.content.normalize.packages import MAX_PART, tree
from catchment.errors import ParseError, ResourceExhausted
from catchment.model import Document

_ATTRIBUTES = ("value", "label", "tooltip", "link")
_TEXTS = ("text", "html")
_DAMAGED = "the diagram is damaged; open it in its own program and save it again"


def diagram(data: bytes, media_type: str) -> Document:
    """Return the labels of a draw.io file under the names of its pages. Raises ParseError, ResourceExhausted."""
    return Document(text=labels(data), media_type=media_type)


def labels(data: bytes) -> str:
    """Return the labels of a draw.io file, each once on a page. A page may be compressed."""
    root, room, pages = tree(data), MAX_PART, []
    for page in root.iter("diagram") if root.tag == "mxfile" else (root,):
        graph = page
        if (written := (page.text or "").strip()) and not len(page):
            xml = _inflated(written, room)
            room -= len(xml)
            graph = tree(xml)
        pages.append(_page(page.get("name", ""), _labels(graph)))
    return "\n\n".join(filter(None, pages))


def drawing(data: bytes, media_type: str) -> Document:
    """Return the texts of an Excalidraw or Gliffy file. Raises ParseError if it is not JSON."""
    return Document(text=_page("", _strings(json_object(data, "drawing"))), media_type=media_type)


def _page(name: str, texts: Iterator[str]) -> str:
    lines = dict.fromkeys(words for text in texts if (words := " ".join(fragment(text).split())))
    return "\n\n".join(([f"## {name}"] if name and lines else []) + list(lines))


def _labels(graph: Element) -> Iterator[str]:
    for element in graph.iter():
        for name in _ATTRIBUTES:
            if (text := element.get(name, "")) and element.tag in ("mxCell", "object", "UserObject"):
                yield text


def _inflated(written: str, room: int) -> bytes:
    """Decompress a page: percent-encoded XML in a raw deflate stream in base64. Some programs leave out both steps."""
    if written.startswith(("<", "%3C")):
        return unquote(written).encode("utf-8", "replace")
    machine = zlib.decompressobj(wbits=-15)
    try:
        inflated = machine.decompress(binascii.a2b_base64(written), room + 1)
    except (zlib.error, ValueError) as error:
        raise ParseError(_DAMAGED) from error
    if len(inflated) > room:
        raise ResourceExhausted(f"the diagram unpacks to more than {MAX_PART >> 20} MB (a fixed limit); split it")
    return unquote(inflated.decode("utf-8", "replace")).encode("utf-8", "replace")


def _strings(board: Any) -> Iterator[str]:
    """Yield the texts of the shapes in order, without recursion; deleted shapes are left out."""
    pending = [board]
    while pending:
        match pending.pop():
            case dict() as value if not value.get("isDeleted"):
                yield from (value[key] for key in _TEXTS if isinstance(value.get(key), str))
                pending += reversed([inner for inner in value.values() if isinstance(inner, dict | list)])
            case list() as values:
                pending += reversed(values)
