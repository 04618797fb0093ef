"""Read the formats that programs exchange: calendars, contacts, bookmarks, references, diagrams, outlines, web archives."""

from __future__ import annotations

from dataclasses import replace

from catchment.content.normalize.exchange import bookmarks, calendars, contacts, diagrams, subtitles, xml_texts
from catchment.content.normalize.exchange.clippings import clippings
from catchment.content.normalize.exchange.references import references
from catchment.content.normalize.exchange.web_archives import web_archive
from catchment.content.normalize.language_detection import language
from catchment.model import Document

_READERS = {
    "text/calendar": calendars.calendar,
    "text/vcard": contacts.contacts,
    "text/vtt": subtitles.subtitles,
    "application/x-subrip": subtitles.subtitles,
    "application/x-webloc": bookmarks.bookmark,
    "application/x-netscape-bookmarks": bookmarks.bookmarks,
    "application/x-bibtex": references,
    "application/x-research-info-systems": references,
    "application/x-kindle-clippings": clippings,
    "application/warc": web_archive,
    "application/vnd.jgraph.mxfile": diagrams.diagram,
    "application/vnd.excalidraw+json": diagrams.drawing,
    "application/gliffy+json": diagrams.drawing,
}


def exchange(data: bytes, media_type: str) -> Document:
    """Read a file of one of these formats. Raises ParseError if it is damaged, ResourceExhausted if it exceeds a limit."""
    document = _READERS.get(media_type, xml_texts.texts)(data, media_type)
    return replace(document, language=language(document.text))
