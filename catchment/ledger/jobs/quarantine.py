"""The quarantine: failed items and the operator's actions on them."""

from __future__ import annotations

import builtins
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Select, bindparam, delete, func, literal, literal_column, select, update

from catchment.errors import IllegalTransition, NotFound, Reason
from catchment.ledger.db.database import (
    AnyRow,
    Reading,
    Store,
    Writing,
    among,
    as_map,
    from_json,
    from_micros,
    to_json,
    to_micros,
)
from catchment.ledger.db.job_states import PENDING, QUARANTINED, move, refuse
from catchment.ledger.db.lookup import before, cut, find_open_sync, key_of
from catchment.ledger.db.row_records import record
from catchment.ledger.db.schema import documents, items, jobs, quarantine, sources, syncs
from catchment.ledger.jobs.auto_retry import CHANGED, Circumstances, first_change
from catchment.ledger.jobs.endings import end
from catchment.ledger.jobs.failures import resolve
from catchment.records.rows import ClosedCluster, Cluster, QuarantineEntry
from catchment.records.standing import ListPage

_LOGIN_AGAIN = 86_400_000_000
"""Minimum interval between retries after a login change, in microseconds."""


class Quarantine:
    """The open entries. An entry closes when its item succeeds, changes, is deleted or is discarded."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def list(
        self, source: str | None = None, reason: Reason | None = None, cluster: str | None = None
    ) -> builtins.list[QuarantineEntry]:
        """Return the open entries, optionally of one source, reason or cluster; latest failure first, without tracebacks."""
        statement = (
            _entries(literal(""))
            .where(_matches(source, reason, cluster))
            .order_by(quarantine.c.last_failed_at.desc(), quarantine.c.job_id.desc())
        )
        return [_entry(row) for row in self._store.execute(statement)]

    def show(self, job_id: int) -> QuarantineEntry:
        """Return an entry, open or closed. Raises NotFound."""
        row = self._store.execute(_entries().where(quarantine.c.job_id == job_id)).first()
        if row is None:
            raise NotFound(f"job {job_id}: not in quarantine; see `catchment quarantine list`")
        return _entry(row)

    def retry(self, job_ids: Sequence[int] | None, actor: str, reason: str | None = None) -> int:
        """Requeue quarantined jobs (None: all). Return their number. Earlier attempts remain counted."""
        with self._store.write() as writing:
            every = select(jobs.c.id).where(literal_column("state = 'quarantined'"))
            chosen = writing.execute(every).scalars().all() if job_ids is None else job_ids
            moved = release(writing, chosen, actor, reason or "operator retry")
            if not moved and job_ids is not None and len(job_ids) == 1:
                raise _refused(writing, job_ids[0])
            return moved

    def auto_retry(self, sync_id: int, now: Circumstances) -> int:
        """Requeue the quarantined items of a sync's source if a condition relevant to their failure has changed.

        Returns their number. Each item is requeued once per change. A changed login counts at most once a day, because some
        services rotate credentials constantly. Raises StaleLease if the sync is closed and would requeue any.
        """
        entries = (
            select(quarantine.c.job_id, quarantine.c.reason, quarantine.c.circumstances, quarantine.c.last_failed_at)
            .join(jobs, jobs.c.id == quarantine.c.job_id)
            .join(syncs, syncs.c.source_id == jobs.c.source_id)
            .where(syncs.c.id == sync_id, quarantine.c.resolved_at.is_(None))
        )
        by_change: defaultdict[str, builtins.list[int]] = defaultdict(list)
        with self._store.read() as reading:
            for job_id, reason, then, failed_at in reading.execute(entries):
                change = first_change(Reason(reason), from_json(then), now)
                # Failure times in the future date from before the clock was set back.
                recent = reading.now - _LOGIN_AGAIN < failed_at <= reading.now
                if change is not None and (change != "login" or not recent):
                    by_change[change].append(job_id)
        if not by_change:
            return 0
        with self._store.write() as writing:
            find_open_sync(writing, sync_id)
            return sum(release(writing, ids, "catchment", CHANGED[change]) for change, ids in by_change.items())

    def note(self, job_ids: int | Collection[int], text: str, actor: str) -> int:
        """Add a note to entries. Return their number. Raises NotFound, without a change, if a job has no entry."""
        chosen = [job_ids] if isinstance(job_ids, int) else sorted(set(job_ids))
        columns = quarantine.c.job_id, quarantine.c.notes, jobs.c.source_id, jobs.c.item_id
        entries = select(*columns).join(jobs, jobs.c.id == quarantine.c.job_id)
        with self._store.write() as writing:
            rows = {
                row.job_id: row for row in writing.execute(entries.where(among(writing, quarantine.c.job_id, chosen)))
            }
            if unknown := [job_id for job_id in chosen if job_id not in rows]:
                raise NotFound(f"job {unknown[0]}: not in quarantine; see `catchment quarantine list`")
            notes = [{"entry": n, "notes": to_json([*from_json(row.notes), text])} for n, row in rows.items()]
            if notes:
                writing.execute(update(quarantine).where(quarantine.c.job_id == bindparam("entry")), notes)
            for number, row in rows.items():
                writing.record("noted", actor=actor, source_id=row.source_id, item_id=row.item_id, job_id=number)
        return len(rows)

    def discard(self, job_ids: Collection[int], actor: str, reason: str) -> int:
        """Discard entries until their items change. Return their number. The existing documents remain.

        Raises NotFound or IllegalTransition, without a change, if one of them is not in quarantine.
        """
        chosen = set(job_ids)
        with self._store.write() as writing:
            which = among(writing, jobs.c.id, chosen)
            ended = end(writing, which, actor=actor, reason=reason, resolution="discarded", expected={QUARANTINED})
            if missing := chosen.difference(row.id for row in ended):
                raise refuse(writing, min(missing), "discarded")
        return len(chosen)

    def purge(self, older_than: timedelta, actor: str, reason: str = "purged") -> int:
        """Discard entries with a last failure older than this, and delete closed entries. Return their number."""
        with self._store.write() as writing:
            limit = writing.now - older_than // timedelta(microseconds=1)
            old = quarantine.c.last_failed_at <= limit
            entries = jobs.c.id.in_(select(quarantine.c.job_id).where(old, quarantine.c.resolved_at.is_(None)))
            end(writing, entries, actor=actor, reason=reason, resolution="discarded", expected={QUARANTINED})
            return writing.execute(delete(quarantine).where(old)).rowcount

    def stats(self) -> dict[str, dict[Reason, int]]:
        """Return the number of open entries by source and reason."""
        statement = (
            _of_sources(sources.c.name, quarantine.c.reason, func.count())
            .where(quarantine.c.resolved_at.is_(None))
            .group_by(sources.c.name, quarantine.c.reason)
            .order_by(sources.c.name, quarantine.c.reason)
        )
        numbers: dict[str, dict[Reason, int]] = {}
        for name, reason, count in self._store.execute(statement):
            numbers.setdefault(name, {})[Reason(reason)] = count
        return numbers

    def clusters(self, cluster: str | None = None) -> builtins.list[Cluster]:
        """Return the open entries grouped by cause, or only one group; largest first."""
        which = _matches(cluster=cluster)
        with self._store.read() as reading:
            names = as_map(reading.execute(select(sources.c.id, sources.c.name)))
            groups: defaultdict[str, builtins.list[AnyRow]] = defaultdict(list)
            for row in reading.execute(_grouped(which)):
                groups[row.cluster].append(row)
            latest = {name: max(row.last for row in group) for name, group in groups.items()}
            examples = _examples(reading, which, latest)
        clusters = [_cluster(examples[name], group, names) for name, group in groups.items()]
        return sorted(clusters, key=lambda cluster: (-cluster.count, cluster.id))

    def causes(self) -> int:
        """Return the number of clusters. Cheap."""
        with self._store.read() as reading:
            causes = select(func.count(quarantine.c.cluster.distinct())).where(quarantine.c.resolved_at.is_(None))
            return int(reading.execute(causes).scalar_one())

    def closed(self, since: datetime, limit: int) -> builtins.list[ClosedCluster]:
        """Return the entries closed since a time, by cause, latest first. A retried entry is closed once it has succeeded.

        Reads every entry: 30 ms for 10,000.
        """
        latest = func.max(quarantine.c.resolved_at)
        statement = (
            select(func.max(quarantine.c.message), quarantine.c.resolution, func.count(), latest)
            .join(jobs, jobs.c.id == quarantine.c.job_id)
            .where(quarantine.c.resolved_at >= to_micros(since))
            .where((quarantine.c.resolution != "retried") | (jobs.c.state == "succeeded"))
            .group_by(quarantine.c.cluster, quarantine.c.resolution)
            .order_by(latest.desc())
            .limit(limit)
        )
        with self._store.read() as reading:
            rows = reading.execute(statement)
            return [ClosedCluster(text, how, number, from_micros(at)) for text, how, number, at in rows]

    def page(
        self,
        source: str | None = None,
        reason: Reason | None = None,
        cluster: str | None = None,
        *,
        after: str | None = None,
        limit: int = 50,
    ) -> ListPage[QuarantineEntry]:
        """Return a part of `list`, in its order."""
        matching = _matching(source, reason, cluster)
        # The entry's own columns follow its traceback. The same times are in its job.
        key = jobs.c.finished_at, jobs.c.id
        part = matching.where(before(after, *key)).order_by(*(column.desc() for column in key)).limit(limit + 1)
        with self._store.read() as reading:
            stored = reading.execute(part).all()
            total = reading.execute(matching.with_only_columns(func.count())).scalar_one()
            entries = _entries(literal("")).where(quarantine.c.job_id.in_([row.id for row in stored]))
            rows = {row.job_id: row for row in reading.execute(entries)}
        return cut(stored, limit, total, lambda row: _entry(rows[row.id]), lambda row: key_of(row.finished_at, row.id))

    def matching(
        self, source: str | None = None, reason: Reason | None = None, cluster: str | None = None
    ) -> builtins.list[int]:
        """Return the jobs of the open entries of a source, reason or cluster, or of all."""
        return [row.id for row in self._store.execute(_matching(source, reason, cluster).order_by(jobs.c.id))]


def _refused(reading: Reading, job_id: int) -> Exception:
    """Return the reason that a job cannot be retried."""
    if reading.execute(select(jobs.c.state).where(jobs.c.id == job_id)).scalar() != QUARANTINED.value:
        return refuse(reading, job_id, "retried")
    return IllegalTransition(
        f"job {job_id}: the item is missing at its source; retry it when it is back, or see `catchment deletions list`"
    )


def release(writing: Writing, job_ids: Sequence[int], actor: str, reason: str) -> int:
    """Make these jobs ready again, except jobs of missing items. Return the number of jobs."""
    values = {"not_before": writing.now, "due": writing.now, "finished_at": None}
    # Items missing from the listing cannot be read.
    present = select(items.c.id).where(items.c.id == jobs.c.item_id, items.c.state == "present")
    released = among(writing, jobs.c.id, job_ids) & jobs.c.current & present.exists()
    rows = move(writing, released, {QUARANTINED}, PENDING, actor=actor, reason=reason, **values)
    resolve(writing, [row.id for row in rows], "retried")
    return len(rows)


def _matching(source: str | None, reason: Reason | None, cluster: str | None) -> Select[Any]:
    """Select the jobs of the open entries that match."""
    return _of_sources(jobs.c.id, jobs.c.finished_at).where(_matches(source, reason, cluster))


def _matches(
    source: str | None = None, reason: Reason | None = None, cluster: str | None = None
) -> ColumnElement[bool]:
    """Return the condition that an entry is open, and of this source, reason and cluster."""
    matches: ColumnElement[bool] = quarantine.c.resolved_at.is_(None)
    if source is not None:
        matches &= sources.c.name == source
    if reason is not None:
        matches &= quarantine.c.reason == Reason(reason).value
    if cluster is not None:
        matches &= quarantine.c.cluster == cluster
    return matches


def _grouped(which: ColumnElement[bool]) -> Select[Any]:
    """Count entries by cluster and source. The times are those of the jobs: the entry's own ones follow its traceback."""
    first = func.min(func.coalesce(jobs.c.failed_at, jobs.c.finished_at)).label("first")
    return (
        select(quarantine.c.cluster, jobs.c.source_id, func.count().label("number"), first)
        .add_columns(func.max(jobs.c.finished_at).label("last"))
        .join_from(quarantine, jobs, jobs.c.id == quarantine.c.job_id)
        .where(which)
        .group_by(quarantine.c.cluster, jobs.c.source_id)
    )


def _examples(reading: Reading, which: ColumnElement[bool], latest: Mapping[str, int]) -> dict[str, AnyRow]:
    """Return the entry of each cluster that failed last, at this time."""
    failed = jobs.c.finished_at
    statement = (
        select(quarantine.c.cluster, failed, func.max(jobs.c.id))
        .join_from(quarantine, jobs, jobs.c.id == quarantine.c.job_id)
        .where(which, among(reading, failed, set(latest.values())))
        .group_by(quarantine.c.cluster, failed)
    )
    numbers = [number for name, moment, number in reading.execute(statement) if latest[name] == moment]
    entries = _entries().where(among(reading, quarantine.c.job_id, numbers))
    return {row.cluster: row for row in reading.execute(entries)}


def _cluster(latest: AnyRow, group: Sequence[AnyRow], names: Mapping[int, str]) -> Cluster:
    return record(
        Cluster,
        latest,
        id=latest.cluster,
        by_source={names[row.source_id]: row.number for row in group},
        first=from_micros(min(row.first for row in group)),
        last=from_micros(max(row.last for row in group)),
        example=latest.job_id,
        item=latest.locator,
    )


def _of_sources(*columns: Any) -> Select[Any]:
    """Select columns of entries, joined with their jobs and sources."""
    return (
        select(*columns)
        .join_from(quarantine, jobs, jobs.c.id == quarantine.c.job_id)
        .join(sources, sources.c.id == jobs.c.source_id)
    )


def _entries(traceback: ColumnElement[str] = quarantine.c.traceback) -> Select[Any]:
    return (
        _of_sources(
            *(column for column in quarantine.c if column.name != "traceback"),
            traceback.label("traceback"),
            sources.c.name.label("source"),
            sources.c.kind,
            jobs.c.item_id,
            jobs.c.version,
            jobs.c.attempt,
            items.c.locator,
            documents.c.id.label("document"),
        )
        .join(items, items.c.id == jobs.c.item_id)
        .outerjoin(documents, (documents.c.item_id == items.c.id) & documents.c.removed_at.is_(None))
    )


def _entry(row: AnyRow) -> QuarantineEntry:
    return record(QuarantineEntry, row, job=row.job_id, item=row.locator, attempts=row.attempt)
