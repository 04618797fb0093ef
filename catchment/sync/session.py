"""Bringing one source up to date: its discovery, and then each job's way from its source into the library.

`SourceSync` is the deep module that tasks, tests and benchmarks call. It knows no scheduler: whoever drives it decides the
order, the concurrency and the waits. Its steps may be called from several threads; each is safe to repeat.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import datetime, timedelta

from catchment.content.cache import Cache
from catchment.contracts import Connector, Paced
from catchment.dirty import DirtyFile
from catchment.errors import CatchmentError, IllegalTransition, LedgerUnavailable, LoginFailed, RateLimited
from catchment.ledger import Ledger, Source, Sync, SyncRow
from catchment.ledger import Outcome as SyncOutcome
from catchment.model import Priority
from catchment.parser_pool import ParserPool
from catchment.places import Places
from catchment.runtime import process
from catchment.runtime.fingerprints import Circumstances
from catchment.runtime.redaction import redact
from catchment.settings import Home, Policy
from catchment.sync.batch import Bench, OpenBatch
from catchment.sync.discovery import Discovery
from catchment.sync.eta import Pace, forecast
from catchment.sync.fair_share import Turn
from catchment.sync.opening import begin, rarely_collecting, renewing
from catchment.sync.preflight import Permit, limits_of, paced
from catchment.sync.progress import Progress, Trouble
from catchment.sync.steps import Steps

LEASE = timedelta(minutes=5)
_UNTOLD_SECONDS = 600.0
"""A host that asks to wait and does not say how long is left alone for so many seconds."""
HELD_AFTER = 5
"""A source is held after this many failed syncs in a row."""

_SHARED_BATCH = 250
"""Jobs of a batch while other sources work too: a turn ends between two steps of a batch."""
_LEAST_BATCH = 20
_BATCH_SECONDS = 2.0
"""How long a batch should be read and parsed: meanwhile others wait for their turn."""
_BATCH_BYTES = 4 * 1024 * 1024
"""A batch that has so much to read takes no more: all of it is in memory at its delivery."""
_PLACE_SECONDS = 5.0
"""A sync keeps its place at least so long: beginning one costs the machine most of a second."""
_FEW = 100
"""Jobs of a batch that are worked on at once, without waiting for whoever shows the steps to get ready."""


class SourceSync:
    """One sync of one source: `discover`, then claim, normalize, extract and deliver until nothing waits."""

    def __init__(
        self, home: Home, bench: Bench, source: Source, sync: Sync, before: SyncRow | None, permit: Permit
    ) -> None:
        self.source = source
        self.sync = sync
        self.may_yield = False
        """Whether whoever drives the sync can have another one go on with it."""
        self.yields = False
        """Whether the sync gives up its place to others before it is done: it is to be ended by `end_yielded`."""
        self.unlisted = False
        """Whether `discover` did so before it had seen all of the source."""
        self.permit = permit
        """When it has `ended`, nothing more is read, and the sync is to be ended by `end_withdrawn`."""
        self._home = home
        self._begun = time.monotonic()
        self._working_since: float | None = None
        self._in_two_seconds = sys.maxsize
        self._turn = Turn(bench.ledger.turns, sync, bench.policy.resources.at_once, bench.pulse)
        self._bench = bench
        self._ledger = bench.ledger
        follows_whole = before is not None and _left_nothing(before)
        dirty = DirtyFile(home, source.name)
        self.discovery = Discovery(
            bench, sync, self._turn, permit, dirty, self._must_yield, follows_whole=follows_whole
        )
        self._owner = process.identity()
        self._open: dict[int, Steps] = {}
        self._ended = False
        self._limits = limits_of(bench.connector)
        self._asked_back: datetime | None = None
        self.continues = before is not None and before.outcome == "yielded"
        """Whether the sync before this one yielded: there is work that need not be listed first."""
        if before is not None and self.continues:
            bench.progress = Progress(**before.summary)
        self._quarantined_before = self.progress.quarantined
        self._requests_before = self.progress.requests
        self._caches_before = self.progress.caches_thrown_away
        self._done_before = self.progress.done()

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
        """See `Discovery.run`; `unlisted` is set when it ends early because others wait for a place."""
        if not self.discovery.run(deep=deep):
            self.yields = self.unlisted = True
        return self.progress

    # Fairness

    def _must_yield(self) -> bool:
        """Whether other syncs wait for a place and this one has had its own for long enough."""
        long_enough = time.monotonic() - self._begun >= _PLACE_SECONDS
        return self.may_yield and long_enough and self._waiting_for_a_place() > 0

    def _waiting_for_a_place(self) -> int:
        places = Places.read(self._home)
        return 0 if places is None else places.waiting

    # Work

    def claim(self, limit: int) -> int | None:
        """Claim a batch of jobs that did not fail and have not died with every run so far; None when none waits.

        A smaller one while other sources work too; and None, with `yields` set, when the sync has to give up its place.
        """
        if self._must_yield() and self._ledger.queue.waiting(self.source.id).ready:
            self.yields = True
            return None
        crowded = self._waiting_for_a_place() > 0 or not self._turn.alone()
        limit = min(limit, self._in_two_seconds, _SHARED_BATCH if crowded else self.policy.batch)
        self._working_since = self._working_since or time.monotonic()
        return self._claim(limit, fresh=True, attempts=self.policy.retry.attempts)

    def fingerprint(self, token: int) -> str:
        """See `OpenBatch.fingerprint`."""
        return self._open[token].fingerprint

    def normalize(self, token: int) -> dict[str, int]:
        """See `OpenBatch.normalize`."""
        with self._turn.taken():
            return self._open[token].normalize()

    def extract(self, token: int) -> dict[str, int]:
        """See `OpenBatch.extract`."""
        with self._turn.taken():
            return self._open[token].extract()

    def deliver(self, token: int) -> dict[str, int]:
        """See `OpenBatch.deliver`; the batch is done then."""
        steps = self._open[token]
        with self._turn.taken():
            done = steps.deliver()
        del self._open[token]
        if len(steps.jobs) > 1 and steps.seconds_each:
            # By the latest batch, and without what each batch costs however small it is: else one that was slow, because of
            # others, made the next one small, and that one slower for each job.
            self._in_two_seconds = max(_LEAST_BATCH, int(_BATCH_SECONDS / steps.seconds_each))
        return done

    def run_ahead(self, token: int) -> None:
        """Do every step of a batch of few jobs at once; who asks for a step afterwards finds it done.

        What fails is left as it is: it fails again where it is asked for.
        """
        steps = self._open[token]
        if len(steps.jobs) <= _FEW:
            with suppress(CatchmentError), self._turn.taken():
                steps.normalize()
                steps.extract()
                steps.deliver()

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
            self.deliver(token)
        return self.troubles.get(job_id)

    def is_left(self, job_id: int) -> bool:
        """Whether a job is not done, and a later sync may work on it."""
        return bool(self._ledger.queue.unfinished([job_id]))

    def tried_before(self, limit: int) -> list[int]:
        """Jobs that failed before and whose time has come, or that no run has survived; each is to be processed alone."""
        return self._ledger.queue.apart(self.source.id, limit, self.policy.retry.attempts)

    def forecast(self) -> datetime | None:
        """When what waits will be done, at the pace of this sync so far or of earlier ones; None when that is not known."""
        done = self.progress.done() - self._done_before
        so_far = Pace.of(done, time.monotonic() - (self._working_since or self._begun), self._requests())
        at_work = sum(len(opened.jobs) for opened in list(self._open.values()))
        return forecast(self._ledger, self.source, self._limits, self._ledger.now(), so_far, at_work)

    def foretell(self) -> datetime | None:
        """The forecast, which the ledger tells from then on to whoever asks how the source stands."""
        moment = self.forecast()
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
        self._open[batch.token] = Steps(OpenBatch(self._bench, batch))
        return batch.token

    # The end

    def end(self) -> dict[str, int]:
        """Say that the sync has done all it could; the summary."""
        if self.progress.held and self.progress.succeeded:
            # Some of what was missing may have been found under another name meanwhile.
            self.discovery.settle()
        return self._done("completed")

    def end_yielded(self) -> dict[str, int]:
        """Say that the sync gave up its place to others, and that the next one goes on where it was; the summary so far."""
        return self._done("yielded")

    def end_withdrawn(self) -> dict[str, int]:
        """Say that the sync broke off because nobody agrees to it any more; the summary so far."""
        return self._done("cancelled", "consent has ended or was withdrawn; nothing more was read")

    def end_failed(self, error: CatchmentError) -> bool:
        """Say that the source could not be read; whether it is held from now on.

        A host that asks to wait has not failed: the sync yields, and `next_retry` says when the next one goes on.
        """
        if isinstance(error, RateLimited):
            unstated = _UNTOLD_SECONDS if self._limits is None else self._limits.wait
            wait = unstated if error.retry_after is None else error.retry_after
            self._asked_back = self._ledger.now() + timedelta(seconds=wait)
            self._end("yielded", redact(str(error)))
            return False
        failures = self.source.failures + 1
        # Of a source that was removed meanwhile another may have the name by now.
        held = (isinstance(error, LoginFailed) or failures >= HELD_AFTER) and self.permit.holds()
        message = redact(str(error))
        self._end("quarantined" if held else "failed", message)
        if held:
            self._ledger.sources.hold(self.source.name, actor=f"sync:{self.sync.id}", reason=message)
        return held

    def end_broken(self, error: CatchmentError) -> None:
        """Say that Catchment itself could not go on (a full disk, a busy ledger), which is not the source's fault."""
        with suppress(LedgerUnavailable):
            self._end("cancelled", redact(str(error)))

    def abandon(self) -> None:
        """Hand back what is still claimed; an unfinished sync counts as cancelled."""
        self._turn.close()
        # When the ledger cannot be written, the next sync sees that this process is gone, and takes everything back.
        with suppress(LedgerUnavailable):
            for token in list(self._open):
                self._ledger.queue.release(token)
                del self._open[token]
            if not self._ended:
                self._end("cancelled")

    def renew(self) -> None:
        """Keep the leases of the batches at hand, unless nothing gets on any more."""
        if self._bench.pulse.is_overdue():
            return
        for token, opened in list(self._open.items()):
            self._ledger.queue.renew(token, [job.id for job in opened.jobs], LEASE)

    def _done(self, outcome: SyncOutcome, error: str | None = None) -> dict[str, int]:
        self._end(outcome, error)
        return self.progress.summary()

    def _end(self, outcome: SyncOutcome, error: str | None = None) -> None:
        later = Counter(trouble.retry_at is not None for trouble in self.troubles.values())
        self.progress.retrying = later[True]
        self.progress.quarantined = self._quarantined_before + later[False]
        if outcome == "yielded":
            self.foretell()
        self.progress.requests = self._requests_before + self._requests()
        self.progress.caches_thrown_away = self._caches_before + self._bench.cache.thrown_away
        # Whoever removed the source has closed its sync; there is nothing more to say of it then.
        with suppress(IllegalTransition):
            self._ledger.syncs.end(self.sync.id, outcome, self.progress.summary(), error)
        self._ended = True


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
) -> Iterator[SourceSync]:
    """Begin a sync of a source and close what it opened afterwards; the caller says how it ended with `end` or `end_failed`.

    Jobs that a dead process held are taken back first. What was given up under other circumstances than those of `now`, as far
    as they matter to it, is tried again. Raises NoConsent when nobody has agreed to it, NotNow when a gate is
    closed (see `gates`), TryAgain when another sync of it is running.
    """
    with (
        closing(Ledger.open(home.make().database_url)) as ledger,
        closing(Cache(home.cache)) as cache,
        ParserPool(min(policy.parsers, os.cpu_count() or 1), preload=_modules(connector)) as pool,
        sync_with(home, ledger, cache, pool, connector, name, policy, priority, run=run, now=now) as opened,
    ):
        yield opened


@contextmanager
def sync_with(
    home: Home,
    ledger: Ledger,
    cache: Cache,
    pool: ParserPool,
    connector: Connector,
    name: str,
    policy: Policy,
    priority: Priority,
    *,
    run: str | None = None,
    now: Circumstances | None = None,
) -> Iterator[SourceSync]:
    """As `open_sync`, with what is open already."""
    begun = begin(home, ledger, connector, name, policy, priority, run=run, now=now)
    with paced(connector, ledger, begun.source):
        bench = Bench(ledger, cache, pool, connector, policy)
        opened = SourceSync(home, bench, begun.source, begun.sync, begun.before, begun.permit)
        try:
            with renewing(opened.renew, LEASE), rarely_collecting():
                yield opened
        finally:
            opened.abandon()


def _left_nothing(before: SyncRow) -> bool:
    """Whether a sync saw all that had changed by then: it was no undo, which looks at no source, and left nothing out."""
    return before.outcome == "completed" and not before.is_undo and not before.summary.get("left")


def _modules(connector: Connector) -> tuple[str, ...]:
    """The modules that parser processes need for the items of a connector."""
    return ("catchment.content.parsing", type(connector).__module__)
