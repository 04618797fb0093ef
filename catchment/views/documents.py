"""A document for display, alone or in its conversation, and the documents related to it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from catchment.content.extract.mail import stretches
from catchment.content.extract.properties import ALIASES, TAGS
from catchment.content.normalize.formats import CONTAINERS
from catchment.errors import MeaningOff
from catchment.ledger import Attached, ConversationMessage, Ledger, Shown
from catchment.model import RECOGNIZED, Document, EntityKind, LinkKind, recognized
from catchment.records import record_of
from catchment.search.related import RelatedDocument, relations, similar
from catchment.search.related import related as near
from catchment.views.versions.versions import DocumentVersion

if TYPE_CHECKING:
    from catchment.search.meaning.index import MeaningIndex

_WIKILINK = re.compile(r"\[\[(?:[^\[\]|]*\|)?([^\[\]]*)\]\]")
NEAREST = 10
"""Documents found by meaning that are related to one."""


@dataclass(frozen=True, slots=True)
class DocumentLink:
    """A link in a document, as written."""

    kind: LinkKind
    target: str
    anchor: str
    label: str


@dataclass(frozen=True, slots=True)
class DocumentEntity:
    """Something named in a document. `detail`: as of an `Entity`."""

    kind: EntityKind
    value: str
    detail: str


@dataclass(frozen=True, slots=True)
class DocumentView:
    """A document.

    Attributes:
        places: All (source, item) with this content.
        senders, recipients, copied: People, of a message or as a note names them.
        tags: In order, each once.
        moment: Time of sending or arrival, or of the last change for other documents.
        parts: The text of a message in order; True marks a quotation or a signature. Empty for other documents.
        own_text: The sender's own words, without quotations and signature; None for other documents.
        conversation: All messages of the conversation, oldest first, including this one.
        attached_to: For an attachment, the document of its message.
        since, until, sync: Of a version as of a time: when it was stored and replaced, and by which sync it was stored.
    """

    document: int
    title: str
    source: str
    item: str
    places: tuple[tuple[str, str], ...]
    media_type: str
    language: str | None
    author: str | None
    created: datetime | None
    modified: datetime | None
    content_hash: str
    properties: Mapping[str, Any]
    metadata: Mapping[str, Any]
    aliases: tuple[str, ...]
    warnings: tuple[str, ...]
    links: tuple[DocumentLink, ...]
    entities: tuple[DocumentEntity, ...]
    text: str
    own_text: str | None
    conversation: tuple[ConversationMessage, ...]
    attached: tuple[Attached, ...]
    attached_to: int | None
    senders: tuple[str, ...]
    recipients: tuple[str, ...]
    copied: tuple[str, ...]
    tags: tuple[str, ...]
    moment: datetime | None
    parts: tuple[tuple[str, bool], ...]
    since: datetime | None
    until: datetime | None
    sync: int | None

    @property
    def facts(self) -> dict[str, str]:
        """The properties of a note as texts, without those that other fields show. Of others, how well they were recognized."""
        is_note = self.media_type == "text/markdown"
        about = recognized(self.media_type, self.properties)
        shown = {RECOGNIZED: {name: value for name, value in about.items() if name != "places"}}
        properties = self.properties if is_note else shown
        texts = {name: _in_words(value) for name, value in properties.items() if name.lower() not in TAGS | ALIASES}
        return {name: text for name, text in texts.items() if text not in {"", self.title, self.author, self.language}}

    @property
    def files_inside(self) -> int | None:
        """The number of files directly inside, also those that `attached` omits; None if it has text of its own."""
        return self.properties.get("files") if self.media_type in CONTAINERS and self.attached else None

    @property
    def is_message(self) -> bool:
        """Whether it is a mail message."""
        return bool(self.conversation)

    @property
    def position(self) -> int:
        """The place of a message in its conversation, from 0."""
        return [message.document for message in self.conversation].index(self.document)


@dataclass(frozen=True, slots=True)
class RelatedView:
    """The documents related to one. `meaning_off`: why none was found by meaning, or None."""

    documents: tuple[RelatedDocument, ...]
    meaning_off: str | None


def document(shown: Shown, version: DocumentVersion | None = None) -> DocumentView:
    """Return a document as a person reads it. `version`: if it is not the present one."""
    content = shown.content
    modified = shown.modified or content.modified
    parts = tuple(stretches(content.text)) if shown.conversation else ()
    senders, recipients, copied = people(content)
    return record_of(
        DocumentView,
        shown,
        content,
        modified=modified,
        links=tuple(DocumentLink(link.kind, link.target, link.anchor, link.label) for link in shown.links),
        entities=tuple(DocumentEntity(entity.kind, entity.value, entity.detail) for entity in shown.entities),
        own_text="".join(part for part, is_aside in parts if not is_aside) if shown.conversation else None,
        attached_to=shown.carrier,
        senders=senders,
        recipients=recipients,
        copied=copied,
        tags=tuple(sorted({entity.value for entity in shown.entities if entity.kind is EntityKind.TAG})),
        moment=(content.created if shown.conversation else None) or modified,
        parts=parts,
        since=version.since if version else None,
        until=version.until if version else None,
        sync=version.sync if version else None,
    )


def people(content: Document) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return senders, recipients and copy recipients."""
    senders, recipients, copied = (_texts(content.properties.get(name)) for name in ("from", "to", "cc"))
    return senders, recipients, copied


def related(ledger: Ledger, shown: Shown, meaning: MeaningIndex, limit: int = NEAREST) -> RelatedView:
    """Return the linked documents, the conversation, attachments and copies, then the documents with a similar meaning.

    `limit`: maximum number of documents found by meaning.
    """
    relatives = relations(ledger, shown)
    known = {relative.document for relative in relatives} | {shown.document, *(copy.document for copy in shown.copies)}
    try:
        return RelatedView((*relatives, *similar(near(ledger, meaning, shown.content_id, limit), known)), None)
    except MeaningOff as off:
        return RelatedView(tuple(relatives), str(off))


def _in_words(value: object) -> str:
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {_in_words(each)}" for name, each in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_in_words, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else _WIKILINK.sub(r"\1", str(value))


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list | tuple) else () if value is None else (str(value),)
