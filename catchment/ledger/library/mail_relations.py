"""Related documents of a mail message: its conversation and its attachments."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

from sqlalchemy import func, select

from catchment.ledger.db.database import Reading, among, as_map, from_json, maybe_time
from catchment.ledger.db.schema import contents, documents, items, mails, sources
from catchment.ledger.library.conversation_index import MAIL
from catchment.model import PART, Document
from catchment.records.rows import Attached, ConversationMessage

_MOST = 1_000


def conversation(reading: Reading, content_id: int, document_id: int) -> tuple[ConversationMessage, ...]:
    """Return the conversation of a message, oldest first; empty for other contents.

    Copies of a message are listed once, preferring `document_id`. Long conversations are limited to the thousand messages
    closest in time.
    """
    own = reading.execute(select(mails.c.thread, mails.c.sent).where(mails.c.content_id == content_id)).first()
    if own is None:
        return ()
    away = func.abs(func.coalesce(mails.c.sent, 0) - (own.sent or 0))
    statement = (
        select(
            mails.c.name,
            documents.c.id,
            documents.c.title,
            contents.c.author,
            mails.c.sent,
            sources.c.name.label("source"),
            items.c.locator,
        )
        .join_from(mails, contents, contents.c.id == mails.c.content_id)
        .join(documents, (documents.c.content_id == contents.c.id) & documents.c.removed_at.is_(None))
        .join(items, items.c.id == documents.c.item_id)
        .join(sources, sources.c.id == documents.c.source_id)
        .where(mails.c.thread == own.thread)
        .order_by(documents.c.id != document_id, away, documents.c.id)
        .limit(_MOST)
    )
    messages: dict[int, ConversationMessage] = {}
    for name, number, title, author, sent, source, item in reading.execute(statement):
        shown = shown_title(title, item)
        messages.setdefault(name, ConversationMessage(number, shown, author, maybe_time(sent), source, item))
    return tuple(sorted(messages.values(), key=lambda message: (message.sent is None, message.sent, message.document)))


def attached(
    reading: Reading, messages: Mapping[tuple[int, str], Document]
) -> dict[tuple[int, str], tuple[Attached, ...]]:
    """Return the attachments of messages, by source and locator; each with its document, if any."""
    carried = {
        place: parts
        for place, document in messages.items()
        if document.media_type == MAIL and (parts := document.properties.get("attachments"))
    }
    of_source: defaultdict[int, list[str]] = defaultdict(list)
    for (source_id, locator), parts in carried.items():
        of_source[source_id] += (f"{locator}{PART}{part['part']}" for part in parts)
    documents_by_source = {
        source_id: _documents(reading, source_id, locators) for source_id, locators in of_source.items()
    }
    return {
        (source_id, locator): tuple(
            Attached(
                part["part"],
                part["name"],
                part["media-type"],
                documents_by_source[source_id].get(f"{locator}{PART}{part['part']}"),
            )
            for part in parts
        )
        for (source_id, locator), parts in carried.items()
    }


def shown_title(title: str, locator: str) -> str:
    """Return the title to show. A message without a subject is stored with its number, such as "message-6"."""
    number = title.removeprefix("message-")
    return "(no subject)" if number != title and locator.endswith(f";UID={number}") else title


def carriers(reading: Reading, places: Collection[tuple[int, str]]) -> dict[tuple[int, str], tuple[int, str]]:
    """Return the documents of the messages that items are attached to, and as in `Hit` the names of these items; by place."""
    messages = {(source_id, locator.rpartition(PART)[0]) for source_id, locator in places if PART in locator}
    statement = (
        select(items.c.source_id, items.c.locator, documents.c.id, documents.c.title, contents.c.properties)
        .join_from(items, documents, (documents.c.item_id == items.c.id) & documents.c.removed_at.is_(None))
        .join(contents, contents.c.id == documents.c.content_id)
        .where(items.c.source_id.in_({source_id for source_id, _ in messages}), items.c.state != "deleted")
        .where(among(reading, items.c.locator, {locator for _, locator in messages}))
    )
    return {
        (source_id, f"{locator}{PART}{part['part']}"): (number, f"{part['name']} in {shown_title(title, locator)}")
        for source_id, locator, number, title, properties in (reading.execute(statement) if messages else ())
        for part in (from_json(properties) or {}).get("attachments", ())
    }


def _documents(reading: Reading, source_id: int, locators: list[str]) -> dict[str, int]:
    statement = (
        select(items.c.locator, documents.c.id)
        .join(documents, documents.c.item_id == items.c.id)
        .where(
            items.c.source_id == source_id,
            items.c.state != "deleted",
            documents.c.removed_at.is_(None),
            among(reading, items.c.locator, locators),
        )
    )
    return as_map(reading.execute(statement))
