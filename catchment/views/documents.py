"""A document as a person reads it, alone or in its conversation, and what is related to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from catchment.content.extract.mail import stretches
from catchment.errors import MeaningOff
from catchment.ledger import Ledger, Shown
from catchment.model import Document, EntityKind
from catchment.search.related import RelatedDocument, relations, similar
from catchment.search.results import Hit


@dataclass(frozen=True, slots=True)
class DocumentView:
    """A document.

    Attributes:
        shown: The document with its links, places and conversation.
        senders, recipients, copied: People, of a message or as a note names them.
        tags: In order, each once.
        moment: Time of sending or arrival, or of the last change for other documents.
        parts: The text of a message in order; True marks a quotation or a signature. Empty for other documents.
    """

    shown: Shown
    senders: tuple[str, ...]
    recipients: tuple[str, ...]
    copied: tuple[str, ...]
    tags: tuple[str, ...]
    moment: datetime | None
    parts: tuple[tuple[str, bool], ...]

    @property
    def is_message(self) -> bool:
        """Whether it is a mail message."""
        return bool(self.shown.conversation)

    @property
    def own_text(self) -> str | None:
        """The sender's own words, without quotations and signature; None for other documents."""
        return "".join(part for part, is_aside in self.parts if not is_aside) if self.is_message else None

    @property
    def position(self) -> int:
        """The place of a message in its conversation, from 0."""
        return [message.document for message in self.shown.conversation].index(self.shown.document)


@dataclass(frozen=True, slots=True)
class RelatedView:
    """The documents related to one. `meaning_off`: why none was found by meaning, or None."""

    documents: tuple[RelatedDocument, ...]
    meaning_off: str | None


def document(shown: Shown) -> DocumentView:
    """Return a document as a person reads it."""
    content = shown.content
    return DocumentView(
        shown,
        *people(content),
        tuple(sorted({entity.value for entity in shown.entities if entity.kind is EntityKind.TAG})),
        (content.created if shown.conversation else None) or shown.modified or content.modified,
        tuple(stretches(content.text)) if shown.conversation else (),
    )


def people(content: Document) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return senders, recipients and copy recipients."""
    senders, recipients, copied = (_texts(content.properties.get(name)) for name in ("from", "to", "cc"))
    return senders, recipients, copied


def related(ledger: Ledger, shown: Shown, near: Callable[[], Sequence[Hit]]) -> RelatedView:
    """Return the documents linked to one, its conversation, attachments and copies, then what has a similar meaning.

    `near` returns the documents with the nearest meaning, or raises MeaningOff.
    """
    found = relations(ledger, shown)
    known = {one.document for one in found} | {shown.document}
    try:
        return RelatedView((*found, *similar(near(), known)), None)
    except MeaningOff as off:
        return RelatedView(tuple(found), str(off))


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list | tuple) else () if value is None else (str(value),)
