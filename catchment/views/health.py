"""The checks of `catchment check`. Each returns the condition of a component.

They evaluate the data passed in. `deployments.health.checks` queries the server, the worker and the watcher.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import ClassVar, Self

from catchment.content.disposable_file import file_size, is_damaged
from catchment.errors import CatchmentError, NotFound, split_remedy
from catchment.ledger import OFF, Consent, ConsentState, Ledger, SinkRow, SinkState, Source
from catchment.model import in_words
from catchment.pacing.waits import Wait, WaitKind
from catchment.runtime.home import Home
from catchment.runtime.reports import ProcessReport
from catchment.runtime.worker_status import WorkerStatus
from catchment.search.meaning.meaning_status import MeaningStatus
from catchment.telemetry.incidents import FAIL, OK, WARN, Condition, ReasonCode, Verdict, reason_of, worst
from catchment.views.work.recognition import RecognitionStatus

_LITTLE = 5_000_000_000
DISK_FULL_BYTES = 100_000_000
"""Free bytes below which no sync can write."""
_LATE = timedelta(minutes=1)
_SOON = timedelta(days=7)
_SILENT = timedelta(seconds=90)
"""Three missed reports; a worker reports every 30 s."""
_WEB_START = timedelta(minutes=2)
"""The web process starts last, after the worker and the deployments."""
_RECENT = timedelta(minutes=6)
"""The checks in the background run every five minutes."""
RELEASED_OFTEN = 6
"""Claims after which a pending job is reported: twice the attempts of the default policy."""
_JOBS_NAMED = 5
RESTART = "catchment down && catchment up --detach"


@dataclass(frozen=True, slots=True)
class LastCheck(ProcessReport):
    """Time of the last check of the ledger (aware), the violated invariants, and the differences from its signed history."""

    file: ClassVar = "ledger-check.json"
    at: datetime
    broken: int
    differences: int = 0


@dataclass(frozen=True, slots=True)
class HealthReport(ProcessReport):
    """The conditions that a check found, the worst verdict, and its time (aware).

    That of the last check in the background is kept, because it takes up to ten seconds.
    """

    file: ClassVar = "health.json"
    at: datetime
    verdict: Verdict
    findings: tuple[Condition, ...]

    @classmethod
    def of(cls, findings: Sequence[Condition], at: datetime) -> Self:
        """Return the report of a check that ended at a time."""
        return cls(at, worst(findings), tuple(findings))

    def current(self, now: datetime) -> tuple[Condition, ...]:
        """Return the conditions; none if the report is older than the interval of the checks."""
        return () if now - self.at > _RECENT else self.findings

    @property
    def besides_web(self) -> tuple[Condition, ...]:
        """The conditions that the web process shows: it responds."""
        return tuple(condition for condition in self.findings if condition.probe != "web")

    def reads(self, source: str) -> bool:
        """Whether the check has read a source."""
        return any(
            condition.probe == f"source {source}" and condition.subject and condition.verdict is not FAIL
            for condition in self.findings
        )


def disk(path: Path) -> Condition:
    """Check the free space on the disk that holds the state."""
    try:
        free = shutil.disk_usage(path).free
    except FileNotFoundError:
        remedy = "create it with catchment up --detach; if it existed before, mount its disk first"
        return Condition("disk", FAIL, "home folder not found", remedy)
    except OSError as error:
        return Condition("disk", FAIL, f"home folder not readable: {error.strerror}", "mount its disk")
    if free < DISK_FULL_BYTES:
        text = f"the disk of the home folder is full; {free / 1e9:.1f} GB free"
        return Condition("disk", FAIL, text, "make room; `catchment check` lists large files", ReasonCode.DISK_FULL)
    text = f"{free / 1e9:.1f} GB free on the disk of the home folder"
    if free < _LITTLE:
        return Condition("disk", WARN, text, "make room before it is full; `catchment check` lists large files")
    return Condition("disk", OK, text)


def space(home: Home) -> dict[str, int]:
    """Return the bytes that the parts of a home take."""
    return {
        "ledger": size_of(home.path.glob("ledger*.db*")),
        "Prefect": size_of(home.prefect.rglob("*")),
        "cache": size_of(home.path.glob("cache.db*")),
        "raw content": file_size(home.raw),
        "backups": size_of(home.backups.rglob("*")),
        "logs": size_of(home.logs.rglob("*")),
    }


def size_of(files: Iterable[Path]) -> int:
    """Return the bytes of some files."""
    size = 0
    for file in files:
        # Files may be removed meanwhile.
        with suppress(OSError):
            size += file.stat().st_size if file.is_file() else 0
    return size


def outdated(ledger: Ledger, code: str) -> list[Condition]:
    """Report the files that another version of the code read, or could not read. `code`: the present one."""
    if not (number := sum(ledger.backfills.outdated(code).values())):
        return []
    text = f"another version read {number:,} files, or could not; this one may read them better"
    return [Condition("replay", WARN, text, "catchment replay --all --dry-run")]


def raw_content(home: Home, *, deep: bool = False) -> list[Condition]:
    """Check the file with raw content, if there is one. `deep`: read all of it."""
    if not home.raw.exists():
        return []
    if is_damaged(home.raw, deep=deep):
        text = "damaged, so items are fetched again when they are needed; the daily clean-up starts an empty file"
        return [Condition("raw content", WARN, text, "to do it now, run `upkeep` in the Prefect UI")]
    megabytes = f"{file_size(home.raw) / 1e6:,.1f} MB kept, at most {home.raw_bytes / 1e6:,.0f} MB"
    return [Condition("raw content", OK, megabytes)]


def opened(home: Home) -> CatchmentError | None:
    """Open the ledger and return why it does not open, has another revision, or belongs to another home."""
    try:
        with closing(Ledger.inspect(home)) as ledger:
            ledger.require_owner()
            ledger.sources.all()
    except CatchmentError as error:
        return error
    return None


def ledger(error: CatchmentError | None, checked: LastCheck | None, now: datetime) -> Condition:
    """Check that the ledger can be used, and passed its last check. `error`: why it cannot."""
    if isinstance(error, NotFound):
        return Condition("ledger", OK, "none yet; created with the first source")
    if error is not None:
        is_damaged = reason_of(error) is ReasonCode.LEDGER_DAMAGED
        code = ReasonCode.LEDGER_DAMAGED if is_damaged else ReasonCode.LEDGER_UNWRITABLE
        return Condition.of_error("ledger", error, "see `catchment check`", code)
    if checked is None:
        return Condition("ledger", OK, "OK; integrity check runs daily (none yet)")
    ago = f"{_span(now - checked.at)} ago"
    if checked.broken:
        text, remedy = f"{checked.broken} invariants violated; {ago}", "catchment ledger check --deep"
    elif checked.differences:
        text, remedy = f"the history differed from what was signed; {ago}", "catchment audit verify"
    else:
        return Condition("ledger", OK, f"OK; integrity check passed {ago}")
    return Condition("ledger", FAIL, text, remedy, ReasonCode.LEDGER_DAMAGED)


def server(running: bool, answers: bool, transition: str | None = None, at: str = "") -> Condition:
    """Check that the Prefect server runs and responds. `transition` is "starting" or "stopping" if applicable.

    `at`: the address of the server of a joined host.
    """
    if transition:
        return Condition("server", WARN, f"Catchment is {transition}", "check again in a minute")
    if running and answers:
        return Condition("server", OK, "the Prefect server responds")
    text, remedy = "the Prefect server does not respond", f"syncs wait for it; restart it on its machine: {at}"
    if not running:
        text, remedy = "Catchment is not running", "catchment up --detach"
    elif not at:
        remedy = f"it restarts automatically; if this persists for a minute: {RESTART}"
    return Condition("server", FAIL, text, remedy, ReasonCode.SERVER_SILENT)


def scheduler(schedules: int, planned: int, due: Sequence[datetime], now: datetime) -> Condition:
    """Check that runs are planned and start on time. `schedules`: the active ones. `due`: the times of planned runs."""
    coming, late = (moment for moment in due if moment > now), [moment for moment in due if now - moment > _LATE]
    if late:
        runs = "run is" if len(late) == 1 else "runs are"
        text = f"{len(late)} {runs} late, the oldest by {_span(now - min(late))}"
        return Condition("scheduler", WARN, text, "see the load of the worker: catchment status")
    if schedules and not planned:
        text = f"active schedules: {schedules}, but no run is planned"
        return Condition("scheduler", WARN, text, f"if this persists for a minute: {RESTART}")
    following = min(coming, default=None)
    text = "no run planned" if following is None else f"next run in {_span(following - now)}"
    return Condition("scheduler", OK, f"on time; {text}")


def worker(last_seen: datetime | None, status: WorkerStatus | None, now: datetime) -> Condition:
    """Check that a worker is online, and report its load."""
    remedy = f"see `catchment logs worker`, then: {RESTART}"
    if last_seen is None or now - last_seen > _SILENT:
        text = "no worker is online" + (f"; last heartbeat {_span(now - last_seen)} ago" if last_seen else "")
        remedy = f"it restarts automatically; if this persists, {remedy}"
        return Condition("worker", FAIL, text, remedy, ReasonCode.WORKER_SILENT)
    if status and status.problem:
        text = f"{status.problem} several times in a row; it restarts after growing pauses"
        return Condition("worker", FAIL, text, remedy, ReasonCode.WORKER_SILENT)
    if status is None:
        return Condition("worker", OK, "online")
    text = f"online; {status.running} running, {status.waiting} waiting, at most {status.limit} at once"
    if status.limit < status.cap:
        text += f" (reduced from {status.cap}: processor {status.cpu:.0%}, memory {status.memory:.0%} in use)"
    return Condition("worker", OK, text)


def web(up_since: datetime, started: datetime | None, is_alive: bool, responds: bool, now: datetime) -> Condition:
    """Check that the web process responds, without which searches use words only. `started`: its last start."""
    if responds:
        if started is None or started - up_since < _WEB_START:
            return Condition("web", OK, "responds")
        return Condition("web", OK, f"responds; restarted {_span(now - started)} ago", "catchment logs web")
    if not is_alive and (started is None or started < up_since) and now - up_since < _WEB_START:
        return Condition("web", OK, "starting; until then, searches use words only")
    text = f"{'does not respond' if is_alive else 'not running'}; searches use words only"
    return Condition("web", WARN, text, "it restarts within a minute; if this persists, see `catchment logs web`")


def embeddings(meaning: MeaningStatus, failure: str) -> Condition:
    """Check that there is a model, and that the passages are embedded. `failure`: why the last run of `embed` failed, or ""."""
    text = f"{meaning.done:,} of {meaning.total:,} passages embedded"
    remedy = ""
    if problem := meaning.reason:
        problem, remedy = split_remedy(problem)
    elif meaning.setting != OFF and meaning.done < meaning.total and failure:
        problem, _ = split_remedy(failure)
        remedy = f"a new run continues; to start it now: catchment model {meaning.setting}"
    if not problem:
        return Condition("embeddings", OK, text)
    return Condition("embeddings", WARN, f"{text}; {problem}", remedy, ReasonCode.MEANING_STALLED)


def recognition(status: RecognitionStatus, failure: str) -> Condition:
    """Check that the pages on pictures are recognized. `failure`: why the last run of `recognize` failed, or ""."""
    if status.reason or not failure or status.done == status.total:
        # Nobody has to install a program: all else works without it.
        return Condition("recognition", OK, str(status))
    return Condition("recognition", WARN, f"{status}; {split_remedy(failure)[0]}", "a new run continues within an hour")


def sink(row: SinkRow, now: datetime) -> Condition:
    """Check that a sink receives what changes."""
    parts = [f"{row.waiting:,} documents wait"] if row.waiting else [] if row.error else ["up to date"]
    if row.current is not None:
        parts.append(f"complete {_span(now - row.current)} ago")
    if row.refused:
        parts.append(f"{row.refused:,} refused")
    probe, again = f"sink {row.name}", f"catchment sinks resume {row.name}"
    if row.state is SinkState.PAUSED:
        return Condition(probe, OK, "; ".join(["paused", *parts]), again)
    if row.error:
        problem, remedy = split_remedy(row.error)
        text, remedy = "; ".join([problem, *parts]), remedy or f"correct the cause, then: {again}"
        return Condition(probe, WARN, text, remedy, ReasonCode.SINK_FAILING, f"sink:{row.name}")
    remedy = f"catchment sinks show {row.name}" if row.refused else ""
    return Condition(probe, WARN if row.refused else OK, "; ".join(parts), remedy)


def upkeep(failure: str) -> Condition:
    """Report why the last daily clean-up failed."""
    text = f"the last clean-up failed: {failure.partition('; ')[0]}"
    remedy = "a new run continues; see `catchment logs worker`"
    return Condition("upkeep", WARN, text, remedy, ReasonCode.UPKEEP_FAILED)


def watcher(sources: int, alive: bool) -> Condition:
    """Check that a watcher runs if any source needs one. `source` reports the state of watching for each source."""
    if not sources:
        return Condition("watcher", OK, "no source is watched")
    if not alive:
        remedy = "it restarts with the worker; if this persists, see `catchment logs worker`. Schedules still run"
        return Condition("watcher", WARN, "no watcher is running", remedy)
    return Condition("watcher", OK, f"watches {sources} source" + ("" if sources == 1 else "s"))


def source(
    name: str,
    wait: Wait | None,
    trouble: CatchmentError | None,
    last_good: datetime | None,
    now: datetime,
    *,
    known: Condition | None = None,
    unset: str | None = None,
    is_read: bool = True,
) -> Condition:
    """Check that a source can be read, is synced, and is watched as configured.

    Args:
        wait: Why it is not synced: paused, held or without consent.
        trouble: Error that currently prevents reading the source.
        known: The problem of its last sync, or of its watch.
        unset: Environment variable of the secret, if it is not set in this process; the secret was not read then.
        is_read: Whether the check reads the source. Only syncs read those of hosts.
    """
    probe, subject = f"source {name}", f"source:{name}"
    good = "never synced" if last_good is None else f"last good sync {_span(now - last_good)} ago"
    if wait and wait.kind is not WaitKind.HELD:
        # A pause by a command has a reason and is in the history; one by a switch may be an accident.
        verdict = WARN if wait.kind is WaitKind.SWITCHED_OFF else OK
        # The check of consents names its remedy.
        remedy = "" if wait.kind is WaitKind.CONSENT else f"catchment sources resume {name}"
        return Condition(probe, verdict, f"{wait.sentence()}; {good}", remedy)
    if trouble is not None:
        condition = Condition.of_error(probe, trouble, f"catchment sources test {name}", reason_of(trouble), subject)
        return replace(condition, message=f"{condition.message}; {good}")
    subject = subject if is_read else ""
    if known:
        # No incident is opened: the ledger shows the end of this problem sooner.
        return Condition(probe, known.verdict, f"{known.message}; {good}", known.remedy, subject=subject)
    if unset:
        # The source's own syncs report whether the variable is set where they run.
        good = f"login not checked, because {unset} is not set here; {good}"
    return Condition(probe, OK, f"can be read; {good}" if is_read else good, subject=subject)


def switched_off(waits: Iterable[Wait]) -> list[Condition]:
    """Report the sources that are paused in Prefect, although no command paused them."""
    return [
        Condition(
            f"source {wait.subject}",
            WARN,
            f"{wait.sentence()}, so it is not synced",
            f"catchment sources resume {wait.subject}",
        )
        for wait in waits
        if wait.kind is WaitKind.SWITCHED_OFF
    ]


def unfinished_restore() -> Condition:
    """Report a restore that was killed between the ledger and the settings."""
    return Condition("restore", FAIL, "interrupted; the settings are not restored yet", "catchment up --detach")


def differences(written: Mapping[str, str], known: Iterable[Source]) -> list[Condition]:
    """Compare sources.yaml (the kind of each source, by name) with the sources of the library."""
    conditions, kinds = [], {source.name: source.kind for source in known}
    for name in sorted({**kinds, **written}):
        probe, remove = f"source {name}", f"catchment sources remove {name}"
        if name not in kinds:
            remedy = f"catchment up --detach, then: catchment sync {name} --wait"
            conditions.append(Condition(probe, WARN, "in sources.yaml, but never synced", remedy))
        elif name not in written:
            text = "in the library, but not in sources.yaml, so it is never synced"
            conditions.append(Condition(probe, FAIL, text, f"add it to sources.yaml again, or: {remove}"))
        elif written[name] != kinds[name]:
            text = f"{kinds[name]} in the library, but {written[name]} in sources.yaml, so it is never synced"
            conditions.append(Condition(probe, FAIL, text, f"rename it in sources.yaml, or: {remove}"))
    return conditions


def consents(rows: Iterable[Consent], now: datetime) -> list[Condition]:
    """Check that consents are given and not about to expire: the worst of each source, if one of its scopes needs attention."""
    conditions: dict[str, Condition] = {}
    for consent in rows:
        text = consent.problem or (f"consent expires on {consent.expires:%Y-%m-%d}" if consent.expires else "")
        ends_soon = consent.expires is not None and consent.expires - now < _SOON
        verdict = FAIL if consent.state is ConsentState.PURGING else WARN if consent.problem or ends_soon else OK
        if consent.state is ConsentState.WITHDRAWN:
            verdict = OK
        if text:
            remedy, subject = consent.remedy if verdict is not OK else "", f"source:{consent.source}"
            condition = Condition(
                f"consent {consent.source}", verdict, text, remedy, ReasonCode.CONSENT_ENDING, subject
            )
            before = conditions.setdefault(consent.source, condition)
            conditions[consent.source] = max(before, condition, key=lambda each: [*Verdict].index(each.verdict))
    return [*conditions.values()]


def released(claims: Iterable[tuple[str, int]]) -> list[Condition]:
    """Return one condition per source with jobs, given as (source, job), that were repeatedly claimed and released."""
    by_source: dict[str, list[int]] = {}
    for source, job in claims:
        by_source.setdefault(source, []).append(job)
    conditions = []
    for source, jobs in by_source.items():
        numbers = ", ".join(map(str, jobs[:_JOBS_NAMED])) + (", …" if len(jobs) > _JOBS_NAMED else "")
        were, which = ("1 job was", "job") if len(jobs) == 1 else (f"{len(jobs)} jobs were", "jobs")
        text = f"{were} claimed at least {RELEASED_OFTEN} times without finishing ({which} {numbers})"
        remedy = f"see catchment jobs show {jobs[0]}; then: catchment sync {source} --wait"
        conditions.append(Condition(f"jobs {source}", WARN, text, remedy))
    return conditions


def _span(length: timedelta) -> str:
    return in_words(max(0.0, length.total_seconds()))
