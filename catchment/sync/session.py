"""Bringing one source up to date: its discovery, and then each job's way from its source into the library.

`SourceSync` is the deep module that tasks, tests and benchmarks call. It knows no scheduler: its caller decides the order, the
concurrency and the waits. Its steps may be called from several threads; each is safe to repeat.
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
from catchment.contracts import Connector, Paced
from catchment.errors import CatchmentError, IllegalTransition, LedgerUnavailable, LoginFailed, RateLimited
from catchment.ledger import Ledger, Outcome, Source, Sync, SyncRow
from catchment.ledger.jobs.circumstances import Circumstances
from catchment.model import Priority
from catchment.parser_pool import ParserPool
from catchment.runtime import process
from catchment.runtime.redaction import redact
from catchment.settings import Home, Policy
from catchment.sync import fair_share
from catchment.sync.batch import Bench, OpenBatch
from catchment.sync.discovery import Discovery
from catchment.sync.eta import MeasuredPace, forecast
from catchment.sync.opening import begin
from catchment.sync.preflight import limits_of, paced
from catchment.sync.progress import Progress, Trouble
from catchment.sync.shared import Renewals, only_sync, shared_ledger, shared_pool

LEASE = timedelta(minutes=5)
_UNTOLD_SECONDS = 600.0
"""A host that asks to wait and does not say how long is left alone for so many seconds."""
HELD_AFTER = 5
"""A source is held after this many failed syncs in a row."""

_SHARED_BATCH = 250
"""Jobs of a batch while other sources work too: a slot is given up between two steps of a batch."""
_LEAST_BATCH = 20
_BATCH_SECONDS = 2.0
"""How long a batch should be read and parsed: other sources wait meanwhile."""
_BATCH_BYTES = 4 * 1024 * 1024
"""A batch that has so much to read takes no more: all of it is in memory at its delivery."""

_renewals = Renewals(LEASE.total_seconds() / 3)


class SourceSync:
    """One sync of one source: `discover`, then `claim`, `normalize` and `process` until no job waits, then `finish`."""

    def __init__(self, bench: Bench, source: Source, sync: Sync, before: SyncRow | None) -> None:
        self.source = source
        self.sync = sync
        self.outcome: Outcome | None = None
        """How the sync ended; None while it is open."""
        self.permit = bench.permit
        """When it has `ended`, no more is read, and the sync is to be finished as cancelled."""
        self._begun = time.monotonic()
        self._working_since: float | None = None
        self._in_two_seconds = sys.maxsize
        self._share = fair_share.QUEUE.join(source.kind, bench.policy.resources.at_once, source.priority)
        self._bench = bench
        self._ledger = bench.ledger
        follows_whole = before is not None and _left_nothing(before)
        self.discovery = Discovery(bench, sync, self._share, self.permit, follows_whole=follows_whole)
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
        """What the sync has done so far."""
        return self._bench.progress

    @property
    def troubles(self) -> dict[int, Trouble]:
        """The items that left their batch, by job."""
        return self._bench.troubles

    def discover(self, *, deep: bool = False) -> Progress:
        """See `Discovery.run`."""
        self.discovery.run(deep=deep)
        return self.progress

    # Work

    def claim(self, limit: int) -> int | None:
        """Claim a batch of jobs that did not fail and have not died with every run so far; None when none waits.

        A smaller one while other sources work too.
        """
        limit = min(limit, self._in_two_seconds, self.policy.batch)
        if not self._share.is_alone():
            limit = min(limit, _SHARED_BATCH)
        self._working_since = self._working_since or time.monotonic()
        return self._claim(limit, fresh=True, attempts=self.policy.retry.attempts)

    def fingerprint(self, token: int) -> str:
        """See `OpenBatch.fingerprint`."""
        return self._open[token].fingerprint

    def normalize(self, token: int) -> dict[str, int]:
        """See `OpenBatch.normalize`."""
        with self._share.step(self._bench.pulse):
            return self._open[token].normalize()

    def process(self, token: int) -> dict[str, int]:
        """Do the remaining steps of a batch, up to its delivery; the batch is done then."""
        batch = self._open[token]
        with self._share.step(self._bench.pulse):
            done = batch.deliver()
        del self._open[token]
        if len(batch.jobs) > 1 and batch.seconds_each:
            # By the latest batch, and without what each batch costs however small it is: else one that was slow, because of
            # others, made the next one small, and that one slower for each job.
            self._in_two_seconds = max(_LEAST_BATCH, int(_BATCH_SECONDS / batch.seconds_each))
        return done

    def process_alone(self, job_id: int) -> Trouble | None:
        """Work on one job apart from all others, as a new attempt; its trouble, if any. Does nothing if it is not ready.

        Where it raised it may be called again, to go on with that attempt.
        """
        token = next(
            (token for token, opened in self._open.items() if [job.id for job in opened.jobs] == [job_id]), None
        )
        if token is None and (token := self._claim(1, jobs=[job_id])) is not None:
            self.troubles.pop(job_id, None)
        if token is not None:
            self.process(token)
        return self.troubles.get(job_id)

    def is_left(self, job_id: int) -> bool:
        """Whether a job is not done, and a later sync may work on it."""
        return bool(self._ledger.queue.unfinished([job_id]))

    def tried_before(self, limit: int) -> list[int]:
        """Jobs that failed before and whose time has come, or that no run has survived; each is to be processed alone."""
        return self._ledger.queue.apart(self.source.id, limit, self.policy.retry.attempts)

    def foretell(self) -> datetime | None:
        """Forecast the end of the waiting jobs, at the pace of this sync or of earlier ones; None if unknown.

        The ledger shows it with the source from then on.
        """
        so_far = MeasuredPace.of(
            self.progress.done(), time.monotonic() - (self._working_since or self._begun), self._requests()
        )
        at_work = sum(len(opened.jobs) for opened in list(self._open.values()))
        moment = forecast(self._ledger, self.source, self._limits, self._ledger.now(), so_far, at_work)
        self._ledger.syncs.expect(self.sync.id, moment)
        return moment

    def rule(self) -> str:
        """What an operator ruled for this source, in words; empty where nothing is."""
        rule = self._ledger.throttles.of(self.source.name)
        return str(rule) if rule.as_json() else ""

    def _requests(self) -> int:
        connector = self._bench.connector
        return connector.pace.requests if isinstance(connector, Paced) else 0

    def next_retry(self) -> datetime | None:
        """When there is more to do: a job may be tried again, a quota lets more begin, the host may be asked; None if never.

        At once, where more could be tried again now than one sync does, and nothing forbids it.
        """
        waiting = self._ledger.queue.waiting(self.source.id)
        quota = self._ledger.throttles.next_allowed(self.source.id) if waiting.ready else None
        left, room = self._ledger.pacing.room(self._limits) if waiting.ready and self._limits else (None, None)
        forbidden = left == 0 or any((quota, room, self._asked_back))
        now = self._ledger.now() if waiting.ready and not forbidden and self.tried_before(1) else None
        return min(filter(None, (now, waiting.next_at, quota, room, self._asked_back)), default=None)

    # Parts of the work

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
        if self._limits is not None and (left := self._ledger.pacing.room(self._limits)[0]) is not None:
            # What cannot be fetched now is not claimed: it would count an attempt for nothing.
            limit = min(limit, left)
        batch = self._ledger.queue.claim(
            self.source.id,
            limit,
            owner=self._owner,
            lease=LEASE,
            fresh=fresh,
            attempts=attempts,
            jobs=jobs,
            most_bytes=_BATCH_BYTES,
        )
        if not batch.jobs:
            return None
        self._open[batch.token] = OpenBatch(self._bench, batch)
        return batch.token

    # The end

    def stop(self, reason: str) -> None:
        """Ask the sync to stop: its steps raise Stopped or StaleLease soon; its caller finishes it as cancelled.

        Any thread may call this, more than once; it never waits.
        """
        self.permit.stop(reason)
        self._share.close()

    def finish(self, outcome: Outcome, error: CatchmentError | None = None) -> dict[str, int]:
        """Close the sync with its outcome; return the figures of what it did. `self.outcome` is the one in the ledger.

        A sync that failed because its host asked to wait has yielded, and `next_retry` says when the next one is due; one
        that failed too often, or whose login was refused, is quarantined, and its source is held.
        """
        if outcome == "completed" and self.progress.held and self.progress.succeeded:
            # Some of what was missing may have been found under another name meanwhile.
            self.discovery.settle()
        if outcome == "failed":
            outcome = self._judged(error)
        message = self.permit.reason or None if error is None else redact(str(error))
        later = Counter(trouble.retry_at is not None for trouble in self.troubles.values())
        self.progress.retrying, self.progress.quarantined = later[True], later[False]
        if outcome == "yielded":
            self.foretell()
        self.progress.requests = self._requests()
        self.progress.caches_thrown_away = self._bench.cache.thrown_away
        summary = self.progress.summary()
        # The removal of a source closes its sync.
        with suppress(IllegalTransition):
            self._ledger.syncs.end(self.sync.id, outcome, summary, message)
        self.outcome = outcome
        if outcome == "quarantined":
            self._ledger.sources.hold(self.source.name, actor=f"sync:{self.sync.id}", reason=message or "")
        return summary

    def _judged(self, error: CatchmentError | None) -> Outcome:
        """Return the outcome of a sync that could not read its source."""
        if isinstance(error, RateLimited):
            unstated = _UNTOLD_SECONDS if self._limits is None else self._limits.wait
            wait = unstated if error.retry_after is None else error.retry_after
            self._asked_back = self._ledger.now() + timedelta(seconds=wait)
            return "yielded"
        held = isinstance(error, LoginFailed) or self.source.failures + 1 >= HELD_AFTER
        # Of a source that was removed meanwhile another may have the name by now.
        return "quarantined" if held and self.permit.holds() else "failed"

    def close(self) -> None:
        """Hand back what is still claimed; an unfinished sync counts as cancelled. May be called again."""
        self._share.close()
        # When the ledger cannot be written, the next sync sees that this one is not open, and takes everything back.
        with suppress(LedgerUnavailable):
            for token in list(self._open):
                self._ledger.queue.release(token)
                del self._open[token]
            if self.outcome is None:
                self.finish("cancelled")

    @property
    def is_overdue(self) -> bool:
        """Whether the sync has made no progress within its time limit."""
        return self._bench.pulse.is_overdue()

    def renew(self) -> None:
        """Keep the leases of the batches at hand, unless nothing gets on any more."""
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
) -> Iterator[SourceSync]:
    """Begin a sync of a source and close afterwards what it opened; its caller finishes it.

    Jobs of a dead process are taken back first. Items that were given up under other circumstances than `now` are tried again,
    as far as the difference matters to them. `ledger` and `pool` are used if they are given, and left open; by default the
    syncs of a process share one ledger, and the pool of `use_pool` if there is one. Raises NoConsent without consent, NotNow
    when a gate is closed (see `preflight`), TryAgain when another sync of it is running.
    """
    with ExitStack() as stack:
        stack.enter_context(only_sync(home.database_url, name))
        ledger = ledger or stack.enter_context(shared_ledger(home.make().database_url))
        cache = stack.enter_context(closing(Cache(home.cache)))
        parsers = min(policy.parsers, os.cpu_count() or 1)
        pool = pool or shared_pool() or stack.enter_context(ParserPool(parsers, preload=_modules(connector)))
        begun = begin(home, ledger, connector, name, policy, priority, run=run, now=now)
        stack.enter_context(paced(connector, ledger, begun.source, begun.permit.sleep))
        bench = Bench(ledger, cache, pool, connector, policy, begun.permit)
        opened = SourceSync(bench, begun.source, begun.sync, begun.before)
        stack.callback(opened.close)
        stack.enter_context(_renewals.of(opened.renew))
        yield opened


def _left_nothing(before: SyncRow) -> bool:
    """Whether a sync saw all that had changed by then: it was no undo, which looks at no source, and left nothing out."""
    return before.outcome == "completed" and not before.is_undo and not before.summary.get("left")


def _modules(connector: Connector) -> tuple[str, ...]:
    """The modules that parser processes need for the items of a connector."""
    return ("catchment.content.parsing", type(connector).__module__)
