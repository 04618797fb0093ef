"""Documents to what is in them: chunks, links and entities. Pure: no files, no network, no library.

`mask` blanks out code and comments; `markdown`, `notes` and `plain` find what is written in the text, `properties` what the
frontmatter says, `code` what programs define; `chunks` cuts passages, `mail` those of messages; `resolve` tells where links
lead, `vault` how well a vault is kept.
"""

from __future__ import annotations

from catchment.content.extract import code, mail, markdown, notes, plain, properties
from catchment.content.extract.chunks import chunks
from catchment.content.extract.prose import mask
from catchment.content.normalize.formats import CANVAS, MAIL, NOTES, SOURCE_TEXT
from catchment.model import Document, Entity, Extraction, Link, LinkKind

EXTRACTOR = "4"
"""Changes whenever the extraction of some document changes."""


def extract(document: Document) -> Extraction:
    """Find the passages, links and named things of a document. Takes time linear in its length; never fails."""
    text, said = document.text, document.properties
    is_note = document.media_type in NOTES
    links: list[Link] = []
    headings: list[Entity] = []
    prose = masked = text
    if document.media_type not in SOURCE_TEXT:
        masked = mask(text, has_html=is_note)
        links = notes.wikilinks(text, masked) if is_note else []
        links += markdown.links(text, markdown.without(masked, links))
        headings = markdown.headings(text, masked)
        if document.media_type == MAIL:
            masked = text  # Most of it was never Markdown: what is indented is no code, and dollars are money.
        prose = markdown.without(masked, links)
        links = [link for link in links if not link.target.startswith("data:")]
    links += plain.urls(prose)
    entities = list(headings)
    if is_note:
        entities += notes.entities(text, masked, prose)
    defined = code.definitions(text, document.media_type)
    entities += code.symbols(defined)
    entities += plain.emails(masked)
    entities += plain.dates(masked)
    if document.media_type == CANVAS:
        links = [link._replace(kind=LinkKind.CANVAS) if link.kind is LinkKind.EMBED else link for link in links]
    links.sort(key=_place)
    entities.sort(key=_place)
    if said:
        links = [*properties.links(said), *links]
        entities = [*properties.entities(said), *entities]
    if defined:
        passages = code.passages(text, defined)
    else:
        passages = (mail.passages if document.media_type == MAIL else chunks)(text, headings)
    return Extraction(passages, tuple(links), tuple(entities))


def _place(found: Link | Entity) -> tuple[int, int]:
    return found.start, found.end
