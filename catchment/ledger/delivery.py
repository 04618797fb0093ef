"""Delivery: what a batch of jobs became enters the library, and the jobs are acknowledged, in one transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, bindparam, literal_column, select, update

from catchment.errors import IllegalTransition
from catchment.ledger import removal, search
from catchment.ledger.failing import resolve
from catchment.ledger.rows import Acks, Delivered, SkippedOutcome
from catchment.ledger.schema import RUNNING as IS_RUNNING
from catchment.ledger.schema import chunks, contents, documents, entities, items, jobs, links, quarantine
from catchment.ledger.store import AnyRow, Writing, maybe_micros, to_json
from catchment.ledger.transitions import PENDING, RUNNING, SKIPPED, SUCCEEDED, in_parts, move
from catchment.model import EntityKind, JobState, Link, SkipReason

_Outcome = Delivered | SkippedOutcome


def deliver(writing: Writing, token: int, outcomes: Sequence[_Outcome]) -> Acks:
    """See `Queue.deliver`. A job whose content was purged meanwhile goes back to the queue, and counts as stale."""
    wanted = {outcome.job_id: outcome for outcome in outcomes}
    mine = _mine(writing, token, wanted)
    delivered = {n: o for n in mine if isinstance(o := wanted[n], Delivered)}
    skipped = {n: o for n in mine if isinstance(o := wanted[n], SkippedOutcome)}
    content_ids = _put_contents(writing, delivered.values())
    lost = [n for n, o in delivered.items() if (o.content_hash, o.normalizer) not in content_ids]
    for number in lost:
        del delivered[number]
    if _adopt(writing, mine, delivered, content_ids):
        mine = _mine(writing, token, wanted)
    owner = next((row.owner for row in mine.values()), "nobody")
    _acknowledge(writing, delivered, SUCCEEDED, owner, None)
    _acknowledge(writing, lost, PENDING, owner, "content was purged")
    by_reason: defaultdict[SkipReason, list[int]] = defaultdict(list)
    for number, outcome in skipped.items():
        by_reason[outcome.reason].append(number)
    for reason, numbers in by_reason.items():
        _acknowledge(writing, numbers, SKIPPED, owner, reason.value)
    _put_documents(writing, mine, delivered, content_ids)
    _pass_over(writing, mine, skipped)
    _settle_quarantine(writing, {mine[n].item_id for n in (*delivered, *skipped)})
    return Acks(list(delivered), list(skipped), [n for n in wanted if n not in mine] + lost)


def _mine(writing: Writing, token: int, wanted: Iterable[int]) -> dict[int, AnyRow]:
    """The jobs that still are this token's, in the order they were given, with their item and its document."""
    statement = (
        select(
            jobs.c.id,
            jobs.c.item_id,
            jobs.c.source_id,
            jobs.c.owner,
            items.c.locator,
            documents.c.id.label("document_id"),
            documents.c.content_id,
            documents.c.removed_at,
        )
        .join(items, items.c.id == jobs.c.item_id)
        .outerjoin(documents, documents.c.item_id == items.c.id)
    )
    found: dict[int, AnyRow] = {}
    for part in in_parts(wanted):
        running: ColumnElement[bool] = literal_column(IS_RUNNING)
        rows = writing.execute(statement.where(jobs.c.id.in_(part), jobs.c.token == token, running))
        found |= {row.id: row for row in rows.all()}
    return {number: found[number] for number in wanted if number in found}


def _adopt(
    writing: Writing,
    mine: Mapping[int, AnyRow],
    delivered: Mapping[int, Delivered],
    content_ids: Mapping[tuple[str, str], int],
) -> bool:
    """Give new items the documents that items with the same content left behind: moves by copy and delete.

    Whether there were any. Empty content says nothing about where it came from.
    """
    new = {n: content_ids[o.content_hash, o.normalizer] for n, o in delivered.items() if mine[n].document_id is None}
    orphans: defaultdict[tuple[int, int], list[AnyRow]] = defaultdict(list)
    for part in in_parts(set(new.values())):
        left = (
            select(documents.c.id, documents.c.item_id, documents.c.content_id, items.c.source_id)
            .join(items, items.c.id == documents.c.item_id)
            .join(contents, contents.c.id == documents.c.content_id)
            .where(documents.c.content_id.in_(part), items.c.state != "present", contents.c.text != "")
            .order_by(items.c.gone_at)
        )
        for row in writing.execute(left):
            orphans[row.source_id, row.content_id].append(row)
    adopted = [
        (mine[n], orphans[key].pop()) for n, content in new.items() if orphans.get(key := (mine[n].source_id, content))
    ]
    if not adopted:
        return False
    left_behind = [orphan.item_id for _, orphan in adopted]
    removal.withdraw_items(writing, left_behind)
    writing.execute(
        update(documents).where(documents.c.id == bindparam("document")).values(item_id=bindparam("item")),
        [{"document": orphan.id, "item": row.item_id} for row, orphan in adopted],
    )
    writing.execute(update(items).where(items.c.id.in_(left_behind)).values(state="deleted"))
    for row, _ in adopted:
        writing.record("moved", actor=row.owner, source_id=row.source_id, item_id=row.item_id, reason="same content")
    return True


def _acknowledge(writing: Writing, numbers: Iterable[int], to: JobState, owner: str, reason: str | None) -> None:
    for part in in_parts(numbers):
        moved = move(writing, jobs.c.id.in_(part), {RUNNING}, to, actor=owner, reason=reason)
        if len(moved) != len(part):
            raise IllegalTransition(f"A job left its batch while it was put {to}; nothing was changed")


# Contents


def _put_contents(writing: Writing, outcomes: Iterable[Delivered]) -> dict[tuple[str, str], int]:
    """The ids of the contents of these outcomes; those that the library lacks are added where a document came along."""
    wanted: dict[tuple[str, str], Delivered] = {}
    for outcome in outcomes:
        key = outcome.content_hash, outcome.normalizer
        if key not in wanted or wanted[key].document is None:
            wanted[key] = outcome
    found: dict[tuple[str, str], int] = {}
    for part in in_parts({digest for digest, _ in wanted}):
        rows = writing.execute(
            select(contents.c.hash, contents.c.normalizer, contents.c.id).where(contents.c.hash.in_(part))
        )
        found |= {(digest, normalizer): number for digest, normalizer, number in rows}
    new = {key: outcome for key, outcome in wanted.items() if key not in found and outcome.document is not None}
    if new:
        numbers = writing.ids("contents", len(new))
        found |= dict(zip(new, numbers, strict=True))
        _add_contents(writing, list(zip(numbers, new.values(), strict=True)))
    return found


def _add_contents(writing: Writing, new: Sequence[tuple[int, Delivered]]) -> None:
    rows = []
    for number, outcome in new:
        document = outcome.document
        if document is None:
            continue
        rows.append(
            {
                "id": number,
                "hash": outcome.content_hash,
                "normalizer": outcome.normalizer,
                "text": _storable(document.text),
                "media_type": document.media_type,
                "title": _storable(document.title),
                "language": document.language,
                "author": _storable(document.author),
                "created": maybe_micros(document.created),
                "modified": maybe_micros(document.modified),
                "properties": to_json(document.properties),
                "warnings": to_json(document.warnings),
            }
        )
    writing.insert(contents, rows)
    _add_chunks(writing, new, [row["text"] for row in rows])
    _add_links(writing, new)
    _add_entities(writing, new)


def _add_chunks(writing: Writing, new: Sequence[tuple[int, Delivered]], texts: Sequence[str]) -> None:
    parts = [
        (number, text, chunk)
        for (number, outcome), text in zip(new, texts, strict=True)
        if outcome.extraction is not None
        for chunk in outcome.extraction.chunks
    ]
    if not parts:
        return
    numbers = writing.ids("chunks", len(parts))
    rows, words = [], []
    for chunk_id, (number, text, chunk) in zip(numbers, parts, strict=True):
        heading = _storable(chunk.heading)
        rows.append({"id": chunk_id, "content_id": number, "start": chunk.start, "stop": chunk.end, "heading": heading})
        words.append((chunk_id, heading, text[chunk.start : chunk.end]))
    writing.insert(chunks, rows)
    search.add_chunks(writing, words)


def _add_links(writing: Writing, new: Sequence[tuple[int, Delivered]]) -> None:
    rows = [
        {
            "content_id": number,
            "position": position,
            "kind": link.kind.value,
            "target": _storable(link.target),
            "anchor": _storable(link.anchor),
            "label": _storable(link.label),
            "start": link.start,
            "stop": link.end,
            "name": link_name(link),
        }
        for number, outcome in new
        if outcome.extraction is not None
        for position, link in enumerate(outcome.extraction.links)
    ]
    writing.insert(links, rows)


def _add_entities(writing: Writing, new: Sequence[tuple[int, Delivered]]) -> None:
    rows = [
        {
            "content_id": number,
            "position": position,
            "kind": entity.kind.value,
            "value": _storable(entity.value),
            "detail": _storable(entity.detail),
            "start": entity.start,
            "stop": entity.end,
            "confidence": entity.confidence,
        }
        for number, outcome in new
        if outcome.extraction is not None
        for position, entity in enumerate(outcome.extraction.entities)
    ]
    writing.insert(entities, rows)


def link_name(link: Link) -> str:
    """What a link calls its target: the last part of the path, lower-cased, without `.md`."""
    return file_name(_storable(link.target))


def file_name(locator: str) -> str:
    """The last part of a path, lower-cased, without `.md`."""
    return locator.rstrip("/").rpartition("/")[2].lower().removesuffix(".md")


# Documents


def _put_documents(
    writing: Writing,
    mine: Mapping[int, AnyRow],
    delivered: Mapping[int, Delivered],
    content_ids: Mapping[tuple[str, str], int],
) -> None:
    """Give each item its document; one that has a document keeps its id, whatever it says now."""
    if not delivered:
        return
    aliases = _aliases(writing, set(content_ids.values()))
    added, changed, hashes, left = [], [], [], set()
    for number, outcome in delivered.items():
        job = mine[number]
        content_id = content_ids[outcome.content_hash, outcome.normalizer]
        row = _document_row(job, outcome, content_id, aliases.get(content_id, ""))
        hashes.append({"item": job.item_id, "hash": outcome.content_hash})
        if job.document_id is None:
            added.append(row | {"item_id": row["item"], "source_id": job.source_id})
        else:
            changed.append(row)
            if job.content_id != content_id:
                left.add(job.content_id)
    item_ids = [row["item"] for row in hashes]
    if changed:
        search.forget_names(writing, documents.c.item_id.in_([row["item"] for row in changed]))
        writing.execute(update(documents).where(documents.c.item_id == bindparam("item")), changed)
    if added:
        for document_id, row in zip(writing.ids("documents", len(added)), added, strict=True):
            row["id"] = document_id
            del row["item"]
        writing.insert(documents, added)
    search.learn_names(writing, documents.c.item_id.in_(item_ids))
    _set_hashes(writing, hashes)
    removal.drop_unused(writing, left)


def _document_row(job: AnyRow, outcome: Delivered, content_id: int, aliases: str) -> dict[str, Any]:
    return {
        "item": job.item_id,
        "content_id": content_id,
        "title": _storable(outcome.title),
        "aliases": aliases,
        "path": job.locator,
        "modified": maybe_micros(outcome.modified),
        "metadata": to_json(outcome.metadata),
        "removed_at": None,
    }


def _set_hashes(writing: Writing, hashes: Sequence[Mapping[str, Any]]) -> None:
    if hashes:
        statement = update(items).where(items.c.id == bindparam("item")).values(content_hash=bindparam("hash"))
        writing.execute(statement, hashes)


def _aliases(writing: Writing, content_ids: Iterable[int]) -> dict[int, str]:
    found: defaultdict[int, list[str]] = defaultdict(list)
    for part in in_parts(content_ids):
        statement = (
            select(entities.c.content_id, entities.c.value)
            .where(entities.c.content_id.in_(part), entities.c.kind == EntityKind.ALIAS.value)
            .order_by(entities.c.content_id, entities.c.position)
        )
        for number, value in writing.execute(statement):
            found[number].append(value)
    return {number: "\n".join(values) for number, values in found.items()}


def _pass_over(writing: Writing, mine: Mapping[int, AnyRow], skipped: Mapping[int, SkippedOutcome]) -> None:
    """Unchanged content keeps (or brings back) the document; an item that is not wanted any more loses it."""
    kept = [n for n, o in skipped.items() if o.reason is SkipReason.UNCHANGED]
    removal.restore_items(writing, [mine[n].item_id for n in kept if mine[n].removed_at is not None])
    removal.withdraw_items(
        writing, [mine[n].item_id for n in skipped if n not in kept and mine[n].document_id is not None]
    )


def _settle_quarantine(writing: Writing, item_ids: Iterable[int]) -> None:
    for part in in_parts(item_ids):
        mine = (
            select(quarantine.c.job_id)
            .join(jobs, jobs.c.id == quarantine.c.job_id)
            .where(jobs.c.item_id.in_(part), quarantine.c.resolved_at.is_(None))
        )
        if open_entries := writing.execute(mine).scalars().all():
            resolve(writing, open_entries, "succeeded")


def _storable(text: Any) -> Any:
    """The text without what neither database can keep (NUL, lone surrogates), as long as before."""
    if not isinstance(text, str) or (text.isascii() and "\x00" not in text):
        return text
    return text.replace("\x00", "\ufffd").encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
