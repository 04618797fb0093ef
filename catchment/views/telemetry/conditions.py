"""The conditions that hold now, by the ledger, the reports of the processes and the last checks. Asks no other host."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import accumulate

from catchment.errors import CatchmentError, ConfigError, NotFound, Reason
from catchment.ledger import FAILED_OUTCOMES, ConsentState, Ledger, SinkState, Source, SyncRow
from catchment.runtime import watch_status
from catchment.runtime.home import Home
from catchment.runtime.server_report import ServerReport
from catchment.runtime.watch_status import Watching
from catchment.runtime.worker_status import WorkerStatus
from catchment.telemetry.catalogue import JOBS
from catchment.telemetry.incidents import Condition, ReasonCode
from catchment.telemetry.objectives import ObjectiveStatus
from catchment.views import health, hosts
from catchment.views.health import DISK_FULL_BYTES, Finding, HealthReport, Verdict, reason_of_ledger
from catchment.views.hosts import HostState
from catchment.views.telemetry.objectives import objectives, settings

_MANY_JOBS = 1_000
_MINUTE = timedelta(minutes=1)
_STUCK = timedelta(minutes=30)
_FEW = 5
"""Items after which the latest attempts at a source are judged."""
_SOON = timedelta(days=7)
_SLOW = 0.25
"""Multiplier of a host's rate after two halvings."""
_OF_SOURCES = (ReasonCode.LOGIN_REFUSED, ReasonCode.SOURCE_INVALID, ReasonCode.SOURCE_UNREACHABLE)
_OF_PARSERS = (Reason.PARSE_ERROR, Reason.DEPENDENCY_FAILURE, Reason.PROCESS_KILLED, Reason.RESOURCE_EXHAUSTED)
_JUDGED_HERE = (
    ReasonCode.DISK_FULL,
    ReasonCode.SERVER_SILENT,
    ReasonCode.WORKER_SILENT,
    ReasonCode.LEDGER_UNWRITABLE,
)
"""Codes of checks that are repeated here more often, so that the last check is not used."""

LatestSyncs = Mapping[int, Sequence[SyncRow]]
"""The latest syncs of each source, newest first, by its ID."""


def of_machine(home: Home, errors: Mapping[str, CatchmentError], now: datetime, *, is_up: bool) -> Iterator[Condition]:
    """Yield the conditions that do not need the ledger.

    Args:
        errors: The failed checks of the web process: "ledger", "lease", "server", "events".
        is_up: Whether there should be a server and a worker.
    """
    full = False
    with suppress(OSError):
        full = shutil.disk_usage(home.path).free < DISK_FULL_BYTES
    if full:
        remedy = "make room; `catchment doctor` lists large files"
        yield Condition(ReasonCode.DISK_FULL, "", "the disk of the home folder is full", remedy)
    if (error := errors.get("ledger") or errors.get("lease")) and not isinstance(error, NotFound):
        problem, _, remedy = str(error).partition("; ")
        yield Condition(reason_of_ledger(error), "", problem, remedy or "see `catchment health`")
    if is_up:
        yield from _of_finding(health.server(True, not {"server", "events"} & errors.keys()))
        status = WorkerStatus.read(home)
        # The worker cannot report on a full disk.
        is_silent = status is None or not (full or status.is_current(now))
        yield from _of_finding(health.worker(None if is_silent else now, status, now))
    report = HealthReport.read(home)
    for finding in report.current(now) if report else ():
        if finding.reason not in _JUDGED_HERE:
            yield from _of_finding(finding)
    for name, state in (watch_status.read(home) or {}).items():
        if state.state is Watching.LIMITED:
            yield Condition(ReasonCode.WATCH_LIMITED, f"source:{name}", state.reason, state.remedy)


def _of_finding(finding: Finding) -> Iterator[Condition]:
    if finding.reason and finding.verdict is not Verdict.OK:
        problem = finding.message.partition("; ")[0]
        yield Condition(ReasonCode(finding.reason), finding.subject, problem, finding.remedy)


def of_ledger(ledger: Ledger, home: Home, latest: LatestSyncs) -> Iterator[Condition]:
    """Yield the conditions that the ledger knows of. Takes some milliseconds with any number of jobs."""
    now, report = ledger.now(), HealthReport.read(home)
    for source in _read(ledger):
        syncs = [sync for sync in latest.get(source.id, ()) if not sync.is_undo]
        yield from _last_sync(source, syncs, report)
        yield from _failing_items(ledger, source, syncs)
        if syncs and syncs[0].outcome is None:
            yield from _stuck(ledger, source, syncs[0], now)
    for hold in ledger.intake.holds():
        remedy = f"decide what happens: catchment deletions list {hold.source}"
        text = f"{hold.count} deletions wait for a decision: {hold.reason}"
        yield Condition(ReasonCode.DELETIONS_HELD, f"source:{hold.source}", text, remedy)
    yield from _hosts(ledger)
    for host in hosts.hosts(ledger, ServerReport.read(home)):
        if host.state is HostState.SILENT:
            remedy = f"start it, or if it is gone for good: catchment leave {host.name}"
            yield Condition(ReasonCode.HOST_SILENT, f"machine:{host.name}", host.problem, remedy)


def waiting_jobs(ledger: Ledger, latest: LatestSyncs) -> int:
    """Return the number of unfinished jobs. First syncs fill the queue, so their sources do not count."""
    backlogs = ledger.queue.backlogs()
    settled = [one.id for one in _read(ledger) if any(sync.outcome == "completed" for sync in latest.get(one.id, ()))]
    return sum(sum(backlogs[source].jobs.values()) for source in settled if source in backlogs)


def of_queue(waiting: int, before: int) -> Iterator[Condition]:
    """Judge the number of waiting jobs, and that of the previous judgement: an incident needs several without a fall."""
    if waiting >= max(before, _MANY_JOBS):
        text = f"at least {_MANY_JOBS:,} jobs wait, and their number does not fall"
        yield Condition(ReasonCode.BACKLOG_GROWING, "", text, "see the load of the worker: `catchment status`")


def of_ledger_each_minute(ledger: Ledger, _home: Home, _latest: LatestSyncs) -> Iterator[Condition]:
    """Yield further conditions that the ledger knows of, which are slower to read, or change slowly."""
    now = ledger.now()
    yield from _consents(ledger, now)
    for sink in ledger.outbox.all():
        if sink.error and sink.state is not SinkState.PAUSED:
            problem, _, remedy = sink.error.partition("; ")
            remedy = remedy or f"correct the cause, then: catchment sinks resume {sink.name}"
            yield Condition(ReasonCode.SINK_FAILING, f"sink:{sink.name}", problem, remedy)


def of_objectives(ledger: Ledger, home: Home, _latest: LatestSyncs) -> Iterator[Condition]:
    """Yield the objectives that burn. Takes 0.1 s with a large ledger."""
    try:
        chosen = settings(home)
    except ConfigError:
        return  # The checks report it.
    for one in objectives(ledger, chosen, ledger.now()):
        if one.status is ObjectiveStatus.BURNING:
            yield Condition(
                ReasonCode.OBJECTIVE_BURNING,
                f"objective:{one.objective.name}",
                f"objective missed: {one.objective}",
                "see `catchment slo`",
            )


def _read(ledger: Ledger) -> list[Source]:
    """Return the sources that should be read."""
    return [source for source in ledger.sources.all() if source.state in ("active", "held")]


def _last_sync(source: Source, syncs: Sequence[SyncRow], report: HealthReport | None) -> Iterator[Condition]:
    """Judge the last sync that read the source or failed to. A later check may have reached the source again."""
    last = next((sync for sync in syncs if sync.outcome not in (None, "cancelled")), None)
    if last is None or last.outcome not in FAILED_OUTCOMES:
        if source.state == "held":
            yield _held(source, ReasonCode.SOURCE_HELD, source.state_reason or "repeated failures")
        return
    code = next((code for code in _OF_SOURCES if code == last.cause), ReasonCode.SYNC_FAILED)
    problem, _, remedy = (last.error or "the process of the sync ended").partition("; ")
    if source.state == "held":
        yield _held(source, ReasonCode.SOURCE_HELD if code is ReasonCode.SYNC_FAILED else code, problem)
        return
    is_read_again = (
        code in _OF_SOURCES and report and report.at > (last.ended or last.began) and report.reads(source.name)
    )
    is_resumed = last.cause is None and syncs[0].outcome is None
    if not is_read_again and not is_resumed:
        remedy = remedy or f"catchment sources test {source.name}"
        yield Condition(code, f"source:{source.name}", problem, remedy)


def _held(source: Source, code: ReasonCode, problem: str) -> Condition:
    remedy = f"correct the cause, then: catchment sources resume {source.name}"
    return Condition(code, f"source:{source.name}", f"held: {problem.partition('; ')[0]}", remedy)


def _failing_items(ledger: Ledger, source: Source, syncs: Sequence[SyncRow]) -> Iterator[Condition]:
    """Judge the latest items that were attempted, of as many syncs as it takes to have enough."""
    ended = [sync.summary for sync in syncs if sync.summary]
    good = [*accumulate(figures.get("succeeded", 0) for figures in ended)]
    bad = [*accumulate(figures.get("quarantined", 0) + figures.get("retrying", 0) for figures in ended)]
    failed, of = next(((b, g + b) for g, b in zip(good, bad, strict=True) if g + b >= _FEW), (0, 0))
    if failed < _FEW or failed * 2 < of:
        return
    reasons = ledger.quarantine.stats().get(source.name, {})
    if not reasons and not ended[0].get("retrying"):
        return  # They were retried or discarded since.
    worst = max(reasons, key=lambda reason: reasons[reason], default=Reason.UNKNOWN)
    code = ReasonCode.PARSER_BROKEN if worst in _OF_PARSERS else ReasonCode.FAILURES_RISING
    text = f"{failed} of the latest {of} items failed" + (f" ({worst})" if reasons else "")
    yield Condition(code, f"source:{source.name}", text, f"catchment quarantine list --source {source.name}")


def _stuck(ledger: Ledger, source: Source, sync: SyncRow, now: datetime) -> Iterator[Condition]:
    """Judge a sync that is open. A listing of unchanged items leaves no trace, so jobs have to wait."""
    if not ledger.alive(sync.owner):
        text = "the process of its sync ended, and no other continues it"
    elif now - sync.began > _STUCK and ledger.queue.left(source.id) and not _worked(ledger, source, now):
        text = f"no item was finished in {_STUCK // _MINUTE} minutes"
    else:
        return
    yield Condition(ReasonCode.SYNC_STUCK, f"source:{source.name}", text, "catchment doctor --mend")


def _worked(ledger: Ledger, source: Source, now: datetime) -> bool:
    return bool(ledger.measures.points(JOBS, now - _STUCK, _MINUTE, source.id))


def _hosts(ledger: Ledger) -> Iterator[Condition]:
    asked = {place.host for place in ledger.pacing.places()}
    for row in ledger.pacing.buckets():
        host = row.key.partition("#")[0]
        if row.is_one_of_many:
            continue
        if row.not_before is not None:
            text = f"{host} requested a pause"
        elif row.left == 0 and row.until is not None:
            text = f"the hourly quota of {host} is used up"
        elif row.multiplier <= _SLOW and host in asked:
            text = f"{host} answers slowly or with errors, so it is asked less often"
        else:
            continue
        yield Condition(
            ReasonCode.HOST_THROTTLED, f"host:{host}", text, "none is needed; see `catchment throttle show`"
        )


def _consents(ledger: Ledger, now: datetime) -> Iterator[Condition]:
    for consent in ledger.consents.all():
        match consent.state:
            case ConsentState.ASKED:
                text = f"no consent to read {consent.scope}"
            case ConsentState.EXPIRED:
                text = f"the consent to read {consent.scope} has expired"
            case ConsentState.GIVEN if consent.expires and consent.expires - now < _SOON:
                text = f"the consent to read {consent.scope} expires on {consent.expires:%Y-%m-%d}"
            case ConsentState.PURGING:
                text = f"the consent to read {consent.scope} was withdrawn, but not all data is deleted"
                text += f" on {', '.join(consent.hosts)}" if consent.hosts else ""
            case _:
                continue
        verb = "revoke" if consent.state is ConsentState.PURGING else "give"
        remedy = f"catchment consent {verb} {consent.source}"
        yield Condition(ReasonCode.CONSENT_ENDING, f"source:{consent.source}", text, remedy)
