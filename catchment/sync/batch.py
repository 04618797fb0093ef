"""A claimed batch on its way to the library: fetch, parse, extract and deliver. Failing items leave the batch individually."""

from __future__ import annotations

import hashlib
import pickle
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TypeVar

from catchment.content.cache import Cache
from catchment.content.codec import decode_document, decode_extraction
from catchment.content.parsing import CODE, FORMAT, SHORT, Content, Read, ReadTask, digest, extract_document, read
from catchment.content.parts.listing import ListedPart
from catchment.content.raw_store import RawStore
from catchment.content.redaction import redact
from catchment.content.secret_masking import has_masked_secrets
from catchment.contracts import Connected, Connector, Openable
from catchment.errors import (
    CatchmentError,
    FailureClass,
    ItemError,
    LedgerError,
    ParseError,
    Skipped,
    SkipReason,
    SourceError,
    StaleLease,
    Unexpected,
)
from catchment.ledger import Batch, ClaimedJob, Delivered, FailureInfo, Ledger, SkippedOutcome, unsupported_by
from catchment.model import PARTS, Failure, Item, RawContent, ReplayStage, Skip, Upsert
from catchment.parser_pool import STARTING_SECONDS, Failed, ParserPool, describe
from catchment.runtime.heartbeat import ProgressDeadline
from catchment.settings import Limits, Policy
from catchment.sync import backoff
from catchment.sync.kept_raw import has_no_secret, keep
from catchment.sync.preflight import Permit, let_parse, scopes_of
from catchment.sync.progress import Progress, Trouble
from catchment.telemetry.catalogue import BYTES_READ, CACHE, JOB_DURATION, SAVE_TO_FOUND, Metric

_WORTH_HASHING_FIRST = 64 * 1024
_FETCHED_AHEAD = 16 * 1024 * 1024
"""Maximum bytes buffered for the parsers when only this process can fetch."""
_PATIENCE = 5
"""Multiple of an item's stall limit after which a run that reads only local files counts as stuck."""
_PATIENCE_WITH_HOSTS = 3_600.0
"""Seconds that a host or its rate limit may delay a run."""
_WORTH_STORING_SECONDS = 0.02
"""What the parsers fetch and parse in less time is not stored in the cache: that would cost as much as parsing it again."""


T = TypeVar("T")
Figures = dict[str, int]


@dataclass(eq=False)
class Bench:
    """Resources shared by the batches of one sync. Threads may update `progress` and `troubles` concurrently.

    Attributes:
        raw: Where the content of fetched items is kept, if it is.
        parts_left: Whether a changed container lacks former parts.
        stage: The first stage to repeat, if the sync replays documents of the library.
        changed_since: The first change that the sync answers, if the watcher reported it (aware).
    """

    ledger: Ledger
    cache: Cache
    pool: ParserPool
    connector: Connector
    policy: Policy
    permit: Permit
    raw: RawStore | None = None
    stage: ReplayStage | None = None
    changed_since: datetime | None = None
    parts_left: bool = False
    progress: Progress = field(default_factory=Progress)
    troubles: dict[int, Trouble] = field(default_factory=dict)

    def __post_init__(self) -> None:
        let_parse(self.connector, self.pool, self.policy.limits)
        self.pickled = pickle.dumps(self.connector)
        parsers_fetch = self.connector.fetch_in_parser
        self.fetches_here = self.raw is not None or not parsers_fetch
        patience = _PATIENCE * self.policy.limits.stall_seconds if parsers_fetch else _PATIENCE_WITH_HOSTS
        self.deadline = ProgressDeadline(patience)
        self._counting = threading.Lock()

    def add(self, **figures: int) -> None:
        """Increase the named figures. Counts as a heartbeat."""
        self.deadline.beat()
        with self._counting:
            for name, n in figures.items():
                setattr(self.progress, name, getattr(self.progress, name) + n)

    def measure(self, metric: Metric, value: float, *, times: int = 1, **labels: str) -> None:
        """Count a value of the sync's source, as `Tally.add`."""
        self.ledger.measures.tally.add(metric, value, self.permit.source_id, times=times, **labels)

    def took(self, stage: str, since: float, items: int) -> float | None:
        """Measure the seconds that a stage took for each item since `since`, and return them; None without an item."""
        if not items:
            return None
        seconds = (time.monotonic() - since) / items
        self.measure(JOB_DURATION, seconds, times=items, stage=stage)
        return seconds

    def parsed(self, function: Callable[[T], bytes], tasks: Sequence[T]) -> Iterator[tuple[int, bytes | Failed]]:
        """Yield the parser pool's outcome for each task. The pool stops stalled tasks, so long silence means a stuck run."""
        limits = self.policy.limits
        with self.deadline.allow(_PATIENCE * limits.stall_seconds + STARTING_SECONDS):
            for outcome in self.pool.run(function, tasks, limits, self.deadline.beat):
                yield outcome
                self.permit.check()

    def report(self, trouble: Trouble) -> None:
        """Record an item that left its batch."""
        with self._counting:
            self.troubles[trouble.job_id] = trouble


class OpenBatch:
    """A batch in progress. Each step first completes the steps before it. Steps are idempotent and repeat no fetch or parse.

    An error caused by an item, in any step, results in a retry or quarantine of that item alone.
    """

    def __init__(self, bench: Bench, batch: Batch) -> None:
        self.token = batch.token
        self.jobs = batch.jobs
        self._bench = bench
        self._keys = {job.id: _key(job) for job in batch.jobs}
        self._reads: dict[int, Read] = {}
        self._extractions: dict[Content, bytes] = {}
        self._failed: set[int] = set()
        self.seconds_each: float | None = None
        """Seconds of fetching and parsing per job that was not cached."""
        self._stopped: SourceError | None = None
        """Error that stopped fetching. Items fetched before it are still delivered."""

    @property
    def key(self) -> str:
        """A key for the content of the batch. Equal item versions produce equal keys in every run."""
        versions = "\n".join(f"{job.item_id}:{job.item.version}" for job in self.jobs)
        return hashlib.sha256(versions.encode()).hexdigest()

    def is_cached(self) -> bool:
        """Return whether every item of the batch that is still to be read is stored in the cache."""
        unread = [job.id for job in self._unread()]
        return len(self._cached(unread)) == len(unread)

    def normalize(self) -> Figures:
        """Fetch and parse the items that earlier runs have not parsed yet."""
        return self._guarded(OpenBatch._normalize)

    def extract(self) -> Figures:
        """Extract chunks, links and entities from the documents."""
        return self._guarded(OpenBatch._extract)

    def deliver(self) -> Figures:
        """Store the batch in the library and acknowledge its jobs, in one ledger transaction.

        Raises SourceError if some items could not be fetched; their jobs remain claimed.
        """
        return self._guarded(OpenBatch._deliver)

    # Steps

    def _guarded(self, step: Callable[[OpenBatch], Figures]) -> Figures:
        """Run a step. If an item makes it fail, run it for each job separately, so that only that item fails.

        Raises CatchmentError if the cause is the source as a whole, the ledger or Catchment's own files.
        """
        try:
            return step(self)
        except CatchmentError as error:
            if not isinstance(error, ItemError) and type(error) is not LedgerError:
                raise
            # The ledger works, but rejects the data of one item.
            cause: Exception = error
        except Exception as error:  # noqa: BLE001 - a defect triggered by one item must not stop the others
            cause = error
        if len(self.jobs) == 1:
            reported = cause if isinstance(cause, ItemError) else Unexpected.of(cause)
            self._fail(self.jobs[0], Failed(reported, describe(cause)))
            return {}
        return self._each_alone(step)

    def _each_alone(self, step: Callable[[OpenBatch], Figures]) -> Figures:
        figures: Counter[str] = Counter()
        for job in self.jobs:
            if job.id in self._failed:
                continue
            alone = OpenBatch(self._bench, Batch(self.token, (job,)))
            if job.id in self._reads:
                alone._reads[job.id] = self._reads[job.id]
            alone._extractions = self._extractions
            figures.update(alone._guarded(step))
            self._reads |= alone._reads
            self._failed |= alone._failed
            if job.id in self._failed:
                self._reads.pop(job.id, None)
            if alone._stopped is not None:
                self._stopped = alone._stopped
                break
        return dict(figures)

    def _normalize(self) -> Figures:
        before = len(self._reads)
        if self._bench.stage is ReplayStage.EXTRACT:
            self._reads |= self._stored()
        self._reads |= self._cached([job.id for job in self._unread()])
        from_cache, todo = len(self._reads) - before, self._unread()
        start = time.monotonic()
        for portion in self._portions(todo):
            self._parse(portion)
        # Items that could no longer be fetched are not counted.
        unread = {job.id for job in self._unread()}
        parsed = len(todo) - len(unread)
        self.seconds_each = self._bench.took("normalize", start, parsed) or self.seconds_each
        self._bench.add(read=parsed)
        self._bench.measure(CACHE, from_cache, outcome="hit")
        self._bench.measure(CACHE, parsed, outcome="miss")
        self._bench.measure(BYTES_READ, sum(job.item.size or 0 for job in todo if job.id not in unread))
        return {"jobs": len(self.jobs), "found_again": from_cache, "read": parsed}

    def _extract(self) -> Figures:
        self.normalize()
        before, documents = len(self._extractions), dict[Content, bytes]()
        for r, document in self._documents():
            if r.content in self._extractions:
                continue
            if r.extraction is None:
                documents[r.content] = document
            else:
                self._extractions[r.content] = r.extraction
        taken_up = len(self._extractions) - before
        todo, start = list(documents), time.monotonic()
        for index, outcome in self._bench.parsed(extract_document, list(documents.values())):
            if not isinstance(outcome, Failed):
                self._extractions[todo[index]] = outcome
                continue
            for job in self.jobs:
                if (reading := self._reads.get(job.id)) and reading.content == todo[index]:
                    self._fail(job, outcome)
        self._bench.took("extract", start, taken_up + len(todo))
        return {"extracted": len(todo)}

    def _deliver(self) -> Figures:
        self.extract()
        self._record_parts()
        outcomes, start = self._outcomes(), time.monotonic()
        acks = self._bench.ledger.queue.deliver(self.token, outcomes)
        self._bench.took("deliver", start, len(outcomes))
        if self._bench.changed_since is not None and acks.succeeded:
            waited = (self._bench.ledger.now() - self._bench.changed_since).total_seconds()
            self._bench.measure(SAVE_TO_FOUND, max(0.0, waited), times=len(acks.succeeded))
        self._bench.cache.drop([self._keys[job_id] for job_id in self._reads])
        unchanged, acknowledged = len(acks.skipped), set(acks.succeeded)
        documents = [
            outcome.document
            for outcome in outcomes
            if isinstance(outcome, Delivered) and outcome.job_id in acknowledged
        ]
        secretive = sum(document is not None and has_masked_secrets(document) for document in documents)
        self._bench.add(succeeded=len(acks.succeeded), unchanged=unchanged, masked=secretive)
        if self._stopped is not None:
            raise self._stopped
        return {
            "extracted": len(self._extractions),
            "delivered": len(acks.succeeded),
            "unchanged": unchanged,
            "stale": len(acks.stale),
        }

    # Reading

    def _unread(self) -> list[ClaimedJob]:
        return [job for job in self.jobs if job.id not in self._reads and job.id not in self._failed]

    def _cached(self, jobs: Sequence[int]) -> dict[int, Read]:
        """Return the cached results of these jobs. An entry that does not decode counts as absent."""
        entries = self._bench.cache.get(self._keys[job_id] for job_id in jobs)
        reads = {}
        for job_id in jobs:
            if (entry := entries.get(self._keys[job_id])) is not None:
                with suppress(ValueError, TypeError):
                    reads[job_id] = Read.decode(entry)
        return reads

    def _stored(self) -> dict[int, Read]:
        """Return the documents of the library as results of reading."""
        stored = self._bench.ledger.library.stored([job.item_id for job in self._unread()])
        return {job.id: Read.of_stored(stored[job.item_id]) for job in self._unread() if job.item_id in stored}

    def _portions(self, jobs: Sequence[ClaimedJob]) -> Iterator[Sequence[ClaimedJob]]:
        """Split the jobs: one portion if parsers fetch themselves, else portions that fit into the fetch buffer."""
        if not self._bench.fetches_here:
            yield jobs
            return
        portion, size = [], 0
        for job in jobs:
            portion.append(job)
            size += job.item.size or 0
            if size >= _FETCHED_AHEAD:
                yield portion
                portion, size = [], 0
        yield portion

    def _parse(self, jobs: Sequence[ClaimedJob]) -> None:
        """Fetch and parse the jobs. Large items are hashed first and parsed only if their content is new."""
        tasks = list(self._tasks(jobs))
        large = [
            (job, task) for job, task in tasks if (job.item.size or 0) > _WORTH_HASHING_FIRST and not task.has_parts
        ]
        reads = self._known_content(dict(self._run(digest, large)))
        out = reads.keys() | self._failed
        reads |= self._run(read, [(job, task) for job, task in tasks if job.id not in out])
        if self._bench.raw is not None:
            fetched = [
                (job.item_id, job.item, task.raw)
                for job, task in tasks
                if task.raw is not None
                and job.carrier is None
                and job.id in reads
                and has_no_secret(task.raw, reads[job.id])
            ]
            keep(self._bench.raw, self._bench.ledger, fetched)
        fates = Counter(reading.fate for reading in reads.values())
        self._bench.add(parsed=fates["parsed"], reused=fates["stored"])
        for job_id, reading in reads.items():
            aside = reading.document is not None and len(reading.document) > SHORT
            self._reads[job_id] = replace(reading, document=None) if aside else reading

    def _tasks(self, jobs: Sequence[ClaimedJob]) -> Iterator[tuple[ClaimedJob, ReadTask]]:
        if self._stopped is not None or not jobs:
            return
        connector = self._bench.connector
        seen_before = [job.item_id for job in jobs if job.content_hash is not None]
        normalizers = self._bench.ledger.library.normalizers(seen_before)
        recognized = self._bench.ledger.recognition.texts({job.content_hash for job in jobs if job.content_hash})
        if isinstance(connector, Connected):
            connector.expect([_fetched_item(job)[1] for job in jobs])
        for job in jobs:
            self._bench.permit.check()
            pages = recognized.get(job.content_hash or "", {})
            try:
                raw = self._fetched(job, is_kept=bool(pages))
            except ItemError as error:
                self._fail(job, Failed(error, ""))
            except SourceError as error:
                self._stopped = error
                return
            else:
                known = (job.content_hash, normalizers.get(job.item_id, "")) if job.content_hash else None
                carrier = job.carrier[1] if job.carrier else None
                yield (
                    job,
                    ReadTask(job.item, self._bench.pickled, raw, known, pages, carrier, self._bench.policy.limits),
                )

    def _fetched(self, job: ClaimedJob, *, is_kept: bool) -> RawContent | None:
        """Return the content of an item; None if the parsers fetch themselves. A replay sends no requests.

        `is_kept`: its pictures were recognized from its raw content, which spares a request.
        """
        bench = self._bench
        number, item = _fetched_item(job)
        may_be_kept = is_kept or job.carrier is not None
        if may_be_kept and bench.raw is not None and (raw := bench.raw.get(number, item)) is not None:
            return raw
        if bench.stage is not None and scopes_of(bench.connector):
            if bench.raw is None or (raw := bench.raw.get(number, item)) is None:
                raise Skipped(SkipReason.UNCHANGED)
            return raw
        return bench.connector.fetch(item) if bench.fetches_here else None

    def _run(
        self, function: Callable[[ReadTask], bytes], tasks: Sequence[tuple[ClaimedJob, ReadTask]]
    ) -> Iterator[tuple[int, Read]]:
        """Yield the pool's results and cache them. Jobs that fail leave the batch."""
        entries: dict[str, bytes] = {}
        bench = self._bench
        try:
            for index, outcome in bench.parsed(function, [task for _, task in tasks]):
                job = tasks[index][0]
                if isinstance(outcome, Failed):
                    if isinstance(outcome.error, SourceError):
                        # The root is missing, which is not a failure of the item.
                        self._stopped = self._stopped or outcome.error
                    else:
                        self._fail(job, outcome)
                    continue
                reading = Read.decode(outcome)
                if reading.fate == "parsed" and self._is_worth_storing(reading):
                    entries[self._keys[job.id]] = outcome
                yield job.id, reading
        finally:
            # Even if the sync is stopped, so that the next one finds the parsed items.
            bench.cache.put(entries)

    def _is_worth_storing(self, reading: Read) -> bool:
        is_quick = reading.seconds < _WORTH_STORING_SECONDS and len(reading.document or b"") <= SHORT
        return self._bench.fetches_here or not is_quick

    def _known_content(self, hashed: Mapping[int, Read]) -> dict[int, Read]:
        """Return the hashed items whose content is unchanged or already stored, with the metadata that a parse would yield."""
        by_normalizer: defaultdict[str, set[str]] = defaultdict(set)
        for reading in hashed.values():
            by_normalizer[reading.normalizer].add(reading.content_hash)
        stored = {
            (content_hash, normalizer): facts
            for normalizer, hashes in by_normalizer.items()
            for content_hash, facts in self._bench.ledger.library.contents(hashes, normalizer).items()
        }
        known = {}
        for job_id, r in hashed.items():
            if facts := stored.get(r.content):
                modified = r.modified if "sent" in r.metadata else facts.modified or r.modified
                known[job_id] = replace(r, fate="stored", title=r.title or facts.title or "", modified=modified)
        return known | {job_id: reading for job_id, reading in hashed.items() if reading.fate == "unchanged"}

    # Delivery

    def _record_parts(self) -> None:
        """Record the parts of the containers, before their own jobs are acknowledged. The sync claims them later."""
        for job in self.jobs:
            reading = self._reads.get(job.id)
            # Most documents have no files inside. A new one had none before either, which saves 0.8 ms each.
            if reading and reading.parts is not None and (reading.parts or job.content_hash):
                self._take_parts(job, reading.parts, reading.content_hash)

    def _take_parts(self, job: ClaimedJob, parts: Sequence[ListedPart], content_hash: str) -> None:
        bench = self._bench
        why_not = bench.connector.why_not_inside(job.item) if isinstance(bench.connector, Openable) else None
        changes = [_part_change(job.item, part, bench.policy.limits, why_not) for part in parts]
        counts = bench.ledger.intake.record_parts(bench.permit.source_id, job.item, changes, content_hash)
        if counts is not None:
            recorded = {"jobs": counts.enqueued, "moved": counts.moved, "skipped": counts.skipped}
            bench.add(listed=len(changes), quarantined=counts.failed, **recorded)
            bench.parts_left |= counts.missing > 0

    def _documents(self) -> Iterator[tuple[Read, bytes]]:
        """Yield the encoded documents of the batch. Documents missing from the cache are parsed again."""
        parsed = {job_id: reading for job_id, reading in self._reads.items() if reading.fate == "parsed"}
        aside = [job_id for job_id, reading in parsed.items() if reading.document is None]
        cached = self._cached(aside)
        parsed |= cached
        uncached = set(aside) - cached.keys()
        parsed |= self._run(read, list(self._tasks([job for job in self.jobs if job.id in uncached])))
        yield from ((r, r.document) for r in parsed.values() if r.document is not None)

    def _outcomes(self) -> list[Delivered | SkippedOutcome]:
        """Build the outcome of each job. If several jobs have the same content, the first one carries the document."""
        documents = {reading.content: document for reading, document in self._documents()}
        outcomes: list[Delivered | SkippedOutcome] = []
        for job_id, reading in self._reads.items():
            if reading.fate == "unchanged":
                outcomes.append(SkippedOutcome(job_id, SkipReason.UNCHANGED, reading.content_hash))
                continue
            document = documents.pop(reading.content, None)
            outcomes.append(
                Delivered(
                    job_id=job_id,
                    content_hash=reading.content_hash,
                    normalizer=reading.normalizer,
                    document=None if document is None else decode_document(document),
                    extraction=None if document is None else decode_extraction(self._extractions[reading.content]),
                    title=reading.title or reading.name,
                    modified=reading.modified,
                    metadata=reading.metadata,
                )
            )
        return outcomes

    def _fail(self, job: ClaimedJob, failed: Failed) -> None:
        """Remove a job from the batch: skipped, scheduled for a retry, or quarantined."""
        # The next attempt must read the item anew, because the cached entry may be the cause.
        self._bench.cache.drop([self._keys[job.id]])
        # The lease may be lost, for example if the source was removed. The failure is then irrelevant.
        with suppress(StaleLease):
            self._record_failure(job, failed)
        # Only now: if the ledger was busy, the whole step is repeated.
        self._reads.pop(job.id, None)
        self._failed.add(job.id)

    def _record_failure(self, job: ClaimedJob, failed: Failed) -> None:
        error, queue = failed.error, self._bench.ledger.queue
        if isinstance(error, Skipped):
            if job.content_hash and job.carrier is None and error.skip_reason is not SkipReason.UNCHANGED:
                self._take_parts(job, (), job.content_hash)  # what was inside is gone
            message = str(error) if str(error) != error.skip_reason else ""
            if error.skip_reason is SkipReason.UNSUPPORTED:
                message = unsupported_by(CODE)
            queue.deliver(self.token, [SkippedOutcome(job.id, error.skip_reason, message=message)])
            self._bench.add(skipped=1)
            return
        failure = FailureInfo(
            reason=error.reason,
            failure_class=error.failure_class,
            error=type(error).__name__,
            message=redact(str(error)),
            traceback=failed.traceback,
            retry_helps=error.failure_class is not FailureClass.PERMANENT,
        )
        wait = backoff.delay(self._bench.policy.retry, failure.failure_class, job.attempt, random.random)
        retry_at = None if wait is None else self._bench.ledger.now() + timedelta(seconds=wait)
        queue.fail(self.token, job.id, failure, retry_at=retry_at)
        self._bench.report(Trouble(job.id, job.attempt, failure, retry_at))


def _fetched_item(job: ClaimedJob) -> tuple[int, Item]:
    """Return the item whose content is fetched for a job, with its ID: of a part, the container."""
    return job.carrier or (job.item_id, job.item)


def _part_change(
    carrier: Item, part: ListedPart, limits: Limits, why_not: Callable[[str], str | None] | None
) -> Upsert | Skip | Failure:
    container, reason = carrier.locator + PARTS, None
    if why_not and why_not(part.path):
        reason = SkipReason.EXCLUDED
    elif (part.size or 0) > limits.max_bytes:
        reason = SkipReason.TOO_LARGE
    version = f"{part.version}+{reason}" if reason else part.version
    item = Item(container + part.path, container, version, size=part.size, modified=part.modified)
    if reason:
        return Skip(item, reason)
    return Failure(item, ParseError(part.problem)) if part.problem else Upsert(item)


def _key(job: ClaimedJob) -> str:
    """Return the cache key of a job. It includes the item, because a restored or new ledger may reuse job numbers."""
    item = hashlib.blake2b(f"{job.item.locator}\n{job.item.version}".encode(errors="surrogatepass"), digest_size=12)
    return f"{job.id}:{item.hexdigest()}:{FORMAT}:{CODE}"


def forget_done(cache: Cache, ledger: Ledger) -> int:
    """Delete cache entries of jobs that no sync will work on, and return their number.

    A run deletes the entries that it delivered, unless it is killed first. A job may also end before it is read again.
    """
    keys = cache.keys()
    jobs = {key: int(number) for key in keys if (number := key.partition(":")[0]).isdecimal() and len(number) < 19}
    unfinished = set(ledger.queue.unfinished(set(jobs.values())))
    # A key altered by a power cut matches no job.
    outdated = [key for key in keys if jobs.get(key) not in unfinished]
    cache.drop(outdated)
    return len(outdated)
