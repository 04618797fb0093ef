"""One sync of one source, from discovery to delivery.

`SourceSync` is the interface for tasks, tests and benchmarks. It is independent of any scheduler: the caller decides order,
concurrency and waits. Its steps are thread-safe and idempotent.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import datetime, timedelta

from catchment.content.cache import Cache
from catchment.content.parsing import CODE
from catchment.content.redaction import redact
from catchment.contracts import Connector, Paced, Stocking, Unhurried
from catchment.errors import (
    CatchmentError,
    LedgerUnavailable,
    LoginFailed,
    NotNow,
    RateLimited,
    Reason,
    Refused,
    SourceUnavailable,
    StaleLease,
)
from catchment.ledger import (
    Backfill,
    Circumstances,
    Ledger,
    ListPage,
    Outcome,
    QuarantineEntry,
    Readable,
    Source,
    Sync,
    SyncRow,
)
from catchment.model import JobState, Priority, ReplayStage
from catchment.parser_pool import ParserPool
from catchment.runtime import process
from catchment.settings import Home, Policy
from catchment.sync import fair_share
from catchment.sync.batch import Bench, OpenBatch
from catchment.sync.discovery import Discovery
from catchment.sync.eta import MeasuredPace, estimate
from catchment.sync.kept_raw import raw_store, readable
from catchment.sync.preflight import begin, limits_of, paced
from catchment.sync.progress import Progress, Trouble
from catchment.sync.shared import Renewals, only_sync, shared_ledger, shared_pool
from catchment.telemetry.catalogue import LIMITED
from catchment.telemetry.incidents import reason_of

LEASE = timedelta(minutes=5)
_UNTOLD_SECONDS = 600.0
"""Seconds to pause if a host requests it without a duration."""
HELD_AFTER = 5
"""Consecutive failed syncs after which a source is held."""
_OVERDUE = "made no progress within its time limit; the next sync tries again"

_SHARED_BATCH = 250
"""Batch size while other sources are being synced: the slot is released between two steps of a batch."""
_BACKFILL_BATCH = 200
"""Batch size of a backfill: an ordinary sync waits for up to two batches."""
_LEAST_BATCH = 20
_BATCH_SECONDS = 2.0
"""Target duration of fetching and parsing a batch, during which other sources wait."""
_BATCH_BYTES = 4 * 1024 * 1024
"""Target size of a batch: its content is in memory during delivery."""

_renewals = Renewals(LEASE.total_seconds() / 3)


class SourceSync:
    """One sync of one source: `discover`; then `claim`, `normalize` and `process` until no job is ready; then `finish`."""

    def __init__(
        self, bench: Bench, source: Source, sync: Sync, before: SyncRow | None, backfill: Backfill | None = None
    ) -> None:
        self.source, self.sync, self.before = source, sync, before
        self.was_released = False
        """Whether this sync resumed its source, which was held, because its login or settings changed."""
        self.outcome: Outcome | None = None
        """Outcome of the sync; None while it is open."""
        self.permit = bench.permit
        """Once it has `ended`, the caller must finish the sync as cancelled."""
        self.gives_way = False
        """Whether it claims no further jobs, because another sync of the source waits. Only for a backfill."""
        self._started_at = time.monotonic()
        self._working_since: float | None = None
        self._in_two_seconds = sys.maxsize
        priority = source.priority if backfill is None else Priority.LOW
        self._share = fair_share.QUEUE.join(source.kind, bench.policy.at_once, priority)
        self.backfill = backfill
        """The backfill that this sync works for, as it was at the start; None for an ordinary sync."""
        self._bench = bench
        self._ledger = bench.ledger
        follows_whole = before is not None and _left_nothing(before)
        self.discovery = Discovery(bench, sync, self._share, self.permit, follows_whole=follows_whole)
        if backfill is not None and backfill.selection.is_window:
            self.discovery.window = backfill.selection.window
        self._owner = process.identity()
        self._open: dict[int, OpenBatch] = {}
        self._limits = limits_of(bench.connector)
        self._asked_back: datetime | None = None

    @property
    def policy(self) -> Policy:
        """The connector's policy with the source's overrides."""
        return self._bench.policy

    @property
    def progress(self) -> Progress:
        """Progress so far."""
        return self._bench.progress

    @property
    def troubles(self) -> dict[int, Trouble]:
        """Failed items, by job."""
        return self._bench.troubles

    def follow(self, paths: frozenset[str], since: datetime) -> None:
        """Compare only these paths, which changed since the previous sync; the first of them at `since` (aware).

        Compares everything if the previous sync was incomplete.
        """
        self.discovery.changed, self._bench.changed_since = paths, since

    def discover(self, *, deep: bool = False) -> Progress:
        """List the source, or the items of its backfill, and record jobs. Raises SourceError or Stopped."""
        if self.backfill is None:
            self.discovery.run(deep=deep)
            return self.progress
        number, backfills = self.backfill.id, self._ledger.backfills
        if not self.backfill.is_listed:
            if self.backfill.selection.is_window:
                self.discovery.run(deep=False)
            else:
                backfills.enqueue(self.sync.id, number, CODE, self._readable())
            if self.discovery.is_whole or not self.backfill.selection.is_window:
                backfills.close_listing(self.sync.id)
        self.progress.jobs = backfills.get(number).left
        return self.progress

    # Processing

    def claim(self, limit: int) -> int | None:
        """Claim a batch of new jobs and return its token, or None if no job is ready.

        Excludes jobs that failed before or that several runs did not survive. The batch is smaller while other sources are
        being synced. A backfill ends as soon as it is paused, or must yield to other work.
        """
        if self.backfill is not None:
            if self.gives_way or not self._ledger.backfills.judge(self.sync.id, self.backfill.id).is_running:
                return None
            limit = min(limit, _BACKFILL_BATCH)
        limit = min(limit, self._in_two_seconds, self.policy.batch)
        if not self._share.is_alone():
            limit = min(limit, _SHARED_BATCH)
        self._working_since = self._working_since or time.monotonic()
        return self._claim(limit, fresh=True, attempts=self.policy.retry.attempts)

    def batch_key(self, token: int) -> str:
        """Return the key of a batch (`OpenBatch.key`)."""
        return self._open[token].key

    def is_cached(self, token: int) -> bool:
        """Return whether all of a batch is stored already (`OpenBatch.is_cached`)."""
        return self._open[token].is_cached()

    def normalize(self, token: int) -> dict[str, int]:
        """Fetch and parse a batch."""
        with self._share.step(self._bench.deadline):
            return self._open[token].normalize()

    def process(self, token: int) -> dict[str, int]:
        """Run the remaining steps of a batch, including its delivery, and close it."""
        batch = self._open[token]
        with self._share.step(self._bench.deadline):
            figures = batch.deliver()
        del self._open[token]
        if len(batch.jobs) > 1 and batch.seconds_each:
            # Based on the latest batch and without its fixed costs: otherwise a batch slowed by other sources would make the
            # next one smaller, and a smaller batch costs more per job.
            self._in_two_seconds = max(_LEAST_BATCH, int(_BATCH_SECONDS / batch.seconds_each))
        return figures

    def process_alone(self, job_id: int) -> Trouble | None:
        """Process one job separately, as a new attempt, and return its failure, if any. Does nothing if the job is not ready.

        A job that was cancelled or superseded meanwhile has no failure. If this raises, call it again to resume the
        same attempt.
        """
        token = next(
            (token for token, opened in self._open.items() if [job.id for job in opened.jobs] == [job_id]), None
        )
        if token is None:
            token = self._claim(1, jobs=[job_id])
            if token is not None or not self.is_left(job_id):
                self.troubles.pop(job_id, None)
        if token is not None:
            self.process(token)
        return self.troubles.get(job_id)

    def is_left(self, job_id: int) -> bool:
        """Return whether a later sync may work on the job."""
        return bool(self._ledger.queue.unfinished([job_id]))

    def waits(self, trouble: Trouble, at_most: float) -> float | None:
        """Return the seconds until the retry of an item, or None if there is no retry within `at_most` seconds."""
        if trouble.retry_at is None:
            return None
        seconds = max(0.0, (trouble.retry_at - self._ledger.now()).total_seconds())
        return seconds if seconds <= at_most else None

    def jobs_to_process_alone(self, limit: int) -> dict[int, Reason]:
        """Return jobs to be processed separately, with the reason: due retries, and jobs that several runs did not survive."""
        return self._ledger.queue.to_process_alone(self.source.id, limit, self.policy.retry.attempts, self._number)

    def quarantined(self, limit: int) -> ListPage[QuarantineEntry]:
        """Return the items of the source in quarantine, latest failure first."""
        return self._ledger.quarantine.page(self.source.name, limit=limit)

    def update_eta(self) -> datetime | None:
        """Estimate the completion time of the waiting jobs and record it in the ledger. None if unknown."""
        so_far = MeasuredPace.of(
            self.progress.ended_jobs(), time.monotonic() - (self._working_since or self._started_at), self._requests()
        )
        at_work = sum(len(opened.jobs) for opened in list(self._open.values()))
        if self.backfill is not None:
            at_work = self._ledger.backfills.get(self.backfill.id).left
        moment = estimate(self._ledger, self.source, self._limits, self._ledger.now(), so_far, at_work)
        self._ledger.syncs.expect(self.sync.id, moment)
        return moment

    def sinks_to_supply(self) -> list[str]:
        """Return the sinks that have something to receive."""
        return self._ledger.outbox.due()

    @property
    def keeps_items(self) -> bool:
        """Whether what was listed can be read although the listing failed."""
        return isinstance(self._bench.connector, Stocking)

    def background_flows(self) -> list[str]:
        """Return the flows that have work after this sync: `embed` for passages it added, `recognize` for pages that wait."""
        has_new = self.progress.succeeded > 0 or self._bench.stage is ReplayStage.EMBED
        is_embedding_due = has_new and self._ledger.embeddings.needs_run()
        return ["embed"] * is_embedding_due + ["recognize"] * self._ledger.recognition.needs_run()

    def rule(self) -> str:
        """Return the operator's rule for this source as text, or ""."""
        rule = self._ledger.throttles.of(self.source.name)
        return str(rule) if rule.as_json() else ""

    def _requests(self) -> int:
        connector = self._bench.connector
        return connector.pace.requests if isinstance(connector, Paced) else 0

    def next_retry(self) -> datetime | None:
        """Return when more work is possible, or None. A retry, a quota, the host or the listing determines the time.

        Returns the present time if more retries are due than one sync processes.
        """
        waiting = self._ledger.queue.waiting(self.source.id)
        quota = self._ledger.throttles.next_allowed(self.source.id) if waiting.ready else None
        requests_allowed, room = (
            self._ledger.pacing.room(self._limits) if waiting.ready and self._limits else (None, None)
        )
        forbidden = requests_allowed == 0 or any((quota, room, self._asked_back))
        now = self._ledger.now() if waiting.ready and not forbidden and self.jobs_to_process_alone(1) else None
        moments = now, waiting.next_at, quota, room, self._asked_back, self.discovery.again
        return min(filter(None, moments), default=None)

    def backfill_to_continue(self) -> tuple[int, datetime] | None:
        """Return the number of the source's next backfill with work, and when it can continue; None if there is none.

        Ordinary syncs retry its failed items. If this sync listed it in part, the next ordinary sync lets it continue.
        """
        now = self._ledger.now()
        for backfill in self._ledger.backfills.unfinished(self.source.id):
            has_work = bool(backfill.jobs.get(JobState.PENDING)) if backfill.is_listed else backfill.id != self._number
            if backfill.is_running and has_work:
                room = None if self._limits is None else self._ledger.pacing.room(self._limits)[1]
                quota = self._ledger.throttles.next_allowed(self.source.id)
                return backfill.id, max(filter(None, (now, room, quota)))
        return None

    # Internals

    def _readable(self) -> Readable | None:
        stage = self._bench.stage or ReplayStage.FETCH
        return readable(self._bench.connector, self._bench.raw, stage)

    @property
    def _number(self) -> int | None:
        return None if self.backfill is None else self.backfill.id

    def _claim(
        self,
        limit: int,
        *,
        fresh: bool | None = None,
        attempts: int | None = None,
        jobs: Sequence[int] | None = None,
    ) -> int | None:
        if not self.permit.holds():
            return None
        if self._limits is not None and (requests_allowed := self._ledger.pacing.room(self._limits)[0]) is not None:
            # Claiming a job that cannot be fetched now would waste an attempt.
            limit = min(limit, requests_allowed)
            if not requests_allowed:
                self._bench.measure(LIMITED, 1, limit="host")
        batch = self._ledger.queue.claim(
            self.source.id,
            limit,
            owner=self._owner,
            lease=LEASE,
            fresh=fresh,
            attempts=attempts,
            jobs=jobs,
            most_bytes=_BATCH_BYTES,
            sync_id=self.sync.id,
            backfill=self._number,
        )
        if not batch.jobs:
            return None
        self._open[batch.token] = OpenBatch(self._bench, batch)
        return batch.token

    # Completion

    def stop(self, reason: str) -> None:
        """Request the sync to stop: its steps soon raise Stopped or StaleLease, and the caller finishes it as cancelled.

        Thread-safe and idempotent; never blocks.
        """
        self.permit.stop(reason)
        self._share.close()

    def finish(self, outcome: Outcome, error: CatchmentError | None = None) -> dict[str, int]:
        """Close the sync and return its figures. `self.outcome` is the recorded outcome.

        A sync that failed because its host requested a pause is recorded as yielded, and `next_retry` returns the end of the
        pause. After a refused login or too many failures it is recorded as quarantined, and its source is held.
        """
        if outcome == "completed" and ((self.progress.held and self.progress.succeeded) or self._bench.parts_left):
            # Missing items may have been found under another name since.
            self.discovery.settle()
        if outcome == "failed":
            outcome = self._judged(error)
        message = self.permit.reason or None if error is None else redact(str(error))
        later = Counter(trouble.retry_at is not None for trouble in self.troubles.values())
        self.progress.retrying = later[True]
        self.progress.quarantined += later[False]
        self.progress.requests = self._requests()
        if isinstance(self._bench.connector, Unhurried):
            self.progress.away = len(self._ledger.sources.away(self.source.id))
        raw = self._bench.raw
        self.progress.caches_thrown_away = self._bench.cache.thrown_away + (raw.thrown_away if raw else 0)
        summary = self.progress.summary()
        # Another process may have closed it, for example by removing the source.
        with suppress(StaleLease):
            if outcome == "yielded":
                self.update_eta()
            self._ledger.syncs.end(self.sync.id, outcome, summary, message, None if error is None else reason_of(error))
        self.outcome = outcome
        return summary

    def _judged(self, error: CatchmentError | None) -> Outcome:
        """Return the outcome of a sync that could not read its source."""
        if isinstance(error, RateLimited):
            unstated = _UNTOLD_SECONDS if self._limits is None else self._limits.wait
            wait = unstated if error.retry_after is None else error.retry_after
            self._asked_back = self._ledger.now() + timedelta(seconds=wait)
            return "yielded"
        # Hosts of a source with several are asked ever more seldom, so that it need not be held.
        is_away = isinstance(error, SourceUnavailable) and isinstance(self._bench.connector, Unhurried)
        held = isinstance(error, LoginFailed) or (self.source.failures + 1 >= HELD_AFTER and not is_away)
        # After removal of the source, another source may have taken its name.
        return "quarantined" if held and self.permit.holds() else "failed"

    def close(self) -> None:
        """Release the remaining claims and close an unfinished sync as cancelled, or failed if it is overdue. Idempotent."""
        self._share.close()
        # If the ledger cannot be written, the next sync detects that this one has ended and recovers its jobs.
        with suppress(LedgerUnavailable):
            for token in list(self._open):
                self._ledger.queue.release(token)
                del self._open[token]
            if self.outcome is None:
                problem = SourceUnavailable(_OVERDUE) if self.is_overdue else None
                self.finish("failed" if problem else "cancelled", problem)

    @property
    def is_overdue(self) -> bool:
        """True if the sync has made no progress within its time limit."""
        return self._bench.deadline.is_overdue()

    def renew(self) -> None:
        """Renew the leases of the open batches, unless the sync is overdue."""
        if self.is_overdue:
            return
        for token, opened in list(self._open.items()):
            self._ledger.queue.renew(token, [job.id for job in opened.jobs], LEASE)


@contextmanager
def open_sync(
    home: Home,
    connector: Connector,
    name: str,
    policy: Policy,
    priority: Priority,
    *,
    run: str | None = None,
    now: Circumstances | None = None,
    ledger: Ledger | None = None,
    pool: ParserPool | None = None,
    backfill: int | None = None,
) -> Iterator[SourceSync]:
    """Start a sync of a source; on exit, close it and everything opened for it. The caller finishes the sync.

    Recovers jobs of dead processes first. Retries quarantined items if the conditions that affect them differ from `now`.
    `ledger` and `pool` are left open if given; by default, the syncs of a process share one ledger, and the pool set by
    `use_pool`, if any. With a `backfill`, the sync works for that alone.

    Raises NoConsent without consent, NotNow if a preflight check fails, TryAgain if another sync of the source is running.
    """
    with ExitStack() as stack:
        stack.enter_context(only_sync(home.database_url, name))
        ledger = ledger or stack.enter_context(shared_ledger(home.make()))
        cache = stack.enter_context(closing(Cache(home.cache)))
        parsers = min(policy.parsers, os.cpu_count() or 1)
        pool = pool or shared_pool() or stack.enter_context(ParserPool(parsers, preload=_modules(connector)))
        running = None if backfill is None else _running_backfill(ledger, name, backfill)
        started = begin(home, ledger, connector, name, policy, priority, run=run, now=now, backfill=running)
        stack.enter_context(paced(connector, ledger, started.source, started.permit.sleep))
        if raw := raw_store(home, connector, policy):
            stack.enter_context(closing(raw))
        bench = Bench(ledger, cache, pool, connector, policy, started.permit, raw)
        if running is not None and running.selection.stage is not ReplayStage.FETCH:
            bench.stage = running.selection.stage
        opened = SourceSync(bench, started.source, started.sync, started.before, running)
        opened.was_released = started.was_released
        stack.callback(opened.close)
        stack.enter_context(_renewals.of(opened.renew))
        yield opened


def _running_backfill(ledger: Ledger, name: str, number: int) -> Backfill:
    """Return a running backfill of the source. Raises NotFound, Refused for another source, NotNow if it does not run."""
    backfill = ledger.backfills.get(number)
    if backfill.source != name:
        raise Refused(f"backfill {number}: belongs to {backfill.source}; see `catchment backfill list`")
    if not backfill.is_running:
        raise NotNow(f"backfill {number}: {backfill.state}; see `catchment backfill show {number}`")
    return backfill


def _left_nothing(before: SyncRow) -> bool:
    """Return whether a sync recorded all changes up to its time: not an undo or a backfill, and without leftovers."""
    listed = not before.is_undo and before.backfill is None
    return before.outcome == "completed" and listed and not before.summary.get("left")


def _modules(connector: Connector) -> tuple[str, ...]:
    """Return the modules that parser processes need for the connector's items."""
    return ("catchment.content.parsing", type(connector).__module__)
