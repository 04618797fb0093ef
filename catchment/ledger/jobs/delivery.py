"""Delivery: store the results of a batch in the library and acknowledge its jobs, in one transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, bindparam, literal_column, select, update

from catchment.errors import IllegalTransition, Reason, SkipReason
from catchment.ledger.db.database import AnyRow, Writing, among, as_map, maybe_micros, to_json
from catchment.ledger.db.job_states import (
    PENDING,
    QUARANTINED,
    RETRYING,
    RUNNING,
    SKIPPED,
    SUCCEEDED,
    move,
)
from catchment.ledger.db.schema import MOMENT, contents, documents, history, items, jobs, quarantine
from catchment.ledger.db.schema import RUNNING as IS_RUNNING
from catchment.ledger.jobs.endings import end
from catchment.ledger.jobs.failures import resolve
from catchment.ledger.library import before_images, withdraw, word_index
from catchment.ledger.library.contents import Content, put_contents, storable
from catchment.model import JobState
from catchment.records.rows import Acks, Delivered, SkippedOutcome
from catchment.telemetry.catalogue import RECOVERED

_Outcome = Delivered | SkippedOutcome

_LONGEST_TITLE = 1_000
"""Maximum length of a title. PostgreSQL cannot index a long single line that looks like a heading."""


def deliver(writing: Writing, token: int, outcomes: Sequence[_Outcome]) -> Acks:
    """Implement `Queue.deliver`. If the content of a job was purged meanwhile, the job is requeued and counts as stale."""
    by_job = {outcome.job_id: outcome for outcome in outcomes}
    held = _held(writing, token, by_job)
    delivered = {n: storable(o) for n in held if isinstance(o := by_job[n], Delivered)}
    skipped = {n: o for n in held if isinstance(o := by_job[n], SkippedOutcome)}
    stored = put_contents(writing, delivered.values())
    content = {n: stored[key] for n, o in delivered.items() if (key := (o.content_hash, o.normalizer)) in stored}
    lost = [n for n in delivered if n not in content]
    for number in lost:
        del delivered[number]
    if _adopt(writing, held, content):
        held = _held(writing, token, by_job)
    owner = next((row.owner for row in held.values()), "nobody")
    # An undo of a backfill needs the sync that delivered a job: any sync may retry a failed job.
    sources = {row.source_id for row in held.values()}
    sync_id = writing.execute(select(before_images.latest_sync(sources.pop()))).scalar() if sources else None
    _acknowledge(writing, delivered, SUCCEEDED, owner, None, sync_id)
    _acknowledge(writing, lost, PENDING, owner, "content was purged", sync_id)
    by_reason: defaultdict[SkipReason, list[int]] = defaultdict(list)
    for number, outcome in skipped.items():
        by_reason[outcome.reason].append(number)
    for reason, numbers in by_reason.items():
        _acknowledge(writing, numbers, SKIPPED, owner, reason.value, sync_id)
    for number, outcome in skipped.items():
        if outcome.message:
            writing.execute(update(jobs).where(jobs.c.id == number).values(error=outcome.message))
    _put_documents(writing, held, delivered, content)
    _pass_over(writing, held, skipped)
    _settle_quarantine(writing, {held[n].item_id for n in (*delivered, *skipped)})
    _count_recovered(writing, [held[n] for n in delivered if held[n].failed_at is not None])
    return Acks(list(delivered), list(skipped), [n for n in by_job if n not in held] + lost)


def _held(writing: Writing, token: int, job_ids: Collection[int]) -> dict[int, AnyRow]:
    """Return the jobs still held by this token, in the given order, with their items and documents."""
    statement = (
        select(
            jobs.c.id,
            jobs.c.item_id,
            jobs.c.source_id,
            jobs.c.owner,
            jobs.c.failed_at,
            items.c.locator,
            documents.c.id.label("document_id"),
            documents.c.content_id,
            documents.c.removed_at,
        )
        .join(items, items.c.id == jobs.c.item_id)
        .outerjoin(documents, documents.c.item_id == items.c.id)
    )
    running: ColumnElement[bool] = literal_column(IS_RUNNING)
    rows = writing.execute(statement.where(among(writing, jobs.c.id, job_ids), jobs.c.token == token, running))
    rows_by_job = {row.id: row for row in rows}
    return {number: rows_by_job[number] for number in job_ids if number in rows_by_job}


def _adopt(writing: Writing, held: Mapping[int, AnyRow], content: Mapping[int, Content]) -> bool:
    """Transfer documents of missing items to new items with the same content: moves by copy and delete.

    Returns whether there were any. Empty contents are excluded, because they identify no document.
    """
    new = {n: c.id for n, c in content.items() if not c.is_new and held[n].document_id is None}
    orphans: defaultdict[tuple[int, int], list[AnyRow]] = defaultdict(list)
    of_contents = among(writing, documents.c.content_id, set(new.values()))
    left = (
        select(documents.c.id, documents.c.item_id, documents.c.content_id, documents.c.path, items.c.source_id)
        .join(items, items.c.id == documents.c.item_id)
        .join(contents, contents.c.id == documents.c.content_id)
        .where(of_contents, items.c.state != "present", contents.c.text != "")
        .order_by(items.c.gone_at)
    )
    for row in writing.execute(left):
        orphans[row.source_id, row.content_id].append(row)
    adopted = [
        (held[n], orphans[key].pop()) for n, number in new.items() if orphans.get(key := (held[n].source_id, number))
    ]
    if not adopted:
        return False
    left_behind = [orphan.item_id for _, orphan in adopted]
    current = among(writing, jobs.c.item_id, left_behind) & jobs.c.current
    end(writing, current, actor=adopted[0][0].owner, reason="deleted", resolution="deleted")
    withdraw.withdraw_items(writing, left_behind)
    writing.execute(
        update(documents).where(documents.c.id == bindparam("document")).values(item_id=bindparam("item")),
        [{"document": orphan.id, "item": row.item_id} for row, orphan in adopted],
    )
    # Without a version: a file that returns there must be read even if it is unchanged.
    writing.execute(update(items).where(items.c.id.in_(left_behind)).values(state="deleted", version=""))
    source_id = adopted[0][0].source_id
    sync_id = writing.execute(select(before_images.latest_sync(source_id))).scalar_one()
    for row, orphan in adopted:
        origin = f"{before_images.TAKEN}{orphan.item_id}"
        known = {"source_id": source_id, "item_id": row.item_id, "sync_id": sync_id}
        writing.record("moved", actor=row.owner, fact=origin, was_at=orphan.path, **known)
    return True


def _acknowledge(
    writing: Writing, numbers: Collection[int], to: JobState, owner: str, reason: str | None, sync_id: int | None
) -> None:
    which = among(writing, jobs.c.id, numbers)
    if len(move(writing, which, {RUNNING}, to, actor=owner, reason=reason, sync_id=sync_id)) != len(numbers):
        raise IllegalTransition(f"A job left its batch while it was put {to}; nothing was changed")


# Documents


def _put_documents(
    writing: Writing,
    held: Mapping[int, AnyRow],
    delivered: Mapping[int, Delivered],
    content: Mapping[int, Content],
) -> None:
    """Create or update the items' documents. An existing document keeps its ID."""
    if not delivered:
        return
    changed = [n for n in delivered if held[n].document_id is not None]
    added = [n for n in delivered if held[n].document_id is None]
    new_ids = dict(zip(added, writing.ids("documents", len(added)), strict=True)) if added else {}
    rows = {
        n: {
            "id": new_ids[n] if n in new_ids else held[n].document_id,
            "item_id": held[n].item_id,
            "source_id": held[n].source_id,
            "content_id": content[n].id,
            "title": outcome.title[:_LONGEST_TITLE],
            "aliases": content[n].aliases,
            "properties": content[n].properties,
            "path": held[n].locator,
            "modified": maybe_micros(outcome.modified),
            "metadata": to_json(outcome.metadata),
            "removed_at": None,
        }
        for n, outcome in delivered.items()
    }
    live = {n for n in changed if held[n].removed_at is None}
    before_images.save_absent(writing, [(held[n].source_id, held[n].locator) for n in delivered if n not in live])
    _change_documents(writing, [rows[n] for n in changed])
    writing.insert_named(documents, [rows[n] for n in added])
    complete(writing, [row["item_id"] for row in rows.values()])
    word_index.add_names(writing, [tuple(row[name] for name in word_index.NAMES) for row in rows.values()])
    withdraw.drop_unused(writing, {held[n].content_id for n in changed} - {content[n].id for n in changed})


def _change_documents(writing: Writing, rows: Sequence[Mapping[str, Any]]) -> None:
    if not rows:
        return
    old = among(writing, documents.c.id, [row["id"] for row in rows])
    before_images.save(writing, old & documents.c.removed_at.is_(None))
    word_index.forget_names(writing, old)
    which = documents.c.id == bindparam("document")
    writing.execute(update(documents).where(which), [{**row, "document": row["id"]} for row in rows])


def complete(writing: Writing, item_ids: Sequence[int]) -> None:
    """Set `documents.moment` and `items.content_hash`, which depend on the contents of the items' documents."""
    moment_column: ColumnElement[int] = literal_column(MOMENT)
    moment = (
        select(moment_column).select_from(contents).where(contents.c.id == documents.c.content_id).scalar_subquery()
    )
    writing.execute(update(documents).where(among(writing, documents.c.item_id, item_ids)).values(moment=moment))
    its_hash = (
        select(contents.c.hash)
        .join(documents, documents.c.content_id == contents.c.id)
        .where(documents.c.item_id == items.c.id)
        .scalar_subquery()
    )
    writing.execute(update(items).where(among(writing, items.c.id, item_ids)).values(content_hash=its_hash))


def _pass_over(writing: Writing, held: Mapping[int, AnyRow], skipped: Mapping[int, SkippedOutcome]) -> None:
    """Keep or restore the documents of unchanged items, and withdraw those of skipped items."""
    unchanged = [n for n, o in skipped.items() if o.reason is SkipReason.UNCHANGED]
    withdraw.restore_items(writing, [held[n].item_id for n in unchanged if held[n].removed_at is not None])
    withdraw.withdraw_items(
        writing, [held[n].item_id for n in skipped if n not in unchanged and held[n].document_id is not None]
    )


def _settle_quarantine(writing: Writing, item_ids: Collection[int]) -> None:
    statement = (
        select(quarantine.c.job_id)
        .join(jobs, jobs.c.id == quarantine.c.job_id)
        .where(among(writing, jobs.c.item_id, item_ids), quarantine.c.resolved_at.is_(None))
    )
    if open_entries := writing.execute(statement).scalars().all():
        resolve(writing, open_entries, "succeeded")


def _count_recovered(writing: Writing, succeeded: Sequence[AnyRow]) -> None:
    """Count jobs that succeeded after failed attempts, by the reason of the last one."""
    failed = history.c.event.in_((RETRYING.value, QUARANTINED.value))
    of_items = among(writing, history.c.item_id, [row.item_id for row in succeeded])
    of_jobs = among(writing, history.c.job_id, [row.id for row in succeeded])
    statement = select(history.c.job_id, history.c.reason).where(of_items, of_jobs, failed).order_by(history.c.id)
    reasons = as_map(writing.execute(statement))
    for row in succeeded:
        writing.tally.add(RECOVERED, 1, row.source_id, reason=reasons.get(row.id, Reason.UNKNOWN))
