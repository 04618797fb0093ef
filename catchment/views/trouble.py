"""Problems that need a person, worst first: incidents, failed checks, held sources, open breakers, held deletions, quarantine.

Pauses and blackout windows are listed last. They are intended, so the badge does not count them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from catchment.errors import NotFound, Reason
from catchment.ledger import (
    Cluster,
    HeldFolder,
    HeldItem,
    Hold,
    Incident,
    ItemRow,
    Ledger,
    ListPage,
    QuarantineEntry,
    Source,
)
from catchment.pacing.operator_rules import windows_of
from catchment.pacing.windows import blocked_until
from catchment.runtime.home import Home
from catchment.runtime.server_report import SWITCHED_OFF, ServerReport
from catchment.telemetry.incidents import ReasonCode
from catchment.views.health import Finding, HealthReport
from catchment.views.telemetry.incidents import IncidentView, closed_since, opened
from catchment.views.throttling import OpenBreaker, open_breakers

_OPENING = 2_000
"""Characters of the last good version that are shown beside an error."""
_DECISIONS = 200
_DAY = timedelta(days=1)
_CLOSED = 20
_CLOSING = ("resumed", "breaker reset", "hold applied", "hold dropped")
_OF_ITEMS = (ReasonCode.PARSER_BROKEN, ReasonCode.FAILURES_RISING)
_OF_SOURCES = (
    ReasonCode.SOURCE_HELD,
    ReasonCode.SOURCE_UNREACHABLE,
    ReasonCode.SOURCE_INVALID,
    ReasonCode.LOGIN_REFUSED,
    ReasonCode.SYNC_FAILED,
)
_Keys = set[tuple[str, str]]
"""Reason codes and subjects of incidents."""
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


class TroubleKind(StrEnum):
    """Kind of a trouble, worst first. `subject` identifies the trouble within its kind."""

    INCIDENT = "incident"
    """An open incident that none of the others explains; the subject is its number."""
    CHECK = "check"
    """A failed check; the subject is its probe."""
    HELD = "held"
    """A source that is held."""
    BREAKER = "breaker"
    """An open circuit breaker of a host, or of a source that is not held; the subject is its key."""
    DELETIONS = "deletions"
    """Held deletions of a source."""
    CLUSTER = "cluster"
    """Quarantined items with the same cause."""
    PAUSED = "paused"
    """A paused source, or the scope of a paused rule. Needs no action."""
    BLACKOUT = "blackout"
    """The scope of a rule with a current blackout window. Needs no action."""


@dataclass(frozen=True, slots=True)
class TroubleRow:
    """A problem, or an intended pause.

    Attributes:
        subject: Identifies it within its kind.
        title: The problem in one line.
        count: Number of items, deletions or failures; 0 where none are counted.
        who, why: The actor of the decision, and the reason that was given, as the history has them.
        help: The remedy.
        needs_person: Whether the badge counts it.
        incident, reason: Number and reason code of the incident that it is, if it is one.
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
    facts, open_now = _facts(ledger, home), opened(ledger, unsaved)
    clusters = [(_cluster(one), _keys(_OF_ITEMS, one.by_source)) for one in ledger.quarantine.clusters()]
    rows = [*_rows(ledger, facts), *clusters]
    urgent = [
        *(_incident(one) for one in open_now if not any(_key(one) in keys for _, keys in rows)),
        *(_marked(row, next((one for one in open_now if _key(one) in keys), None)) for row, keys in rows),
    ]
    return TroubleView((*urgent, *_intended(ledger, home, facts.sources)), len(urgent), facts.checked)


def closed(ledger: Ledger) -> tuple[ClosedTrouble, ...]:
    """Return what was closed in the last 24 hours, latest first."""
    since, names = ledger.now() - _DAY, {source.id: source.name for source in ledger.sources.all()}
    decided = [
        ClosedTrouble(names.get(event.source_id or 0) or event.reason or "", event.event, event.at, who=event.actor)
        for event in ledger.history.decisions(_CLOSING, _CLOSED)
        if event.at >= since
    ]
    items = [
        ClosedTrouble(one.message, one.resolution, one.at, one.count)
        for one in ledger.quarantine.closed(since, _CLOSED)
    ]
    incidents = [
        ClosedTrouble(f"{one.about}: {one.message}", "is over", one.closed_at, incident=one.id)
        for one in closed_since(ledger, since, _CLOSED)
        if one.closed_at
    ]
    return tuple(sorted([*decided, *items, *incidents], key=lambda one: one.at, reverse=True)[:_CLOSED])


def number(ledger: Ledger, home: Home, unsaved: Sequence[Incident] = ()) -> int:
    """Return the number of troubles that need a person. Cheap."""
    rows, causes = [*_rows(ledger, _facts(ledger, home))], ledger.quarantine.causes()
    explained = {key for _, keys in rows for key in keys}
    rest = [one for one in opened(ledger, unsaved) if _key(one) not in explained]
    return len(rows) + causes + sum(not (causes and one.reason in _OF_ITEMS) for one in rest)


def cluster(
    ledger: Ledger, name: str, source: str | None = None, *, after: str | None = None, limit: int = 50
) -> ClusterView:
    """Return a cluster with a part of its items, of all sources or of one. Raises NotFound if it has none in quarantine."""
    found = ledger.quarantine.clusters(name)
    if not found:
        raise NotFound(f"cluster {name!r}: no item is in quarantine for this cause; see `catchment quarantine stats`")
    page = ledger.quarantine.page(source, cluster=name, after=after, limit=limit)
    return ClusterView(found[0], *problem_and_remedy(found[0].message or found[0].error, found[0].reason), page)


def entry(ledger: Ledger, job: int) -> EntryView:
    """Return a quarantine entry beside the item's last good version. Raises NotFound."""
    found = ledger.quarantine.show(job)
    good = None
    if found.document is not None:
        shown = ledger.library.document(found.document)
        text, modified = shown.content.text, shown.modified or shown.content.modified
        good = GoodVersion(shown.document, shown.title, shown.content.media_type, modified, len(text), text[:_OPENING])
    return EntryView(found, problem_and_remedy(found.message, found.reason)[1], ledger.intake.item(found.item_id), good)


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
    problem, _, remedy = message.partition("; ")
    return problem, remedy or _HELP[reason]


class _Facts(NamedTuple):
    sources: list[Source]
    checked: datetime | None
    failed: list[Finding]
    held: list[Source]
    breakers: list[OpenBreaker]
    holds: list[Hold]


def _facts(ledger: Ledger, home: Home) -> _Facts:
    """Return each problem once, without the quarantine: a held source explains its breaker and its failed check."""
    report = HealthReport.read(home)
    sources = ledger.sources.all()
    held = [source for source in sources if source.state == "held"]
    explained = {f"source:{source.name}" for source in held}
    breakers = [one for one in open_breakers(ledger) if one.key not in explained]
    explained |= {one.key for one in breakers}
    failed = report.failures(ledger.now()) if report else ()
    return _Facts(
        sources,
        report.at if report else None,
        [finding for finding in failed if finding.probe.replace(" ", ":", 1) not in explained],
        held,
        breakers,
        ledger.intake.holds(),
    )


def _rows(ledger: Ledger, facts: _Facts) -> Iterator[tuple[TroubleRow, _Keys]]:
    """Yield each problem but the quarantine, with the incidents that it may be."""
    for one in facts.failed:
        row = TroubleRow(TroubleKind.CHECK, one.probe, one.message, one.remedy, since=facts.checked)
        yield row, {(one.reason, one.subject)}
    for source in facts.held:
        yield _stopped(ledger, source, TroubleKind.HELD), _keys(_OF_SOURCES, [source.name])
    for breaker in facts.breakers:
        kind, _, name = breaker.key.partition(":")
        yield _breaker(breaker), _keys(_OF_SOURCES, [name] if kind == "source" else [])
    for hold in facts.holds:
        yield _deletions(hold), _keys((ReasonCode.DELETIONS_HELD,), [hold.source])


def _keys(reasons: Iterable[ReasonCode], sources: Iterable[str]) -> _Keys:
    names = [*sources]
    return {(reason.value, f"source:{name}") for reason in reasons for name in names}


def _key(one: IncidentView) -> tuple[str, str]:
    return one.reason, one.subject


def _marked(row: TroubleRow, one: IncidentView | None) -> TroubleRow:
    return row if one is None else replace(row, incident=one.id or None, reason=one.reason, since=one.opened_at)


def _incident(one: IncidentView) -> TroubleRow:
    text = f"{one.about}: {one.message}"
    return _marked(TroubleRow(TroubleKind.INCIDENT, str(one.id), text, one.remedy), one)


def _stopped(ledger: Ledger, source: Source, kind: TroubleKind) -> TroubleRow:
    """Return a source that is held or paused, with the decision."""
    decision = next(iter(ledger.history.decisions([source.state], 1, source.id)), None)
    return TroubleRow(
        kind,
        source.name,
        source.state_reason or ("repeated failures" if kind is TroubleKind.HELD else "paused by an operator"),
        "correct the cause, then resume it" if kind is TroubleKind.HELD else "resume it",
        source.failures if kind is TroubleKind.HELD else 0,
        since=decision.at if decision else None,
        who=decision.actor if decision else None,
        why=decision.reason if decision else None,
        needs_person=kind is TroubleKind.HELD,
    )


def _breaker(found: OpenBreaker) -> TroubleRow:
    name = found.key.partition(":")[2]
    again = "it is tried again by itself" if found.until else "nothing is read until it is reset"
    return TroubleRow(
        TroubleKind.BREAKER,
        found.key,
        f"{name}: {found.why}",
        f"check its address and login; {again}",
        found.failures,
        since=found.opened,
        until=found.until,
    )


def _deletions(hold: Hold) -> TroubleRow:
    text = "look at what is gone, then delete the documents or keep them"
    return TroubleRow(TroubleKind.DELETIONS, hold.source, hold.reason, text, hold.count, since=hold.held)


def _cluster(found: Cluster) -> TroubleRow:
    title, remedy = problem_and_remedy(found.message or found.error, found.reason)
    return TroubleRow(TroubleKind.CLUSTER, found.id, title, remedy, found.count, since=found.first)


def _intended(ledger: Ledger, home: Home, sources: Iterable[Source]) -> Iterator[TroubleRow]:
    """Yield the paused sources, and the rules that pause now."""
    report = ServerReport.read(home)
    for source in sources:
        if source.state == "paused":
            yield _stopped(ledger, source, TroubleKind.PAUSED)
        elif report and source.state == "active" and source.name in report.paused:
            yield TroubleRow(TroubleKind.PAUSED, source.name, SWITCHED_OFF, "resume it", needs_person=False)
    rules, now = ledger.throttles.all(), ledger.now()
    decisions = ledger.history.decisions(["paused", "throttle set"], _DECISIONS) if rules else []
    for row in rules:
        until = blocked_until(windows_of(row.rule), now)
        if not row.rule.paused and until is None:
            continue
        kind = TroubleKind.PAUSED if row.rule.paused else TroubleKind.BLACKOUT
        latest = [one for one in decisions if (one.reason or "").startswith(f"{row.scope}: ")][-1:]
        yield TroubleRow(
            kind,
            row.scope,
            "paused by an operator" if row.rule.paused else "blackout window",
            "resume it" if row.rule.paused else "wait, or clear the rule",
            since=row.changed,
            until=None if row.rule.paused else until,
            who=latest[0].actor if latest else None,
            why=latest[0].reason if latest else None,
            needs_person=False,
        )
