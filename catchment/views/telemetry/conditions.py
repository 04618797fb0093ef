"""The present conditions, by the ledger, the reports of the processes and the last checks. Connects to no other host."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import accumulate, takewhile

from catchment.errors import CatchmentError, Reason, split_remedy
from catchment.ledger import FAILED_OUTCOMES, Ledger, Source, SyncRow
from catchment.model import count
from catchment.runtime import watch_status
from catchment.runtime.home import Home
from catchment.runtime.server_report import ServerReport
from catchment.runtime.watch_status import Watching
from catchment.runtime.worker_status import WorkerStatus
from catchment.telemetry.catalogue import JOBS
from catchment.telemetry.incidents import FAIL, OK, UNREAD, WARN, Condition, ReasonCode, Verdict, problems
from catchment.views import health, hosts
from catchment.views.health import HealthReport, LastCheck
from catchment.views.hosts import HostState
from catchment.views.sources import hosts_away

_MANY_JOBS = 1_000
_MINUTE = timedelta(minutes=1)
_STUCK = timedelta(minutes=30)
_HEALS, _REPEATED = timedelta(hours=2), 3
"""Time after a good sync, and number of failed ones since, from which failures that may pass are a problem."""
_AWAY = timedelta(days=2)
"""Time without an answer from which a host of a source with several is a problem."""
_SYNCS = 12
"""Syncs of a source that are read to judge it."""
_FEW = 5
"""Items after which the latest attempts at a source are judged."""
_SLOW = 0.25
"""Multiplier of a host's rate after two halvings."""
_PASSING = (ReasonCode.SOURCE_UNREACHABLE, ReasonCode.SYNC_FAILED)
"""Problems that may be over with the next sync."""
_OF_PARSERS = (Reason.PARSE_ERROR, Reason.DEPENDENCY_FAILURE, Reason.PROCESS_KILLED, Reason.RESOURCE_EXHAUSTED)

LatestSyncs = Mapping[int, Sequence[SyncRow]]
"""The latest syncs of each source, newest first, by its ID."""


def of_last_check(home: Home, judged: Iterable[Condition], now: datetime) -> list[Condition]:
    """Return the conditions of the last check in the background, of the components that are not judged here."""
    probes, report = {condition.probe for condition in judged}, HealthReport.read(home)
    return [condition for condition in (report.current(now) if report else ()) if condition.probe not in probes]


def of_machine(home: Home, errors: Mapping[str, CatchmentError], now: datetime, *, is_up: bool) -> Iterator[Condition]:
    """Yield the conditions that do not need the ledger.

    Args:
        errors: The failed checks of the web process: "ledger", "lease", "server", "events".
        is_up: Whether there should be a server and a worker.
    """
    disk = health.disk(home.path)
    yield disk
    yield health.ledger(errors.get("ledger") or errors.get("lease"), LastCheck.read(home), now)
    if is_up:
        yield health.server(True, not {"server", "events"} & errors.keys())
        status = WorkerStatus.read(home)
        # The worker cannot report on a full disk.
        is_silent = status is None or not (disk.reason is ReasonCode.DISK_FULL or status.is_current(now))
        yield health.worker(None if is_silent else now, status, now)
    yield from _watched(home)


def present(ledger: Ledger, home: Home) -> list[Condition]:
    """Return the problems of sources, hosts and sinks, also while Catchment is stopped."""
    latest = latest_syncs(ledger)
    return problems((*_watched(home), *of_ledger(ledger, home, latest), *of_ledger_each_minute(ledger, home, latest)))


def latest_syncs(ledger: Ledger) -> LatestSyncs:
    """Return as many of the latest syncs of each source as are needed to judge it."""
    return {source.id: ledger.syncs.recent(source.id, _SYNCS) for source in ledger.sources.all()}


def of_ledger(ledger: Ledger, home: Home, latest: LatestSyncs) -> Iterator[Condition]:
    """Yield the conditions that the ledger knows of. Takes some milliseconds with any number of jobs."""
    now, report = ledger.now(), HealthReport.read(home)
    for source in _read(ledger):
        syncs = [sync for sync in latest.get(source.id, ()) if not sync.is_undo]
        yield from _last_sync(source, syncs, report, now)
        yield from _away(ledger, source, syncs, now)
        yield from _failing_items(ledger, source, syncs)
        if syncs and syncs[0].outcome is None:
            yield from _stuck(ledger, source, syncs[0], now)
    for hold in ledger.intake.holds():
        remedy = f"decide what happens: catchment deletions list {hold.source}"
        text = f"{hold.count} deletions wait for a decision: {hold.reason}"
        yield _of_source("deletions", hold.source, text, remedy, ReasonCode.DELETIONS_HELD)
    yield from _hosts(ledger)
    for host in hosts.hosts(ledger, ServerReport.read(home)):
        if host.state is HostState.SILENT:
            remedy = f"start it, or if it is gone for good: catchment leave {host.name}"
            machine = f"machine:{host.name}"
            yield Condition(f"host {host.name}", FAIL, host.problem, remedy, ReasonCode.HOST_SILENT, machine)


def waiting_jobs(ledger: Ledger, latest: LatestSyncs) -> int:
    """Return the number of unfinished jobs. First syncs fill the queue, so their sources do not count."""
    backlogs = ledger.queue.backlogs()
    settled = [
        source.id for source in _read(ledger) if any(sync.outcome == "completed" for sync in latest.get(source.id, ()))
    ]
    return sum(sum(backlogs[source].jobs.values()) for source in settled if source in backlogs)


def of_queue(waiting: int, before: int) -> Iterator[Condition]:
    """Judge the number of waiting jobs, and that of the previous judgement: an incident needs several without a fall."""
    if waiting >= max(before, _MANY_JOBS):
        text = f"at least {_MANY_JOBS:,} jobs wait, and their number does not fall"
        remedy = f"many changes at once only take time, as `catchment status` shows; otherwise: {health.RESTART}"
        yield Condition("queue", WARN, text, remedy, ReasonCode.BACKLOG_GROWING)


def of_ledger_each_minute(ledger: Ledger, _home: Home, _latest: LatestSyncs) -> Iterator[Condition]:
    """Yield further conditions that the ledger knows of, which are slower to read, or change slowly."""
    now = ledger.now()
    yield from health.consents(ledger.consents.all(), now)
    for sink in ledger.outbox.all():
        yield health.sink(sink, now)


def _read(ledger: Ledger) -> list[Source]:
    """Return the sources that should be read."""
    return [source for source in ledger.sources.all() if source.state in ("active", "held")]


def _watched(home: Home) -> Iterator[Condition]:
    for name, state in (watch_status.read(home) or {}).items():
        if state.state is not Watching.WATCHING:
            code = ReasonCode.SOURCE_UNREACHABLE if state.state is Watching.GONE else ReasonCode.WATCH_LIMITED
            yield Condition(f"watch {name}", WARN, state.reason, state.remedy, code, f"source:{name}")


def _last_sync(
    source: Source, syncs: Sequence[SyncRow], report: HealthReport | None, now: datetime
) -> Iterator[Condition]:
    """Judge the last sync that read the source or failed to. A later check may have reached the source again."""
    read = [sync for sync in syncs if sync.outcome not in (None, "cancelled")]
    last = read[0] if read else None
    if last is None or last.outcome not in FAILED_OUTCOMES:
        if source.state == "held":
            yield _unread(source, source.state_reason or "repeated failures", ReasonCode.SOURCE_HELD, FAIL)
        elif last and report and (last.ended or last.began) > report.at:
            yield Condition(f"source {source.name}", OK, "read by its last sync")
        return
    code = ReasonCode(last.cause) if last.cause in UNREAD else ReasonCode.SYNC_FAILED
    held_because = source.state_reason if source.state == "held" else None
    problem = last.error or held_because or "the process of the sync ended"
    if source.state == "held":
        yield _unread(source, problem, ReasonCode.SOURCE_HELD if code is ReasonCode.SYNC_FAILED else code, FAIL)
        return
    ended = last.ended or last.began
    is_read_again = code in UNREAD and report and report.at > ended and report.reads(source.name)
    is_resumed = last.cause is None and syncs[0].outcome is None
    failed = [*takewhile(lambda sync: sync.outcome in FAILED_OUTCOMES, read)]
    is_new = now - (failed[-1].ended or failed[-1].began) < _HEALS and len(failed) < min(_REPEATED, len(read))
    if not is_read_again and not is_resumed and not (code in _PASSING and is_new):
        yield _unread(source, problem, code, WARN)


def _unread(source: Source, error: str, code: ReasonCode, verdict: Verdict) -> Condition:
    """Return the problem of a source that is not read. After a crash, a test says nothing, and starts no sync."""
    problem, remedy = split_remedy(error)
    match code:
        case ReasonCode.SOURCE_HELD:
            command = source.resume
        case ReasonCode.SYNC_FAILED:
            command = f"catchment sync {source.name}"
        case _:
            command = f"catchment sources test {source.name}"
    remedy = f"{remedy}, then: {command}" if remedy else command
    return Condition(f"source {source.name}", verdict, problem, remedy, code, f"source:{source.name}")


def _of_source(probe: str, name: str, text: str, remedy: str, code: ReasonCode) -> Condition:
    return Condition(f"{probe} {name}", FAIL, text, remedy, code, f"source:{name}")


def _away(ledger: Ledger, source: Source, syncs: Sequence[SyncRow], now: datetime) -> Iterator[Condition]:
    """Judge the hosts of a source with several, if its last sync missed some."""
    if away := [host for host in hosts_away(ledger, source.id, syncs) if now - host.since > _AWAY]:
        text = f"no answer for days from {count(len(away), 'host')}, such as {away[0].host} ({away[0].problem})"
        remedy = f"correct or remove the addresses there: catchment sources show {source.name}"
        subject = f"source:{source.name}"
        yield Condition(f"hosts {source.name}", WARN, text, remedy, ReasonCode.HOSTS_AWAY, subject)


def _failing_items(ledger: Ledger, source: Source, syncs: Sequence[SyncRow]) -> Iterator[Condition]:
    """Judge the latest items that were attempted, of as many syncs as it takes to have enough."""
    ended = [sync.summary for sync in syncs if sync.summary]
    good = [*accumulate(figures.get("succeeded", 0) for figures in ended)]
    bad = [*accumulate(figures.get("quarantined", 0) for figures in ended)]
    failed, of = next(((b, g + b) for g, b in zip(good, bad, strict=True) if g + b >= _FEW), (0, 0))
    if failed < _FEW or failed * 2 < of:
        return
    reasons = ledger.quarantine.stats().get(source.name, {})
    if not reasons:
        return  # They were retried or discarded since.
    most = max(reasons, key=lambda reason: reasons[reason])
    code = ReasonCode.PARSER_BROKEN if most in _OF_PARSERS else ReasonCode.FAILURES_RISING
    text = f"{failed} of the latest {of} items failed ({most})"
    remedy = f"retry or discard them after a look: catchment quarantine list --source {source.name}"
    yield _of_source("items", source.name, text, remedy, code)


def _stuck(ledger: Ledger, source: Source, sync: SyncRow, now: datetime) -> Iterator[Condition]:
    """Judge a sync that is open. A listing of unchanged items leaves no trace, so jobs have to wait."""
    if not ledger.alive(sync.owner):
        text = "the process of its sync ended, and no other continues it"
    elif now - sync.began > _STUCK and ledger.queue.left(source.id) and not _worked(ledger, source, now):
        text = f"no item was finished in {_STUCK // _MINUTE} minutes"
    else:
        return
    yield _of_source("sync", source.name, text, health.RESTART, ReasonCode.SYNC_STUCK)


def _worked(ledger: Ledger, source: Source, now: datetime) -> bool:
    return bool(ledger.measures.points(JOBS, now - _STUCK, _MINUTE, source.id))


def _hosts(ledger: Ledger) -> Iterator[Condition]:
    used_hosts = {place.host for place in ledger.pacing.places()}
    for row in ledger.pacing.buckets():
        host = row.key.partition("#")[0]
        if row.is_one_of_many:
            continue
        if row.not_before is not None:
            text = f"{host} requested a pause"
        elif row.left == 0 and row.until is not None:
            text = f"the hourly quota of {host} is used up"
        elif row.multiplier <= _SLOW and host in used_hosts:
            text = f"{host} answers slowly or with errors, so it is asked less often"
        else:
            continue
        remedy = "none is needed; see `catchment throttle show`"
        yield Condition("hosts", WARN, text, remedy, ReasonCode.HOST_THROTTLED, f"host:{host}")
