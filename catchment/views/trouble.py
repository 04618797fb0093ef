"""The problems that need a person: the open incidents, worst first, and the causes of the quarantine.

Pauses and blackout windows are listed last. They are intended, so the badge does not count them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import PurePosixPath

from catchment.errors import NotFound, Reason, split_remedy
from catchment.ledger import (
    Cluster,
    Event,
    HeldFolder,
    HeldItem,
    Hold,
    Incident,
    ItemRow,
    Ledger,
    ListPage,
    QuarantineEntry,
)
from catchment.pacing.operator_rules import windows_of
from catchment.pacing.waits import WaitKind
from catchment.pacing.windows import blocked_until
from catchment.runtime.home import Home
from catchment.runtime.server_report import ServerReport
from catchment.telemetry.incidents import UNREAD, ReasonCode
from catchment.views import waits
from catchment.views.health import HealthReport
from catchment.views.telemetry.incidents import OF_ITEMS, opened
from catchment.views.telemetry.retries import RetryRow, retries

_OPENING = 2_000
"""Characters of the last good version that are shown beside an error."""
_DECISIONS = 200
_DAY = timedelta(days=1)
_CLOSED = 20
_CLOSING = ("resumed", "breaker reset", "hold applied", "hold dropped")
_HELP = {
    Reason.PARSE_ERROR: "open the file in its own program and save it again; an update with another parser retries it",
    Reason.PERMISSION_DENIED: "grant access to the item, then retry",
    Reason.RESOURCE_EXHAUSTED: "check the item, or raise limits.memory_mb of its source, then retry",
    Reason.CONNECTOR_ERROR: "check that the source responds, then retry",
    Reason.TIMEOUT: "retry when the machine is less busy, or raise limits.total_seconds of the source",
    Reason.INVALID_STATE: "wait until the item no longer changes, then retry",
    Reason.DEPENDENCY_FAILURE: "install the missing program, then retry",
    Reason.PROCESS_KILLED: "retry once; if it fails again, discard it and report the item's type",
    Reason.UNKNOWN: "report it with the traceback; an update retries it",
}

_FILE = re.compile(r"[^;?]+\.\w{1,8}")
"""The name of a file, unlike that of a message or an address."""


class TroubleKind(StrEnum):
    """Kind of a trouble. `subject` identifies the trouble within its kind."""

    INCIDENT = "incident"
    """An open incident; the subject is its number."""
    HELD = "held"
    """An open incident: a source is not read."""
    DELETIONS = "deletions"
    """An open incident: deletions of a source are held."""
    CLUSTER = "cluster"
    """Quarantined items with the same cause."""
    PAUSED = "paused"
    """A paused source, or the scope of a paused rule. Needs no action."""
    BLACKOUT = "blackout"
    """The scope of a rule with a current blackout window. Needs no action."""


@dataclass(frozen=True, slots=True)
class TroubleRow:
    """A line of the list: an open incident, a cluster, or an intended pause.

    Attributes:
        subject: Identifies it within its kind.
        title: The problem in one line.
        count: Number of items or deletions; 0 where none are counted.
        who, why: The actor of the decision to pause, and the reason that was given, as the history has them.
        help: The remedy.
        needs_person: Whether the badge counts it.
        incident, reason: Number and reason code of the incident.
    """

    kind: TroubleKind
    subject: str
    title: str
    help: str
    count: int = 0
    since: datetime | None = None
    until: datetime | None = None
    who: str | None = None
    why: str | None = None
    needs_person: bool = True
    incident: int | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class ClosedTrouble:
    """A trouble that was closed. `how`: a decision, or how its quarantine entries were closed. `count`: of these, or 0.

    `incident`: its number, if it was one.
    """

    title: str
    how: str
    at: datetime
    count: int = 0
    who: str | None = None
    incident: int | None = None


@dataclass(frozen=True, slots=True)
class TroubleView:
    """All troubles, worst first.

    Attributes:
        number: Of those that need a person.
        checked: Time of the last check of the components.
        closed: What was closed in the last 24 hours, latest first, if it was asked for.
    """

    troubles: tuple[TroubleRow, ...]
    number: int
    checked: datetime | None
    closed: tuple[ClosedTrouble, ...] = ()


@dataclass(frozen=True, slots=True)
class QuarantineView:
    """The number of quarantined items by source and reason, their causes, and the retries of the last 30 days."""

    sources: Mapping[str, Mapping[Reason, int]]
    clusters: list[Cluster]
    retries: tuple[RetryRow, ...]


@dataclass(frozen=True, slots=True)
class ClusterView:
    """Quarantined items with the same cause, and a part of the items, latest failure first. `title`: the problem."""

    cluster: Cluster
    title: str
    help: str
    entries: ListPage[QuarantineEntry]


@dataclass(frozen=True, slots=True)
class GoodVersion:
    """The last version of an item that could be read. `opening`: the beginning of its text."""

    document: int
    title: str
    media_type: str
    modified: datetime | None
    characters: int
    opening: str


@dataclass(frozen=True, slots=True)
class EntryView:
    """A quarantined item. `item` is None if it was purged, and `good` if the library has no document of it."""

    entry: QuarantineEntry
    help: str
    item: ItemRow | None
    good: GoodVersion | None


@dataclass(frozen=True, slots=True)
class DeletionsView:
    """Held deletions of a source: the folders with their numbers, and a part of the items, of all folders or of one."""

    hold: Hold
    folders: ListPage[HeldFolder]
    items: ListPage[HeldItem]


def trouble(ledger: Ledger, home: Home, unsaved: Sequence[Incident] = ()) -> TroubleView:
    """Return all problems and pauses. `unsaved`: as for `incidents.opened`."""
    report = HealthReport.read(home)
    urgent = [*_incidents(ledger, unsaved), *map(_cluster, ledger.quarantine.clusters())]
    return TroubleView((*urgent, *_intended(ledger, home)), len(urgent), report.at if report else None)


def closed(ledger: Ledger) -> tuple[ClosedTrouble, ...]:
    """Return the troubles closed in the last 24 hours, latest first."""
    since, names = ledger.now() - _DAY, {source.id: source.name for source in ledger.sources.all()}
    decided = [
        ClosedTrouble(names.get(event.source_id or 0) or event.reason or "", event.event, event.at, who=event.actor)
        for event in ledger.history.decisions(_CLOSING, _CLOSED)
        if event.at >= since
    ]
    items = [
        ClosedTrouble(entry.message, entry.resolution, entry.at, entry.count)
        for entry in ledger.quarantine.closed(since, _CLOSED)
    ]
    incidents = [
        ClosedTrouble(f"{incident.about}: {incident.message}", "is over", incident.closed_at, incident=incident.id)
        for incident in ledger.incidents.closed(limit=_CLOSED).rows
        if incident.closed_at and incident.closed_at >= since
    ]
    return tuple(sorted([*decided, *items, *incidents], key=lambda row: row.at, reverse=True)[:_CLOSED])


def number(ledger: Ledger, unsaved: Sequence[Incident] = ()) -> int:
    """Return the number of troubles that need a person. Cheap."""
    return len(_incidents(ledger, unsaved)) + ledger.quarantine.causes()


def quarantine(ledger: Ledger) -> QuarantineView:
    """Return the quarantine by source, reason and cause."""
    return QuarantineView(ledger.quarantine.stats(), ledger.quarantine.clusters(), tuple(retries(ledger, ledger.now())))


def cluster(
    ledger: Ledger, name: str, source: str | None = None, *, after: str | None = None, limit: int = 50
) -> ClusterView:
    """Return a cluster with a part of its items, of all sources or of one. Raises NotFound if it has none in quarantine."""
    clusters = ledger.quarantine.clusters(name)
    if not clusters:
        raise NotFound(f"cluster {name!r}: no item is in quarantine for this cause; see `catchment quarantine stats`")
    page = ledger.quarantine.page(source, cluster=name, after=after, limit=limit)
    return ClusterView(
        clusters[0], *problem_and_remedy(clusters[0].message or clusters[0].error, clusters[0].reason), page
    )


def entry(ledger: Ledger, job: int) -> EntryView:
    """Return a quarantine entry beside the item's last good version. Raises NotFound."""
    row = ledger.quarantine.show(job)
    good = None
    if row.document is not None:
        shown = ledger.library.document(row.document)
        text, modified = shown.content.text, shown.modified or shown.content.modified
        good = GoodVersion(shown.document, shown.title, shown.content.media_type, modified, len(text), text[:_OPENING])
    return EntryView(row, problem_and_remedy(row.message, row.reason)[1], ledger.intake.item(row.item_id), good)


def deletions(
    ledger: Ledger, source: str, folder: str | None = None, *, after: str | None = None, limit: int = 50
) -> DeletionsView:
    """Return the held deletions of a source, with a part of the items. Raises NotFound.

    `after` continues the items; if it is given, the folders are left out.
    """
    known = ledger.sources.get(source)
    hold = next(iter(ledger.intake.holds(known.id)), None)
    if hold is None:
        raise NotFound(f"{source}: no held deletions; see `catchment deletions list`")
    folders = ledger.intake.held_folders(known.id, limit=limit)
    return DeletionsView(hold, folders, ledger.intake.held_items(known.id, folder, after=after, limit=limit))


def problem_and_remedy(message: str, reason: Reason) -> tuple[str, str]:
    """Return problem and remedy of a failure; the remedy is that of its reason if the message names none."""
    problem, remedy = split_remedy(message)
    return problem, remedy or _HELP[reason]


def _incidents(ledger: Ledger, unsaved: Sequence[Incident]) -> list[TroubleRow]:
    """Return the open incidents, except incidents that a decision has solved, which close within seconds.

    Incidents about many failing items of a source are left out, too, while the list shows the causes of its quarantine.
    """
    states = {source.name: source.state for source in ledger.sources.all()}
    holds = {hold.source: hold.count for hold in ledger.intake.holds()}
    stats, rows = ledger.quarantine.stats(), []
    for incident in opened(ledger, unsaved):
        kind, is_listed, count = TroubleKind.INCIDENT, True, 0
        if incident.reason == ReasonCode.DELETIONS_HELD:
            kind, is_listed, count = TroubleKind.DELETIONS, incident.about in holds, holds.get(incident.about, 0)
        elif incident.reason in UNREAD and incident.about in states:
            kind = TroubleKind.HELD
            is_listed = incident.reason != ReasonCode.SOURCE_HELD or states[incident.about] == "held"
        elif incident.reason in OF_ITEMS:
            is_listed = not stats.get(incident.about)
        if is_listed:
            subject, title = incident.about, incident.message
            if kind is TroubleKind.INCIDENT:
                subject, title = str(incident.id), f"{incident.about}: {incident.message}"
            row = TroubleRow(kind, subject, title, incident.remedy, count, incident.opened_at, reason=incident.reason)
            rows.append(replace(row, incident=incident.id or None))
    return rows


def _cluster(cluster: Cluster) -> TroubleRow:
    title, remedy = problem_and_remedy(cluster.message or cluster.error, cluster.reason)
    title = f"{_place(cluster)}: {title}"
    return TroubleRow(TroubleKind.CLUSTER, cluster.id, title, remedy, cluster.count, since=cluster.first)


def _place(cluster: Cluster) -> str:
    """Return the file that failed last, or for an item that is no file its source, and how many others failed so."""
    name = PurePosixPath(cluster.item).name
    name = name if _FILE.fullmatch(name) else next(iter(cluster.by_source))
    return name if cluster.count == 1 else f"{name} and {cluster.count - 1:,} more"


def _intended(ledger: Ledger, home: Home) -> Iterator[TroubleRow]:
    """Yield the paused sources, and the rules that pause now."""
    report = ServerReport.read(home)
    for source in ledger.sources.all():
        state, wait = waits.state_of(source.name, source, report)
        if wait and state == "paused":
            decision = next(iter(ledger.history.decisions(["paused"], 1, source.id)), None) if source.wait else None
            yield _pause(TroubleKind.PAUSED, source.name, wait.why or WaitKind.RULE.why, "resume it", decision)
    rules, now = ledger.throttles.all(), ledger.now()
    decisions = ledger.history.decisions(["paused", "throttle set"], _DECISIONS) if rules else []
    for row in rules:
        until = blocked_until(windows_of(row.rule), now)
        if not row.rule.paused and until is None:
            continue
        latest = [event for event in decisions if (event.reason or "").startswith(f"{row.scope}: ")][-1:]
        decision = latest[0] if latest else None
        if row.rule.paused:
            pause = _pause(TroubleKind.PAUSED, row.scope, WaitKind.RULE.why, "resume it", decision)
        else:
            pause = _pause(TroubleKind.BLACKOUT, row.scope, WaitKind.BLACKOUT.why, "wait, or clear the rule", decision)
        yield replace(pause, since=row.changed, until=None if row.rule.paused else until)


def _pause(kind: TroubleKind, subject: str, title: str, remedy: str, decision: Event | None) -> TroubleRow:
    since, who, why = (decision.at, decision.actor, decision.reason) if decision else (None, None, None)
    return TroubleRow(kind, subject, title, remedy, since=since, who=who, why=why, needs_person=False)
