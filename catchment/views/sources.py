"""The standing of each source: its state, limits, last sync, watch and next run; its settings and its consents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from catchment.model import HOST, AwayHost, JobState
from catchment.pacing.waits import Wait, WaitKind
from catchment.records.rows import FAILED_OUTCOMES, Outcome, Source, SourceState, SyncRow
from catchment.records.standing import Consent, ConsentState
from catchment.runtime import watch_status
from catchment.runtime.home import Home
from catchment.runtime.server_report import PlannedRun, ServerReport
from catchment.runtime.watch_status import WatchState
from catchment.runtime.worker_status import WorkerStatus
from catchment.views import throttling, waits
from catchment.views.throttling import QuotaStatus
from catchment.views.work import recognition

if TYPE_CHECKING:
    from catchment.ledger import Ledger

_SYNCS = 10
_UNFINISHED = (JobState.PENDING, JobState.RUNNING, JobState.RETRYING)


@dataclass(frozen=True, slots=True)
class ConsentStanding:
    """The consent to a source: of several scopes, one without consent, or else the first to expire."""

    state: ConsentState
    until: datetime | None


@dataclass(frozen=True, slots=True)
class LastSync:
    """The last sync that is no undo. `outcome` is None while it runs; `expected` only until it ends."""

    outcome: Outcome | None
    began: datetime
    expected: datetime | None
    ended: datetime | None
    summary: Mapping[str, int]
    error: str | None


@dataclass(frozen=True, slots=True)
class SourceStanding:
    """A source with all facts about it. The fields are those of `status --json`.

    Attributes:
        state: Also "paused" if its deployment is switched off in Prefect.
        waits: Why it is not read now, what must end first coming first; empty if it may be read.
        jobs: Number of jobs by state.
        rule, quota: Its limits in words, and the rest of its hourly quota.
        next_run: None if no run is planned, or no worker would start it.
        on: The host on which it runs, or "any"; None in a home that runs alone.
        away: The hosts that did not answer its last sync, if it has several.
    """

    name: str
    kind: str
    state: SourceState
    waits: tuple[Wait, ...]
    documents: int
    jobs: Mapping[JobState, int]
    held_deletions: int
    consent: ConsentStanding | None
    rule: str | None
    quota: QuotaStatus | None
    last_sync: LastSync | None
    watch: WatchState | None
    next_run: PlannedRun | None
    on: str | None = None
    away: tuple[AwayHost, ...] = ()

    @property
    def waiting(self) -> int:
        """Number of unfinished jobs."""
        return sum(self.jobs.get(state, 0) for state in _UNFINISHED)

    @property
    def quarantined(self) -> int:
        """Number of jobs in quarantine."""
        return self.jobs.get(JobState.QUARANTINED, 0)

    @property
    def wait(self) -> Wait | None:
        """The wait that must end first before the source is read."""
        return next(iter(self.waits), None)

    @property
    def has_host(self) -> bool:
        """Whether the host on which it runs works."""
        return not any(wait.kind is WaitKind.MACHINE for wait in self.waits)


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A source in a list. `oldest`: when its oldest unfinished job was enqueued. `last_good`: its last completed sync."""

    standing: SourceStanding
    oldest: datetime | None
    last_good: SyncRow | None


@dataclass(frozen=True, slots=True)
class SourceView:
    """A source on its own page.

    Attributes:
        runs: Its next runs, soonest first, as the server planned them at `planned`; None if that is not known.
        expected: When its running or interrupted sync will be done, if known.
        types, size: Number of documents by media type, and the bytes of its items, as far as they are known.
        syncs: Its latest syncs, newest first.
        schedule: When it is synced, in words.
        settings: As they are written; secrets are references.
        unrecognized: How many of its pictures have text that is not recognized yet, and why, or "".
    """

    line: SourceLine
    runs: tuple[PlannedRun, ...]
    planned: datetime | None
    expected: datetime | None
    types: Mapping[str, int]
    size: int
    syncs: tuple[SyncRow, ...]
    schedule: str
    settings: Mapping[str, Any]
    unrecognized: str


@dataclass(frozen=True, slots=True)
class ScopeView:
    """A part of a source that needs consent: the data that it covers (None: no longer read), and the recorded consent."""

    scope: str
    reads: str | None
    consent: Consent | None


def scopes(ledger: Ledger, name: str, reads: Mapping[str, str]) -> list[ScopeView]:
    """Return the scopes of a source with their consents. `reads`: descriptions of the data that it is set to read, by scope."""
    consents = {consent.scope: consent for consent in ledger.consents.all(name, every=True)}
    return [ScopeView(scope, reads.get(scope), consents.get(scope)) for scope in {**reads, **consents}]


def lines(ledger: Ledger, home: Home, report: ServerReport | None = None) -> list[SourceLine]:
    """Return every source, by name, with its backlog and its last good sync. `report`: as for `standings`."""
    oldest = ledger.queue.oldest()
    ids = {source.name: source.id for source in ledger.sources.all()}
    return [
        SourceLine(standing, oldest.get(standing.name), ledger.syncs.last_good(ids[standing.name]))
        for standing in standings(ledger, home, report)
        if standing.name in ids
    ]


def line(ledger: Ledger, home: Home, name: str, report: ServerReport | None = None) -> SourceLine:
    """Return one source of `lines`. Raises NotFound if it was never synced."""
    ledger.sources.get(name)
    return next(line for line in lines(ledger, home, report) if line.standing.name == name)


def source(
    ledger: Ledger,
    home: Home,
    name: str,
    schedule: str,
    settings: Mapping[str, Any],
    report: ServerReport | None = None,
) -> SourceView:
    """Return a source with its contents and settings. Raises NotFound if it was never synced.

    `report`: as for `standings`.
    """
    known, shown = ledger.sources.get(name), line(ledger, home, name, report)
    report, last = report or ServerReport.read(home), shown.standing.last_sync
    is_active = shown.standing.state == "active"
    return SourceView(
        shown,
        tuple(report.coming(name, ledger.now())) if report and is_active and shown.standing.has_host else (),
        report.at if report else None,
        last.expected if last else None,
        ledger.library.types(known.id),
        ledger.sources.size(known.id),
        tuple(ledger.syncs.recent(known.id, _SYNCS)),
        schedule,
        settings,
        recognition.unread(ledger, source_id=known.id),
    )


def standings(ledger: Ledger, home: Home, report: ServerReport | None = None) -> list[SourceStanding]:
    """Return the standing of every source, by name.

    `report`: a new report of the server. Without it, the worker's last one is used; its runs count only while the worker lives.
    """
    if report is None and (report := ServerReport.read(home)) and WorkerStatus.read(home) is None:
        report = replace(report, runs={})
    documents, jobs = ledger.library.sizes(), ledger.queue.counts()
    held = {hold.source: hold.count for hold in ledger.intake.holds()}
    rules, quotas, consents = throttling.rules(ledger), throttling.quotas(ledger), _consents(ledger)
    watched, now = watch_status.read(home) or {}, datetime.now(UTC)
    on = report.on if report else {}
    waiting = waits.of_sources(ledger, home, report)
    rows = []
    for source in ledger.sources.all():
        name = source.name
        state, _ = waits.state_of(name, source, report)
        its = waiting.get(name, ())
        has_host = not any(wait.kind is WaitKind.MACHINE for wait in its)
        rows.append(
            SourceStanding(
                name,
                source.kind,
                state,
                its,
                documents.get(name, 0),
                jobs.get(name, {}),
                held.get(name, 0),
                consents.get(name),
                rules.get(name),
                quotas.get(name),
                _last_sync(ledger, source),
                watched.get(name),
                next(iter(report.coming(name, now)), None) if report and state == "active" and has_host else None,
                on.get(name),
                _away(ledger, source),
            )
        )
    return rows


def hosts_away(ledger: Ledger, source_id: int, syncs: Iterable[SyncRow]) -> list[AwayHost]:
    """Return the hosts that the last ended of these syncs, latest first, missed and that still do not answer."""
    ended = next((sync for sync in syncs if sync.summary and not sync.is_undo), None)
    return ledger.sources.away(source_id) if ended and ended.summary.get("away") else []


def _away(ledger: Ledger, source: Source) -> tuple[AwayHost, ...]:
    if not (away := hosts_away(ledger, source.id, ledger.syncs.recent(source.id))):
        return ()
    until = {row.key: row.until for row in ledger.pacing.breakers()}
    return tuple(replace(host, until=until.get(HOST + host.host)) for host in away)


def shown_state(ledger: Ledger, source_id: int, state: SourceState) -> str:
    """Return the state of a source; "failing" if it is active and its last sync failed. A running sync does not count."""
    outcomes = (sync.outcome for sync in ledger.syncs.recent(source_id) if not sync.is_undo and sync.outcome)
    return "failing" if state == "active" and next(outcomes, None) in FAILED_OUTCOMES else state


def _consents(ledger: Ledger) -> dict[str, ConsentStanding]:
    consents: dict[str, ConsentStanding] = {}
    for consent in ledger.consents.all():
        entry = ConsentStanding(consent.state, consent.expires)
        before = consents.setdefault(consent.source, entry)
        ends_first = entry.until is not None and (before.until is None or entry.until < before.until)
        if before.state is ConsentState.GIVEN and (entry.state is not ConsentState.GIVEN or ends_first):
            consents[consent.source] = entry
    return consents


def _last_sync(ledger: Ledger, source: Source) -> LastSync | None:
    last = next((sync for sync in ledger.syncs.recent(source.id) if not sync.is_undo), None)
    if last is None:
        return None
    expected = last.expected if last.outcome in (None, "yielded") else None
    return LastSync(last.outcome, last.began, expected, last.ended, last.summary, last.error)
