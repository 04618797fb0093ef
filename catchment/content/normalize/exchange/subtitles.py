"""Read subtitles (SubRip and WebVTT) as text without time codes."""

from __future__ import annotations

import re

from catchment.content.normalize.decode import decode
from catchment.model import Document

_BLOCK = re.compile(r"\n[ \t]*\n")
_TIMING = re.compile(r"^.*-->.*$\n?", re.MULTILINE)
_TAG = re.compile(r"<v(?:\.[^\s<>]*)?\s([^<>]*)>|</?[a-z0-9][^<>]*>|\{\\[^{}]*\}", re.IGNORECASE)
_ENTITIES = {"&amp;": "&", "&lt;": "<", "&gt;": ">", "&nbsp;": " ", "&lrm;": "", "&rlm;": ""}
_ENTITY = re.compile("|".join(_ENTITIES))


def subtitles(data: bytes, media_type: str) -> Document:
    """Return the lines of the cues in order. A line that the next cue repeats, as in rolling captions, occurs once."""
    text, warnings, properties = decode(data)
    lines: list[str] = []
    for block in _BLOCK.split(text):
        timing = _TIMING.search(block)
        cue = _TAG.sub(_speaker, block[timing.end() :]) if timing else ""
        for line in _ENTITY.sub(lambda entity: _ENTITIES[entity[0]], cue).split("\n"):
            if (words := " ".join(line.split())) and words not in lines[-2:]:
                lines.append(words)
    text = "\n".join(lines) if "-->" in text else text
    return Document(text=text, media_type=media_type, properties=properties, warnings=warnings)


def _speaker(tag: re.Match[str]) -> str:
    return f"{tag[1].strip()}: " if tag[1] else ""
