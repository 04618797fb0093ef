"""Raw content to documents: the type is found from the content, the text becomes Markdown. Pure: no files, no network.

One module for each way of reading, and `formats` for which type is read how. Libraries are imported where they are needed,
so that a process that only sees notes stays small.
"""

from __future__ import annotations

from catchment.model import Document, RawContent
from catchment.normalize.markdown import markdown

NORMALIZER = "1"


def normalize(raw: RawContent) -> Document:
    return markdown(raw.data)


def media_type(data: bytes, name: str) -> str:
    return "text/markdown"
