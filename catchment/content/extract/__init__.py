"""Extract chunks, links and entities from documents. Pure functions: no files, no network, no library.

`prose` blanks out code and comments, by the block structure from `blocks`. `markdown`, `notes` and `plain` read links and
entities from text, `properties` from frontmatter, and `code` from programs. `chunks` splits text into passages, `mail` splits
messages. `resolve` resolves links within a vault; `vault` reports its quality.
"""

from __future__ import annotations

from catchment.content.extract import code, mail, markdown, notes, plain, properties
from catchment.content.extract.chunks import chunks
from catchment.content.extract.prose import mask
from catchment.content.normalize import markup
from catchment.content.normalize.formats import CANVAS, MAIL, NOTES, SOURCE_TEXT
from catchment.model import GUESSED, Document, Entity, Extraction, Link, LinkKind

EXTRACTOR = "9"
"""The version of the extractor. It changes when the extraction or the indexed names of any document change."""


def extract(document: Document) -> Extraction:
    """Return the passages, links and entities of a document. Linear in its length; never fails."""
    text, fields = document.text, document.properties
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
            masked = text  # Most mail is not Markdown: an indent is not code, and a dollar is money.
        prose = markdown.without(masked, links)
        links = [link for link in links if not link.target.startswith("data:")]
    elif document.media_type in markup.KINDS:
        headings = markup.headings(text)
    links += plain.urls(prose)
    entities = list(headings)
    if is_note:
        entities += notes.entities(text, masked, prose)
    definitions = code.definitions(text, document.media_type)
    entities += code.symbols(definitions)
    entities += plain.emails(masked)
    entities += plain.dates(masked)
    if document.media_type == CANVAS:
        links = [link._replace(kind=LinkKind.CANVAS) if link.kind is LinkKind.EMBED else link for link in links]
    links.sort(key=_place)
    entities.sort(key=_place)
    if fields:
        links = [*properties.links(fields), *links]
        entities = [*properties.entities(fields), *entities]
    if definitions:
        passages = code.passages(text, definitions)
    else:
        passages = (mail.passages if document.media_type == MAIL else chunks)(text, headings)
    if recognized := document.recognized:
        places = recognized.get("places", [[0, len(text)]])
        passages = tuple(
            passage._replace(heading=GUESSED)
            if any(passage.start < stop and start < passage.end for start, stop in places)
            else passage
            for passage in passages
        )
    return Extraction(passages, tuple(links), tuple(entities))


def _place(span: Link | Entity) -> tuple[int, int]:
    return span.start, span.end
