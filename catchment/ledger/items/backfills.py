"""Backfills: work that a person requests in addition to the listing, such as an older window or a replay with newer code.

A backfill adds ordinary jobs. Its state is derived from them; only the wishes of the operator are stored. A replayed item gets
a new job, so that no finished job is opened again.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, Select, exists, func, insert, not_, select, true, update

from catchment.errors import NotFound, Refused
from catchment.ledger.db.database import (
    AnyRow,
    Reading,
    Store,
    Writing,
    among,
    as_map,
    from_json,
    maybe_micros,
    maybe_time,
    to_json,
)
from catchment.ledger.db.job_states import CANCELLED, QUARANTINED, UNFINISHED, states
from catchment.ledger.db.lookup import before, cut, find_open_sync, key_of
from catchment.ledger.db.row_records import record
from catchment.ledger.db.schema import backfills, contents, documents, items, jobs, sources, syncs
from catchment.ledger.db.schema import before_images as images
from catchment.ledger.items.matching import BACKFILL_CANCELLED
from catchment.ledger.jobs import job_lists
from catchment.ledger.jobs.endings import WAITING, end
from catchment.ledger.jobs.quarantine import release
from catchment.ledger.jobs.repeats import can_be_repeated, repeat, was_unsupported
from catchment.ledger.library import embeddings, page_texts
from catchment.model import Item, JobState, ReplayStage
from catchment.records.standing import ListPage

_AT_ONCE = 5_000
_MOST_QUARANTINED = 20
_LARGEST = 10
_FIRST, _LAST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)

WITHOUT_JOBS = frozenset({ReplayStage.RECOGNIZE, ReplayStage.EMBED})
"""The stages whose work the flows of the same names do."""

Readable = Callable[[Mapping[int, Item]], Collection[int]]
"""Returns the IDs of the items among these that can be read now."""


@dataclass(frozen=True, slots=True)
class BackfillSelection:
    """What a backfill does: a stage, for the items of a window or for these.

    `since` and `until` (aware, the latter excluded) are compared with the date of the document or, for `FETCH`, of the item at
    its source.
    """

    stage: ReplayStage
    since: datetime | None = None
    until: datetime | None = None
    items: tuple[int, ...] | None = None

    @property
    def is_window(self) -> bool:
        """Whether the source lists its items."""
        return self.stage is ReplayStage.FETCH and self.items is None

    @property
    def window(self) -> tuple[datetime, datetime]:
        """The window, with the ends of time where it is open."""
        return self.since or _FIRST, self.until or _LAST

    def overlaps(self, other: BackfillSelection) -> bool:
        """Return whether both add jobs of the same kind (of a period of the source, or replays) and may mean the same items."""
        if self.is_window != other.is_window or {self.stage, other.stage} & WITHOUT_JOBS:
            return False
        (begin, end_), (its_begin, its_end) = self.window, other.window
        shares_items = self.items is None or other.items is None or not set(self.items).isdisjoint(other.items)
        return shares_items and begin < its_end and its_begin < end_

    def as_json(self) -> dict[str, Any]:
        """Return the selection for storing."""
        return {
            "stage": self.stage.value,
            "since": maybe_micros(self.since),
            "until": maybe_micros(self.until),
            "items": self.items,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> BackfillSelection:
        """Return the selection that `as_json` stored."""
        chosen = stored["items"]
        return cls(
            ReplayStage(stored["stage"]),
            maybe_time(stored["since"]),
            maybe_time(stored["until"]),
            None if chosen is None else tuple(chosen),
        )


@dataclass(frozen=True, slots=True)
class Survey:
    """The work that a selection means now: the numbers of items, and of those that cannot be read, and a digest of all."""

    total: int
    unreadable: int
    digest: str


class BackfillState(StrEnum):
    """The state of a backfill."""

    PLANNED = "planned"
    RUNNING = "running"
    PAUSED = "paused"
    DONE = "done"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Backfill:
    """A backfill and its progress. `jobs`: its jobs by state. `reason`: of its latest pause."""

    id: int
    source: str
    selection: BackfillSelection
    survey: Survey
    state: BackfillState
    reason: str | None
    created_by: str
    created: datetime
    started: datetime | None
    is_listed: bool
    jobs: Mapping[JobState, int]

    @property
    def is_running(self) -> bool:
        """Whether syncs may work on it."""
        return self.state is BackfillState.RUNNING

    @property
    def left(self) -> int:
        """Number of jobs that are not finished."""
        return sum(self.jobs.get(state, 0) for state in UNFINISHED)

    @property
    def quarantined(self) -> int:
        """Number of jobs in quarantine."""
        return self.jobs.get(QUARANTINED, 0)

    @property
    def done(self) -> int:
        """Number of finished jobs, or of items whose pictures or embeddings another flow reads anew.

        Jobs that ended with a cancelled backfill do not count.
        """
        known = self.total if self.is_listed else sum(self.jobs.values())
        given_up = self.jobs.get(CANCELLED, 0) if self.state is BackfillState.CANCELLED else 0
        return known - self.left - given_up

    @property
    def total(self) -> int:
        """Number of jobs, as planned until all are known."""
        has_jobs = self.selection.stage not in WITHOUT_JOBS
        return sum(self.jobs.values()) if self.is_listed and has_jobs else self.survey.total


@dataclass(frozen=True, slots=True)
class TextChange:
    """A document whose text a backfill changed, with the lengths of both texts in characters."""

    document: int
    path: str
    was: int
    now: int


class Backfills:
    """The backfills of all sources."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def survey(self, source_id: int, what: BackfillSelection, code: str, readable: Readable | None = None) -> Survey:
        """Return the work of a selection that is no window. `code`: the present version, as `normalizer.extractor`."""
        total = unreadable = after = 0
        digest = hashlib.sha256(f"{code}\n{to_json(what.as_json())}".encode())
        with self._store.read() as reading:
            while part := _candidates(reading, source_id, what, code, after):
                readable_rows, after = _readable(part, readable), part[-1].id
                total += len(readable_rows)
                unreadable += len(part) - len(readable_rows)
                digest.update("".join(f"{row.id}:{row.version}:{row.normalizer}\n" for row in readable_rows).encode())
        return Survey(total, unreadable, digest.hexdigest()[:16])

    def plan(self, source_id: int, what: BackfillSelection, survey: Survey, actor: str, reason: str = "") -> int:
        """Store a plan, to be started or dropped. Return its number."""
        with self._store.write() as writing:
            number = writing.ids("backfills")[0]
            row = {
                "id": number,
                "source_id": source_id,
                "selection": to_json(what.as_json()),
                "total": survey.total,
                "unreadable": survey.unreadable,
                "digest": survey.digest,
                "wish": "plan",
                "created_by": actor,
                "created_at": writing.now,
            }
            writing.execute(insert(backfills).values(row))
            _tell(writing, source_id, number, "backfill planned", actor, reason)
            return number

    def start(self, number: int, digest: str, actor: str, reason: str = "") -> None:
        """Start a planned backfill. Raises NotFound.

        Raises Refused if it is not planned, if the work differs from the plan, or if it overlaps an unfinished backfill of the
        source: an item has one waiting job, so cancelling one backfill would drop items of the other.
        """
        with self._store.write() as writing:
            row = _found(writing, number)
            if row.wish != "plan":
                raise Refused(f"backfill {number}: started already; see `catchment backfill show {number}`")
            if row.digest != digest:
                raise Refused(f"backfill {number}: items or code have changed since it was planned; plan it again")
            for other in writing.execute(_unfinished(row.source_id)).all():
                if _selection(row).overlaps(_selection(other)):
                    raise Refused(
                        f"backfill {number}: overlaps backfill {other.id}, which is unfinished; wait for it, or cancel it: "
                        f"`catchment backfill cancel {other.id}`"
                    )
            _set(writing, row, "run", "backfill started", actor, reason, started_at=writing.now)

    def pause(self, number: int, actor: str, reason: str = "") -> None:
        """Stop after the present batch. Raises Refused unless it is running, NotFound."""
        with self._store.write() as writing:
            row = _found(writing, number)
            if row.wish != "run" or _state(row, _jobs_of(writing, [number])[number]) is BackfillState.DONE:
                raise Refused(f"backfill {number}: not running; see `catchment backfill show {number}`")
            _set(writing, row, "hold", "backfill paused", actor, reason)

    def resume(self, number: int, actor: str, reason: str = "") -> None:
        """Continue a paused backfill. Raises Refused if it is not paused, NotFound."""
        with self._store.write() as writing:
            row = _found(writing, number)
            if row.wish != "hold":
                raise Refused(f"backfill {number}: not paused; see `catchment backfill show {number}`")
            _set(writing, row, "run", "backfill resumed", actor, reason)

    def cancel(self, number: int, actor: str, reason: str = "") -> int:
        """End it. Its waiting jobs, also those in quarantine, are cancelled; the earlier ones count again. Return their number.

        A backfill that is done stays done. May be repeated after a kill. Raises NotFound.
        """
        with self._store.write() as writing:
            row = _found(writing, number)
            is_done = _state(row, _jobs_of(writing, [number])[number]) is BackfillState.DONE
            if row.wish != "cancel" and not is_done:
                _set(writing, row, "cancel", "backfill cancelled", actor, reason)
        waiting = select(jobs.c.id).where(jobs.c.backfill_id == number, states(WAITING)).limit(_AT_ONCE)
        cancelled, ended = 0, _AT_ONCE
        while ended == _AT_ONCE:
            with self._store.write() as writing:
                unstarted = among(writing, jobs.c.id, writing.execute(waiting).scalars().all())
                ended = len(end(writing, unstarted, actor=actor, reason=BACKFILL_CANCELLED, resolution="cancelled"))
            cancelled += ended
            self._store.let_others_write()
        return cancelled

    def retry(self, number: int, actor: str, reason: str) -> int:
        """Let ordinary syncs retry its items in quarantine. Return their number. Raises NotFound."""
        with self._store.write() as writing:
            _found(writing, number)
            failed = (jobs.c.backfill_id == number) & states({QUARANTINED})
            return release(writing, writing.execute(select(jobs.c.id).where(failed)).scalars().all(), actor, reason)

    def enqueue(self, sync_id: int, number: int, code: str, readable: Readable | None = None) -> int:
        """Add the jobs of a backfill that is no window. Return the number of new ones. May be repeated after a kill."""
        added = after = 0
        while True:
            with self._store.read() as reading:
                row = _found(reading, number)
                part = _candidates(reading, row.source_id, what := _selection(row), code, after, number)
            if not part:
                return added
            readable_rows, after = _readable(part, readable), part[-1].id
            with self._store.write() as writing:
                sync = find_open_sync(writing, sync_id)
                if what.stage is ReplayStage.EMBED:
                    embeddings.forget(writing, {each.content_id for each in readable_rows})
                elif what.stage is ReplayStage.RECOGNIZE:
                    page_texts.await_again(writing, {each.content_id for each in readable_rows})
                else:
                    repeat(writing, sync.source_id, readable_rows, "replay", sync.owner, sync_id, number)
            added += len(readable_rows)
            self._store.let_others_write()

    def close_listing(self, sync_id: int) -> None:
        """Record that a sync knows all jobs of its backfill. Idempotent. Raises StaleLease if the sync is closed."""
        with self._store.write() as writing:
            of_sync = backfills.c.id == find_open_sync(writing, sync_id).backfill_id
            writing.execute(
                update(backfills).where(of_sync, backfills.c.listed_at.is_(None)).values(listed_at=writing.now)
            )

    def judge(self, sync_id: int, number: int) -> Backfill:
        """Return a backfill, after pausing it if too many of its items failed: more than 20, and than one in twenty.

        Raises StaleLease if the calling sync is closed and would pause the backfill.
        """
        backfill = self.get(number)
        most = max(_MOST_QUARANTINED, backfill.total // _MOST_QUARANTINED)
        if not backfill.is_running or backfill.quarantined <= most:
            return backfill
        with self._store.write() as writing:
            find_open_sync(writing, sync_id)
            row = _found(writing, number)
            if row.wish == "run":  # An operator may have paused or cancelled it meanwhile.
                reason = f"{backfill.quarantined} of its items are in quarantine"
                _set(writing, row, "hold", "backfill paused", "catchment", reason)
        return self.get(number)

    def get(self, number: int) -> Backfill:
        """Return a backfill. Raises NotFound."""
        with self._store.read() as reading:
            return _backfills(reading, [_found(reading, number)])[0]

    def page(self, source: str | None = None, *, after: str | None = None, limit: int = 50) -> ListPage[Backfill]:
        """Return the backfills in parts, newest first."""
        of_source = true() if source is None else sources.c.name == source
        counted = select(func.count()).select_from(backfills.join(sources)).where(of_source, _THERE)
        with self._store.read() as reading:
            chosen = _rows().where(of_source, before(after, backfills.c.id)).order_by(backfills.c.id.desc())
            page = cut(
                reading.execute(chosen.limit(limit + 1)).all(),
                limit,
                reading.execute(counted).scalar_one(),
                lambda row: row,
                lambda row: key_of(row.id),
            )
            return ListPage(tuple(_backfills(reading, page.rows)), page.total, page.next)

    def unfinished(self, source_id: int | None = None) -> list[Backfill]:
        """Return the backfills of a source or of all that run or are paused, oldest first."""
        with self._store.read() as reading:
            return _backfills(reading, reading.execute(_unfinished(source_id)).all())

    def changes(self, number: int) -> tuple[int, list[TextChange]]:
        """Return the number of texts that a backfill changed, and the largest changes in length, while undo data is kept."""
        old, new = contents.alias(), contents.alias()
        its_syncs = select(syncs.c.id).where(syncs.c.backfill_id == number)
        was, now = func.length(old.c.text), func.length(new.c.text)
        changed = (
            select(documents.c.id, documents.c.path, was.label("was"), now.label("now"))
            .join_from(images, old, old.c.id == images.c.content_id)
            .join(documents, (documents.c.source_id == images.c.source_id) & (documents.c.path == images.c.path))
            .join(new, new.c.id == documents.c.content_id)
            .where(images.c.sync_id.in_(its_syncs), documents.c.removed_at.is_(None), old.c.text != new.c.text)
        )
        with self._store.read() as reading:
            total = reading.execute(select(func.count()).select_from(changed.subquery())).scalar_one()
            rows = reading.execute(changed.order_by(func.abs(now - was).desc(), documents.c.id).limit(_LARGEST))
            return total, [TextChange(*row) for row in rows]

    def items_at(self, source_id: int, locators: Collection[str]) -> dict[str, int]:
        """Return the IDs of the present items at these locators."""
        there = (items.c.source_id == source_id) & (items.c.state == "present")
        with self._store.read() as reading:
            chosen = select(items.c.locator, items.c.id).where(there, among(reading, items.c.locator, locators))
            return as_map(reading.execute(chosen))

    def outdated(self, code: str) -> dict[str, int]:
        """Return how many files of each source another version of the code read, or could not. Omits sources without."""
        older = not_(contents.c.normalizer.like(f"{code} %"))
        current = select(jobs.c.id).where(jobs.c.item_id == documents.c.item_id, jobs.c.current, can_be_repeated())
        read = (
            select(sources.c.name, func.count())
            .join_from(documents, contents, contents.c.id == documents.c.content_id)
            .join(sources, sources.c.id == documents.c.source_id)
            .where(documents.c.removed_at.is_(None), older, exists(current))
            .group_by(sources.c.name)
        )
        unread = (
            select(sources.c.name, func.count())
            .join_from(jobs, sources)
            .where(jobs.c.current, was_unsupported(code))
            .group_by(sources.c.name)
        )
        return dict(Counter(as_map(self._store.execute(read))) + Counter(as_map(self._store.execute(unread))))


_THERE = sources.c.state != "removed"


def _rows() -> Select[Any]:
    return select(backfills, sources.c.name.label("source")).join(sources).where(_THERE)


def _unfinished(source_id: int | None) -> Select[Any]:
    of_source = true() if source_id is None else backfills.c.source_id == source_id
    # Every sync runs this query, so it does not count the jobs of the many completed backfills.
    left = exists(select(jobs.c.id).where(jobs.c.backfill_id == backfills.c.id, states(UNFINISHED)))
    is_open = backfills.c.wish.in_(("run", "hold")) & (backfills.c.listed_at.is_(None) | left)
    return _rows().where(of_source, is_open).order_by(backfills.c.id)


def _found(reading: Reading, number: int) -> AnyRow:
    row = reading.execute(_rows().where(backfills.c.id == number)).first()
    if row is None:
        raise NotFound(f"backfill {number}: not found; see `catchment backfill list`")
    return row


def _selection(row: AnyRow) -> BackfillSelection:
    return BackfillSelection.from_json(from_json(row.selection))


def _jobs_of(reading: Reading, numbers: Collection[int]) -> dict[int, dict[JobState, int]]:
    counted = select(jobs.c.backfill_id, *job_lists.by_state()).where(among(reading, jobs.c.backfill_id, numbers))
    by_state: dict[int, dict[JobState, int]] = {number: {} for number in numbers}
    for number, *counts in reading.execute(counted.group_by(jobs.c.backfill_id)):
        by_state[number] = job_lists.numbers(counts)
    return by_state


def _state(row: AnyRow, by_state: Mapping[JobState, int]) -> BackfillState:
    if row.wish == "plan":
        return BackfillState.PLANNED
    if row.wish == "cancel":
        return BackfillState.CANCELLED
    if row.listed_at is not None and not any(by_state.get(state) for state in UNFINISHED):
        return BackfillState.DONE
    return BackfillState.PAUSED if row.wish == "hold" else BackfillState.RUNNING


def _backfills(reading: Reading, rows: Sequence[AnyRow]) -> list[Backfill]:
    by_state = _jobs_of(reading, [row.id for row in rows])
    return [
        record(
            Backfill,
            row,
            selection=_selection(row),
            survey=Survey(row.total, row.unreadable, row.digest),
            state=_state(row, by_state[row.id]),
            is_listed=row.listed_at is not None,
            jobs=by_state[row.id],
        )
        for row in rows
    ]


def _set(writing: Writing, row: AnyRow, wish: str, event: str, actor: str, reason: str, **values: Any) -> None:
    values |= {"wish": wish, "reason": reason or None}
    writing.execute(update(backfills).where(backfills.c.id == row.id).values(values))
    _tell(writing, row.source_id, row.id, event, actor, reason)


def _tell(writing: Writing, source_id: int, number: int, event: str, actor: str, reason: str) -> None:
    writing.record(event, actor=actor, source_id=source_id, reason=f"{number}: {reason}" if reason else str(number))


def _candidates(
    reading: Reading, source_id: int, what: BackfillSelection, code: str, after: int, number: int | None = None
) -> Sequence[AnyRow]:
    """Return the first items of a selection after this one: done, and read by other code if the stage depends on it.

    Also those that other code could not read.

    Excludes items that an undo restored. `number`: also excludes items that ever had a job of this backfill.
    """
    item = (items.c.id, items.c.locator, items.c.container, items.c.version, items.c.identity)
    columns = (*item, jobs.c.id.label("job"), contents.c.normalizer, documents.c.content_id)
    selected: ColumnElement[bool] = true() if what.items is None else among(reading, items.c.id, what.items)
    chosen = can_be_repeated() & documents.c.id.is_not(None)
    if what.stage in (ReplayStage.NORMALIZE, ReplayStage.EXTRACT):
        same = f"{code} %" if what.stage is ReplayStage.NORMALIZE else f"%.{code.partition('.')[2]} %"
        chosen &= not_(contents.c.normalizer.like(same))
    if what.since is not None:
        chosen &= documents.c.moment >= maybe_micros(what.since)
    if what.until is not None:
        chosen &= documents.c.moment < maybe_micros(what.until)
    if what.stage is ReplayStage.NORMALIZE and what.since is None and what.until is None:
        chosen |= was_unsupported(code)
    if number is not None:
        tried = jobs.alias("tried")
        # By the item's few jobs, not by all of the backfill: the sum keeps SQLite from that index.
        selected &= ~exists(select(tried.c.id).where(tried.c.item_id == items.c.id, tried.c.backfill_id + 0 == number))
    statement = (
        select(*columns)
        .join_from(items, jobs, (jobs.c.item_id == items.c.id) & jobs.c.current)
        .outerjoin(documents, (documents.c.item_id == items.c.id) & documents.c.removed_at.is_(None))
        .outerjoin(contents, contents.c.id == documents.c.content_id)
        .where(items.c.source_id == source_id, items.c.state == "present", selected, chosen, items.c.id > after)
        .order_by(items.c.id)
        .limit(_AT_ONCE)
    )
    return reading.execute(statement).all()


def _readable(part: Sequence[AnyRow], readable: Readable | None) -> Sequence[AnyRow]:
    if readable is None:
        return part
    there = set(readable({row.id: Item(row.locator, row.container, row.version, row.identity) for row in part}))
    return [row for row in part if row.id in there]
