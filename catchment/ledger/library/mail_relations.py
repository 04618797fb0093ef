"""Related documents: the conversation of a mail message, and what is attached to it or inside of a container."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

from sqlalchemy import func, select

from catchment.ledger.db.database import AnyRow, Reading, among, as_map, from_json, maybe_time
from catchment.ledger.db.schema import contents, documents, items, jobs, mails, quarantine, sources
from catchment.ledger.library.conversation_index import MAIL
from catchment.model import PART, PARTS, Document, JobState, holder_of, outer_files
from catchment.records.rows import Attached, ConversationMessage

_MOST = 1_000
_LEFT_OUT = (JobState.SKIPPED.value, JobState.QUARANTINED.value)


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
    reading: Reading, holders: Mapping[tuple[int, str], Document]
) -> dict[tuple[int, str], tuple[Attached, ...]]:
    """Return the attachments of messages and the parts of containers, by source and locator; each with its document, if any."""
    carried = {
        place: parts
        for place, document in holders.items()
        if document.media_type == MAIL and (parts := document.properties.get("attachments"))
    }
    of_source: defaultdict[int, list[str]] = defaultdict(list)
    for (source_id, locator), parts in carried.items():
        of_source[source_id] += (f"{locator}{PART}{part['part']}" for part in parts)
    numbers = {source_id: _documents(reading, source_id, locators) for source_id, locators in of_source.items()}
    files = {
        (source_id, locator): tuple(
            Attached(
                part["part"],
                part["name"],
                part["media-type"],
                numbers[source_id].get(f"{locator}{PART}{part['part']}"),
            )
            for part in parts
        )
        for (source_id, locator), parts in carried.items()
    }
    return files | {place: parts for place in holders if (parts := _parts(reading, *place))}


def _parts(reading: Reading, source_id: int, locator: str) -> tuple[Attached, ...]:
    """Return the first parts directly inside of a container, in the order in which it has them."""
    inside = locator + PARTS
    name = func.substr(items.c.locator, len(inside) + 1)
    is_inside = (func.substr(items.c.locator, 1, len(inside)) == inside) & name.not_like(f"%{PARTS}%")
    is_left_out = (jobs.c.item_id == items.c.id) & jobs.c.current & jobs.c.state.in_(_LEFT_OUT)
    why = func.coalesce(quarantine.c.message, jobs.c.error, func.replace(jobs.c.reason, "_", " "))
    statement = (
        select(name, contents.c.media_type, documents.c.id, jobs.c.state + ": " + why)
        .select_from(items)
        .outerjoin(jobs, is_left_out)
        .outerjoin(quarantine, quarantine.c.job_id == jobs.c.id)
        .outerjoin(documents, (documents.c.item_id == items.c.id) & documents.c.removed_at.is_(None))
        .outerjoin(contents, contents.c.id == documents.c.content_id)
        .where(items.c.source_id == source_id, items.c.state == "present", is_inside)
        .where(among(reading, items.c.container, [outer + PARTS for outer in (*outer_files(locator), locator)]))
        .order_by(items.c.id)
        .limit(_MOST)
    )
    return tuple(Attached(PARTS + row[0], row[0], row[1] or "", *row[2:]) for row in reading.execute(statement))


def shown_title(title: str, locator: str) -> str:
    """Return the title to show. A message without a subject is stored with its number, such as "message-6"."""
    number = title.removeprefix("message-")
    return "(no subject)" if number != title and locator.endswith(f";UID={number}") else title


def carriers(reading: Reading, places: Collection[tuple[int, str]]) -> dict[tuple[int, str], tuple[int, str]]:
    """Return the documents of the files and messages that items are in, and as in `Hit` the names of these items; by place."""
    held = {place: (place[0], holder) for place in places if (holder := holder_of(place[1]))}
    statement = (
        select(items.c.source_id, items.c.locator, documents.c.id, documents.c.title, contents.c.properties)
        .join_from(items, documents, (documents.c.item_id == items.c.id) & documents.c.removed_at.is_(None))
        .join(contents, contents.c.id == documents.c.content_id)
        .where(items.c.source_id.in_({source_id for source_id, _ in held.values()}), items.c.state != "deleted")
        .where(among(reading, items.c.locator, {locator for _, locator in held.values()}))
    )
    holders = {(row.source_id, row.locator): row for row in (reading.execute(statement) if held else ())}
    return {place: _carrier(place[1], holders[holder]) for place, holder in held.items() if holder in holders}


def _carrier(item: str, row: AnyRow) -> tuple[int, str]:
    names = {str(part["part"]): part["name"] for part in (from_json(row.properties) or {}).get("attachments", ())}
    inside = item.removeprefix(row.locator)
    name = inside.removeprefix(PARTS) if inside.startswith(PARTS) else names.get(inside.removeprefix(PART), "")
    return row.id, f"{name} in {shown_title(row.title, row.locator)}"


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
