"""Incidents for display, with their meaning and their subject."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from catchment.errors import NotFound, PageSilent
from catchment.records import record_of
from catchment.records.rows import FAILED_OUTCOMES, QuarantineEntry, SyncRow
from catchment.records.standing import Incident, ListPage
from catchment.runtime import web_process
from catchment.runtime.home import Home
from catchment.telemetry.incidents import ReasonCode, rank

if TYPE_CHECKING:
    from catchment.ledger import Ledger

_SHOWN = 50
_BEFORE = timedelta(minutes=5)
"""Time between the failed sync and the incident, at most."""
OF_ITEMS = (ReasonCode.PARSER_BROKEN, ReasonCode.FAILURES_RISING)


@dataclass(frozen=True, slots=True)
class Affected:
    """The objects that an incident concerns, if the ledger knows them: source, runs of failed syncs, quarantined items."""

    source: str | None
    syncs: tuple[int, ...] = ()
    runs: tuple[str, ...] = ()
    items: tuple[QuarantineEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class IncidentView(Incident):
    """An incident with the meaning of its reason code. The fields are those of `incidents list --json`.

    `runbook`: the remedies of its reason code in a few sentences.
    """

    state: str = ""
    help: str = ""
    runbook: str = ""
    affects: Affected = Affected(None)


@dataclass(frozen=True, slots=True)
class IncidentsView:
    """The open incidents, worst first, and a part of the closed ones, newest first."""

    open: tuple[IncidentView, ...]
    closed: ListPage[IncidentView]


def incidents(
    ledger: Ledger, unsaved: Sequence[Incident] = (), *, after: str | None = None, limit: int = 50
) -> IncidentsView:
    """Return the incidents. `unsaved`: as for `opened`."""
    page = ledger.incidents.closed(after=after, limit=limit)
    return IncidentsView(opened(ledger, unsaved), ListPage(tuple(map(_view, page.rows)), page.total, page.next))


def opened(ledger: Ledger | None, unsaved: Sequence[Incident] = ()) -> tuple[IncidentView, ...]:
    """Return the open incidents, worst first and then oldest first; acknowledged ones last.

    `ledger`: None if it cannot be read. `unsaved`: open or closed ones that could not be stored as they are now.
    """
    newer = {(incident.reason, incident.subject): incident for incident in unsaved}
    stored = (
        [incident for incident in ledger.incidents.open() if (incident.reason, incident.subject) not in newer]
        if ledger
        else []
    )
    incidents = [_view(incident) for incident in (*stored, *newer.values()) if incident.closed_at is None]
    return tuple(
        sorted(
            incidents,
            key=lambda incident: (incident.acknowledged_at is not None, rank(incident.reason), incident.opened_at),
        )
    )


def current(home: Home, ledger: Ledger) -> tuple[IncidentView, ...]:
    """Return the open incidents as the web process knows them, or as they are stored if it does not respond."""
    try:
        return web_process.fetch(home, "/incidents", IncidentsView).open
    except PageSilent:
        return opened(ledger)


def incident(ledger: Ledger, number: int) -> IncidentView:
    """Return an incident with the objects that it affects. Raises NotFound."""
    stored = ledger.incidents.get(number)
    kind, _, name = stored.subject.partition(":")
    if kind != "source":
        return _view(stored)
    try:
        source = ledger.sources.get(name)
    except NotFound:
        return _view(stored)
    syncs = [
        sync
        for sync in ledger.syncs.recent(source.id, _SHOWN, since=stored.opened_at - _BEFORE)
        if _concerns(sync, stored)
    ]
    items = ledger.quarantine.page(name, limit=_SHOWN).rows if stored.reason in OF_ITEMS else ()
    runs = tuple(sync.run for sync in syncs if sync.run)
    return replace(_view(stored), affects=Affected(name, tuple(sync.id for sync in syncs), runs, tuple(items)))


def sentence(incidents: Sequence[IncidentView], troubles: int = 0) -> str:
    """Return in one sentence whether all is well, or the worst incident, its start and its remedy.

    `troubles`: the number of problems that need a person, such as items in quarantine.
    """
    if not incidents:
        waits = "1 problem waits" if troubles == 1 else f"{troubles} problems wait"
        return f"Runs well; {waits} for you." if troubles else "All is well."
    worst = incidents[0]
    since = worst.opened_at.astimezone()
    days = "" if since.date() == datetime.now().astimezone().date() else f"{since:%Y-%m-%d} "
    text = f"{worst.about}: {worst.message}, since {days}{since:%H:%M}; {worst.remedy}"
    return f"{text} (and {len(incidents) - 1} more)." if len(incidents) > 1 else f"{text}."


def _concerns(sync: SyncRow, incident: Incident) -> bool:
    return sync.outcome in (None, *FAILED_OUTCOMES) and (incident.closed_at is None or sync.began <= incident.closed_at)


def _view(incident: Incident) -> IncidentView:
    kind, _, name = incident.subject.partition(":")
    code = ReasonCode(incident.reason) if incident.reason in [*ReasonCode] else None
    return record_of(
        IncidentView,
        incident,
        state="open" if incident.closed_at is None else "closed",
        help=code.help if code else "",
        runbook=code.runbook if code else "",
        affects=Affected(name if kind == "source" else None),
    )
