"""Read canvas files (JSON Canvas 1.0), and the JSON of other types with text inside."""

from __future__ import annotations

import re
from typing import Any

from catchment.content.foreign_json import read_json
from catchment.content.normalize.decode import decode
from catchment.content.normalize.formats import CANVAS
from catchment.content.normalize.language_detection import language
from catchment.errors import ParseError
from catchment.model import Document

_NAME_LENGTH = 60
_FENCE = re.compile(r"^ {0,3}(`{3,}+(?=[^`\n]*+$)|~{3,}+)(.*+)$", re.MULTILINE)


def canvas(data: bytes) -> Document:
    """Return the cards of a canvas in order, with files as embeds, then its edges as a list. Raises ParseError."""
    board = json_object(data, "canvas")
    nodes, edges = objects(board, "nodes", "canvas"), objects(board, "edges", "canvas")
    names = {str(node.get("id")): _name(node) for node in nodes}
    arrows = [line for edge in edges if (line := _arrow(edge, names))]
    parts = [part for node in nodes if (part := _card(node))] + (["\n".join(arrows)] if arrows else [])
    text = "\n\n".join(parts)
    counts = {"edges": len(edges), "nodes": len(nodes)}
    return Document(text=text, media_type=CANVAS, language=language(text), properties=counts)


def json_object(data: bytes, subject: str) -> dict[str, Any]:
    """Return the object in a file. Raises ParseError for other content."""
    text = decode(data).text
    text = text.replace("\\u0000", "\\ufffd")
    try:
        value = read_json(text) if text.strip() else {}
    except ValueError as error:
        raise ParseError(f"the {subject} is not valid JSON; open it in its own program and save it again") from error
    if not isinstance(value, dict):
        raise ParseError(f"the {subject} is not a JSON object; open it in its own program and save it again")
    return value


def objects(value: dict[str, Any], key: str, subject: str) -> list[dict[str, Any]]:
    """Return the objects in the list under a key; it may be missing. Raises ParseError for other content."""
    members = value.get(key, [])
    if not isinstance(members, list) or not all(isinstance(member, dict) for member in members):
        raise ParseError(
            f"the {subject}'s {key} are not a list of objects; open it in its own program and save it again"
        )
    return members


def _card(node: dict[str, Any]) -> str:
    match node.get("type"):
        case "text":
            return closed(_word(node, "text"))
        case "file" if file := _word(node, "file"):
            return f"![[{file}{_word(node, 'subpath')}]]"
        case "link" if url := _word(node, "url"):
            return f"<{url}>"
        case "group" if label := _word(node, "label"):
            return f"**{label}**"
    return ""


def closed(text: str) -> str:
    """Close an unclosed code fence, so that the next card does not become code."""
    fence = ""
    for mark, rest in _FENCE.findall(text) if "```" in text or "~~~" in text else ():
        if not fence:
            fence = mark
        elif mark.startswith(fence) and not rest.strip():
            fence = ""
    return f"{text}\n{fence}" if fence else text


def _name(node: dict[str, Any]) -> str:
    words = (
        _word(node, "label")
        or _word(node, "text")
        or _word(node, "file").rpartition("/")[2]
        or _word(node, "url").rpartition("://")[2]
    )
    first = words.split("\n")[0].replace("[[", "").replace("]]", "").strip("# ")
    return first if len(first) <= _NAME_LENGTH else first[: _NAME_LENGTH - 1] + "…"


def _arrow(edge: dict[str, Any], names: dict[str, str]) -> str:
    ends = [names.get(str(edge.get(side)), "") for side in ("fromNode", "toNode")]
    label = _word(edge, "label")
    return f"- {ends[0]} → {ends[1]}" + (f": {label}" if label else "") if all(ends) else ""


def _word(node: dict[str, Any], key: str) -> str:
    value = node.get(key)
    return value.strip() if isinstance(value, str) else ""
