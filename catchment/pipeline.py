"""Bringing one source up to date: discovery, and then each job's way from its source into the library.

`SourceSync` is the deep module that tasks, tests and benchmarks call. It knows no scheduler: whoever drives it decides the
order, the concurrency and the waits. Its steps may be called from several threads; each is safe to repeat.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import orjson

from catchment import __version__, process, retry
from catchment.cache import Cache
from catchment.codec import decode_document, decode_extraction, moment
from catchment.contracts import Connector
from catchment.errors import CatchmentError, ItemError, LoginFailed, NotNow, Skipped
from catchment.ledger import Batch, ClaimedJob, Delivered, FailureInfo, Ledger, SkippedOutcome, Source, Sync
from catchment.ledger import Outcome as SyncOutcome
from catchment.model import (
    Change,
    Checkpoint,
    Failure,
    FailureClass,
    JobState,
    Priority,
    Root,
    Skip,
    SkipReason,
    Tombstone,
    Upsert,
)
from catchment.normalize import NORMALIZER
from catchment.parsing import Read, ReadTask, digest, read, take_apart
from catchment.privacy import redact
from catchment.sandbox import Failed, Sandbox
from catchment.settings import Home, Policy

LEASE = timedelta(minutes=5)
HELD_AFTER = 5
"""A source is held after this many failed syncs in a row."""

_FLUSH = 5_000
_WORTH_HASHING_FIRST = 64 * 1024


@dataclass
class Progress:
    """What a sync has done so far; every figure only grows."""

    listed: int = 0
    moved: int = 0
    deleted: int = 0
    held: int = 0
    jobs: int = 0
    read: int = 0
    parsed: int = 0
    reused: int = 0
    succeeded: int = 0
    unchanged: int = 0
    skipped: int = 0
    retrying: int = 0
    quarantined: int = 0

    def summary(self) -> dict[str, int]:
        """The figures by name."""
        return dict(vars(self))

    def share(self) -> float:
        """How much of the jobs found so far is done, from 0 to 1."""
        done = self.succeeded + self.unchanged + self.skipped + self.retrying + self.quarantined
        return min(1.0, done / self.jobs) if self.jobs else 0.0

    def sentence(self) -> str:
        """What the sync did, in a few words for a person."""
        figures = {
            "in the library": self.succeeded,
            "moved": self.moved,
            "deleted": self.deleted,
            "deletions held": self.held,
            "unchanged": self.unchanged,
            "skipped": self.skipped,
            "to retry": self.retrying,
            "quarantined": self.quarantined,
        }
        return ", ".join(f"{n} {what}" for what, n in figures.items() if n) or "nothing to do"


@dataclass(frozen=True, slots=True)
class Trouble:
    """An item that left its batch: why, and when it may be tried again (None: it is in quarantine)."""

    job_id: int
    attempt: int
    failure: FailureInfo
    retry_at: datetime | None

    def waits(self, at_most: float) -> float | None:
        """Seconds until it may be tried again, if that is no more than `at_most`; None when it is longer, or never."""
        if self.retry_at is None:
            return None
        seconds = max(0.0, (self.retry_at - datetime.now(UTC)).total_seconds())
        return seconds if seconds <= at_most else None


@dataclass
class Outcome:
    """What became of one job that was worked on alone."""

    state: JobState
    trouble: Trouble | None = None


@dataclass
class _Open:
    """A claimed batch on its way: what was read of each job, and document and extraction by content hash, encoded."""

    batch: Batch
    reads: dict[int, Read] = field(default_factory=dict)
    extractions: dict[str, tuple[bytes, bytes]] = field(default_factory=dict)
    failed: set[int] = field(default_factory=set)

    def unread(self) -> list[ClaimedJob]:
        """The jobs that were neither read nor have failed."""
        return [job for job in self.batch.jobs if job.id not in self.reads and job.id not in self.failed]

    def jobs_with(self, content_hash: str) -> list[ClaimedJob]:
        """The jobs whose content has that hash."""
        return [job for job in self.batch.jobs if (r := self.reads.get(job.id)) and r.content_hash == content_hash]


class SourceSync:
    """One sync of one source: `discover`, then claim, normalize, extract and deliver until nothing waits."""

    def __init__(
        self,
        ledger: Ledger,
        cache: Cache,
        sandbox: Sandbox,
        connector: Connector,
        source: Source,
        sync: Sync,
        policy: Policy,
    ) -> None:
        self.source = source
        self.sync = sync
        self.policy = policy
        self.progress = Progress()
        self.troubles: dict[int, Trouble] = {}
        self._ledger = ledger
        self._cache = cache
        self._sandbox = sandbox
        self._connector = connector
        self._pickled = pickle.dumps(connector)
        self._owner = process.identity()
        self._open: dict[int, _Open] = {}
        self._root_changed = False
        self._ended = False
        self._count = threading.Lock()

    # Discovery

    def discover(self, *, deep: bool = False) -> Progress:
        """List the source and record what is different as jobs, moves and deletions.

        What was recorded up to a checkpoint stays recorded when this raises SourceError.
        """
        known = self._ledger.intake.known(self.source.id)
        pending: list[Change] = []
        late: list[Change] = []
        late_marks: dict[str, str | None] = {}
        for change in self._connector.changes(known, deep=deep):
            match change:
                case Root(identity=identity):
                    self._root_changed = self._ledger.sources.root_changed(self.source.id, identity)
                case Checkpoint(marks=marks):
                    now, maybe_moved = self._split(pending)
                    late += maybe_moved
                    if late:
                        late_marks.update(marks)
                        marks = {}
                    self._record(now, marks)
                    pending = []
                case _:
                    pending.append(change)
        self._record(late, late_marks)
        settled = self._ledger.intake.settle(self.sync.id, root_changed=self._root_changed)
        self.progress.deleted += settled.deleted
        self.progress.held += settled.held
        return self.progress

    def _split(self, changes: Iterable[Change]) -> tuple[list[Change], list[Change]]:
        """Changes to record now, and those that may turn out to be moves once the whole listing is known."""
        changes = list(changes)
        identities = {c.item.identity for c in changes if isinstance(c, Upsert) and c.item.identity}
        known = self._ledger.intake.known_identities(self.source.id, identities) if identities else set()
        if not known:
            return changes, []
        moved = [isinstance(c, Upsert) and c.item.identity in known for c in changes]
        return [c for c, m in zip(changes, moved, strict=True) if not m], [
            c for c, m in zip(changes, moved, strict=True) if m
        ]

    def _record(self, changes: Sequence[Change], marks: Mapping[str, str | None]) -> None:
        """In parts that bound the memory and the time of one transaction; the marks go with the last part."""
        recordable = [c for c in changes if isinstance(c, (Upsert, Tombstone, Skip, Failure))]
        for start in range(0, len(recordable), _FLUSH):
            part = recordable[start : start + _FLUSH]
            last = start + _FLUSH >= len(recordable)
            counts = self._ledger.intake.record(self.sync.id, part, marks if last else {})
            self.progress.listed += len(part)
            self.progress.jobs += counts.enqueued
            self.progress.moved += counts.moved
            self.progress.skipped += counts.skipped
        if marks and not recordable:
            self._ledger.intake.record(self.sync.id, (), marks)

    # Work

    def claim(self, limit: int) -> int | None:
        """Claim a batch of jobs that did not fail and have not died with every run so far; None when none waits."""
        return self._claim(limit, fresh=True, attempts=self.policy.retry.attempts)

    def fingerprint(self, token: int) -> str:
        """A key for the content of a batch: the same item versions give the same key, in any run."""
        versions = "\n".join(f"{job.item_id}:{job.item.version}" for job in self._open[token].batch.jobs)
        return hashlib.sha256(versions.encode()).hexdigest()

    def normalize(self, token: int) -> dict[str, int]:
        """Read and parse the jobs of a batch; what fails leaves it. What was parsed before is found again."""
        opened = self._open[token]
        before = len(opened.reads)
        opened.reads |= self._remembered(opened.unread())
        todo = opened.unread()
        self._parse(opened, todo)
        self._add(read=len(todo))
        return {"jobs": len(opened.batch.jobs), "found_again": len(opened.reads) - before, "read": len(todo)}

    def extract(self, token: int) -> dict[str, int]:
        """Take the documents of a batch apart, after normalizing what is not. It may be done again: it reads nothing."""
        opened = self._open[token]
        self.normalize(token)
        documents = self._documents(opened)
        todo = [h for h in documents if h not in opened.extractions]
        for index, outcome in self._sandbox.run(take_apart, [documents[h] for h in todo], self.policy.limits):
            if isinstance(outcome, Failed):
                for job in opened.jobs_with(todo[index]):
                    self._fail(opened, job, outcome)
            else:
                opened.extractions[todo[index]] = documents[todo[index]], outcome
        return {"documents": len(documents), "extracted": len(todo)}

    def deliver(self, token: int) -> dict[str, int]:
        """Put a batch into the library and acknowledge its jobs, all in one transaction of the ledger."""
        self.extract(token)
        opened = self._open[token]
        outcomes = _outcomes(opened)
        acks = self._ledger.queue.deliver(token, outcomes)
        self._cache.drop([_key(job_id) for job_id in opened.reads])
        del self._open[token]
        unchanged = sum(isinstance(o, SkippedOutcome) for o in outcomes)
        self._add(succeeded=len(acks.succeeded), unchanged=unchanged)
        return {"delivered": len(acks.succeeded), "unchanged": unchanged, "stale": len(acks.stale)}

    def process_alone(self, job_id: int) -> Outcome:
        """Work on one job apart from all others, as a new attempt; nothing is done if it is not ready."""
        token = self._claim(1, jobs=[job_id])
        if token is not None:
            self.troubles.pop(job_id, None)
            self.deliver(token)
        return Outcome(self._ledger.queue.job(job_id).state, self.troubles.get(job_id))

    def tried_before(self, limit: int) -> list[int]:
        """Jobs that failed before and whose time has come, or that no run has survived; each is to be processed alone."""
        return self._ledger.queue.apart(self.source.id, limit, self.policy.retry.attempts)

    def next_retry(self) -> datetime | None:
        """When the next waiting job may be tried again; None when none waits."""
        return self._ledger.queue.waiting(self.source.id).next_at

    # Parts of the work

    def _claim(
        self,
        limit: int,
        *,
        fresh: bool | None = None,
        attempts: int | None = None,
        jobs: Sequence[int] | None = None,
    ) -> int | None:
        batch = self._ledger.queue.claim(
            self.source.id, limit, owner=self._owner, lease=LEASE, fresh=fresh, attempts=attempts, jobs=jobs
        )
        if not batch.jobs:
            return None
        self._open[batch.token] = _Open(batch)
        return batch.token

    def _parse(self, opened: _Open, jobs: Sequence[ClaimedJob]) -> None:
        """Read jobs in the sandbox and keep what they gave. A large item is hashed first, to be parsed only if it is new."""
        tasks = list(self._tasks(opened, jobs))
        large = [(job, task) for job, task in tasks if (job.item.size or 0) > _WORTH_HASHING_FIRST]
        hashed = {job.id: reading for job, reading in self._run(opened, digest, large)}
        stored = self._ledger.library.contents({r.content_hash for r in hashed.values()}, NORMALIZER)
        for job_id, reading in hashed.items():
            if reading.fate == "hashed" and reading.content_hash in stored:
                hashed[job_id] = replace(reading, fate="stored")
        reads = {job_id: reading for job_id, reading in hashed.items() if reading.fate != "hashed"}
        out = reads.keys() | ({job.id for job, _ in large} - hashed.keys())
        reads |= {j.id: r for j, r in self._run(opened, read, [(j, t) for j, t in tasks if j.id not in out])}
        fates = Counter(reading.fate for reading in reads.values())
        self._add(parsed=fates["parsed"], reused=fates["stored"])
        self._cache.put({_key(job_id): _encode_read(reading) for job_id, reading in reads.items()})
        opened.reads |= {job_id: replace(r, document=None) for job_id, r in reads.items()}

    def _tasks(self, opened: _Open, jobs: Sequence[ClaimedJob]) -> Iterator[tuple[ClaimedJob, ReadTask]]:
        for job in jobs:
            try:
                raw = None if self._connector.fetch_in_sandbox else self._connector.fetch(job.item)
            except ItemError as error:
                self._fail(opened, job, Failed(error, ""))
            else:
                yield job, ReadTask(job.item, self._pickled, raw, job.content_hash)

    def _run(
        self, opened: _Open, function: Callable[[ReadTask], Read], tasks: Sequence[tuple[ClaimedJob, ReadTask]]
    ) -> Iterator[tuple[ClaimedJob, Read]]:
        for index, outcome in self._sandbox.run(function, [task for _, task in tasks], self.policy.limits):
            job = tasks[index][0]
            if isinstance(outcome, Failed):
                self._fail(opened, job, outcome)
            else:
                yield job, outcome

    def _remembered(self, jobs: Sequence[ClaimedJob]) -> dict[int, Read]:
        """What an earlier run has read and parsed of these jobs."""
        entries = self._cache.get(_key(job.id) for job in jobs)
        return {job.id: replace(_decode_read(e), document=None) for job in jobs if (e := entries.get(_key(job.id)))}

    def _documents(self, opened: _Open) -> dict[str, bytes]:
        """The encoded documents that a batch brings, by content hash; what the cache has lost is parsed again."""
        parsed = [job_id for job_id, reading in opened.reads.items() if reading.fate == "parsed"]
        entries = self._cache.get(map(_key, parsed))
        lost = {job_id for job_id in parsed if _key(job_id) not in entries}
        if lost:
            self._parse(opened, [job for job in opened.batch.jobs if job.id in lost])
            entries = self._cache.get(map(_key, parsed))
        documents: dict[str, bytes] = {}
        for entry in entries.values():
            reading = _decode_read(entry)
            if reading.document is not None:
                documents[reading.content_hash] = reading.document
        return documents

    def _fail(self, opened: _Open, job: ClaimedJob, failed: Failed) -> None:
        """Take a job out of its batch: skipped, to be retried, or quarantined."""
        opened.reads.pop(job.id, None)
        opened.failed.add(job.id)
        error = failed.error
        if isinstance(error, Skipped):
            self._ledger.queue.deliver(opened.batch.token, [SkippedOutcome(job.id, error.skip_reason, None)])
            self._add(skipped=1)
            return
        failure = FailureInfo(
            reason=error.reason,
            failure_class=error.failure_class,
            error=type(error).__name__,
            message=redact(str(error)),
            traceback=failed.traceback,
            retry_helps=error.failure_class is not FailureClass.PERMANENT,
        )
        wait = retry.delay(self.policy.retry, failure.failure_class, job.attempt, random.random)
        retry_at = None if wait is None else datetime.now(UTC) + timedelta(seconds=wait)
        self._ledger.queue.fail(opened.batch.token, job.id, failure, retry_at=retry_at)
        with self._count:
            self.troubles[job.id] = Trouble(job.id, job.attempt, failure, retry_at)

    # The end

    def end(self) -> dict[str, int]:
        """Say that the sync has done all it could; the summary."""
        if self.progress.held and self.progress.succeeded:
            # Some of what was missing may have been found under another name meanwhile.
            settled = self._ledger.intake.settle(self.sync.id, root_changed=self._root_changed)
            self.progress.deleted += settled.deleted
            self.progress.held = settled.held
        later = Counter(trouble.retry_at is not None for trouble in self.troubles.values())
        self.progress.retrying, self.progress.quarantined = later[True], later[False]
        self._end("completed")
        return self.progress.summary()

    def end_failed(self, error: CatchmentError) -> bool:
        """Say that the source could not be read; whether it is held from now on."""
        failures = self.source.failures + 1
        held = isinstance(error, LoginFailed) or failures >= HELD_AFTER
        message = redact(str(error))
        self._end("quarantined" if held else "failed", message)
        if held:
            self._ledger.sources.hold(self.source.name, actor=f"sync:{self.sync.id}", reason=message)
        return held

    def abandon(self) -> None:
        """Hand back what is still claimed; an unfinished sync counts as cancelled."""
        for token in list(self._open):
            self._ledger.queue.release(token)
            del self._open[token]
        if not self._ended:
            self._end("cancelled")

    def renew(self) -> None:
        """Keep the leases of the batches at hand."""
        for token, opened in list(self._open.items()):
            self._ledger.queue.renew(token, [job.id for job in opened.batch.jobs], LEASE)

    def _end(self, outcome: SyncOutcome, error: str | None = None) -> None:
        self._ledger.syncs.end(self.sync.id, outcome, self.progress.summary(), error)
        self._ended = True

    def _add(self, **figures: int) -> None:
        with self._count:
            for name, n in figures.items():
                setattr(self.progress, name, getattr(self.progress, name) + n)


def _outcomes(opened: _Open) -> list[Delivered | SkippedOutcome]:
    """What a batch brings into the library; of several jobs with the same content the first brings the document."""
    outcomes: list[Delivered | SkippedOutcome] = []
    brought: set[str] = set()
    for job_id, reading in opened.reads.items():
        content_hash = reading.content_hash
        if reading.fate == "unchanged":
            outcomes.append(SkippedOutcome(job_id, SkipReason.UNCHANGED, content_hash))
            continue
        document = extraction = None
        if reading.fate == "parsed" and content_hash not in brought:
            brought.add(content_hash)
            encoded_document, encoded_extraction = opened.extractions[content_hash]
            document, extraction = decode_document(encoded_document), decode_extraction(encoded_extraction)
        outcomes.append(
            Delivered(
                job_id=job_id,
                content_hash=content_hash,
                normalizer=NORMALIZER,
                document=document,
                extraction=extraction,
                title=reading.title,
                modified=reading.modified,
                metadata=reading.metadata,
            )
        )
    return outcomes


def _key(job_id: int) -> str:
    return f"{job_id}:{NORMALIZER}"


def _encode_read(reading: Read) -> bytes:
    """One line of what is known of the content, and the encoded document behind it."""
    about = (reading.content_hash, reading.title, reading.modified, reading.fate, reading.metadata)
    return orjson.dumps(about) + b"\n" + (reading.document or b"")


def _decode_read(entry: bytes) -> Read:
    line, _, document = entry.partition(b"\n")
    content_hash, title, modified, fate, metadata = orjson.loads(line)
    return Read(content_hash, title, moment(modified), fate, metadata, document or None)


@contextmanager
def open_sync(
    home: Home, connector: Connector, name: str, policy: Policy, priority: Priority, *, run: str | None = None
) -> Iterator[SourceSync]:
    """Begin a sync of a source and close what it opened afterwards; the caller says how it ended with `end` or `end_failed`.

    Jobs that a dead process held are taken back first. Raises NotNow when the source is paused or held, TryAgain when
    another sync of it is running.
    """
    ledger = Ledger.open(home.make().database_url)
    cache = Cache(home.cache)
    try:
        source = ledger.sources.put(name, connector.kind, priority)
        if source.state != "active":
            raise NotNow(f"{name} is {source.state}; to release it: catchment sources resume {name}")
        sync = ledger.syncs.begin(
            source.id, run=run, owner=process.identity(), code_version=__version__, alive=process.alive
        )
        ledger.queue.recover(source.id, process.alive, policy.retry.attempts)
        with Sandbox(min(2, os.cpu_count() or 1), preload=("catchment.parsing",)) as sandbox:
            opened = SourceSync(ledger, cache, sandbox, connector, source, sync, policy)
            try:
                with _renewing(opened):
                    yield opened
            finally:
                opened.abandon()
    finally:
        cache.close()
        ledger.close()


@contextmanager
def _renewing(opened: SourceSync) -> Iterator[None]:
    """Keep leases from a thread of its own, so that a busy event loop does not lose them."""
    stop = threading.Event()

    def beat() -> None:
        while not stop.wait(LEASE.total_seconds() / 3):
            opened.renew()

    thread = threading.Thread(target=beat, name="leases", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
