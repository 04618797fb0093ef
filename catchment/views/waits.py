"""Why a source is not read now, and why an item is not in the library yet: every answer to that question is made here.

The last reports of the worker and the server are used, too. They do not exist while Catchment is stopped.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING

from catchment.errors import CatchmentError, NotFound
from catchment.model import JobState
from catchment.pacing.breaker import Position
from catchment.pacing.waits import Wait, WaitKind
from catchment.records.rows import ItemRow, Source, SourceState
from catchment.records.standing import Consent
from catchment.runtime.home import Home
from catchment.runtime.server_report import ServerReport
from catchment.runtime.worker_status import WorkerStatus
from catchment.views import hosts
from catchment.views.hosts import HostState

if TYPE_CHECKING:
    from catchment.ledger import Ledger

_AWAY = {
    HostState.SILENT: "{} does not answer",
    HostState.STOPPED: "{} is stopped",
    HostState.LEFT: "{} left; run it on another host",
}


def of_sources(ledger: Ledger, home: Home, report: ServerReport | None) -> Mapping[str, tuple[Wait, ...]]:
    """Return why each source is not read now, in the order in which the waits must end; empty if it may be read.

    `report`: of the server, with the sources that are switched off and the hosts on which they run.
    """
    consents = _consents(ledger)
    on = report.on if report else {}
    absent = hosts.absent(ledger, set(on.values()))
    limits, worker = of_limits(ledger), WorkerStatus.read(home)

    def candidates(source: Source) -> Iterator[Wait | None]:
        name = source.name
        yield state_of(name, source, report)[1]
        yield consent_of(name, consents.get(name, []))
        if (away := absent.get(on.get(name, ""))) is not None:
            yield WaitKind.MACHINE.of(name, why=_AWAY[away].format(on[name]))
        yield from limits[name]
        if worker and name in worker.lacking:
            yield WaitKind.SLOT.of(name)

    return {source.name: tuple(filter(None, candidates(source))) for source in ledger.sources.all()}


def of_limits(ledger: Ledger) -> Mapping[str, tuple[Wait, ...]]:
    """Return why a rule, a quota or its own circuit breaker keeps each source waiting now; empty if none does."""
    rests, has_rules = breakers(ledger), bool(ledger.throttles.all())

    def candidates(source: Source) -> Iterator[Wait | None]:
        if has_rules:
            yield ledger.throttles.blocked(source.name)
        yield rests.get(f"source:{source.name}")
        if has_rules:
            yield ledger.throttles.quota(source)

    return {source.name: tuple(filter(None, candidates(source))) for source in ledger.sources.all()}


def state_of(name: str, source: Source | None, report: ServerReport | None) -> tuple[SourceState, Wait | None]:
    """Return the state of a source (None: never synced), and why it waits. The pause or hold in the ledger comes first."""
    if source and source.wait:
        return source.state, source.wait
    if report is not None and name in report.paused:
        return "paused", WaitKind.SWITCHED_OFF.of(name)
    return "active", None


def without_consent(home: Home, names: Collection[str]) -> Mapping[str, Wait]:
    """Return the waits of the sources that must be left alone: their consent is not given, or cannot be read.

    A source that the ledger does not know is not among them: for files on this machine, adding it is the consent.
    """
    # The other answers are given without a database, too.
    from catchment.ledger import Ledger

    try:
        with closing(Ledger.inspect(home)) as ledger:
            consents = _consents(ledger)
    except NotFound:
        return {}
    except CatchmentError:
        return {name: WaitKind.CONSENT.of(name, why="the ledger cannot be read") for name in names}
    known = consents.keys() & set(names)
    return {name: wait for name in known if (wait := consent_of(name, consents[name]))}


def _consents(ledger: Ledger) -> dict[str, list[Consent]]:
    by_source: dict[str, list[Consent]] = {}
    for consent in ledger.consents.all():
        by_source.setdefault(consent.source, []).append(consent)
    return by_source


def consent_of(name: str, consents: list[Consent]) -> Wait | None:
    """Return the wait of a source without consent to all that it reads; None if it has it."""
    if not consents:
        return WaitKind.CONSENT.of(name, why="no consent given")
    lacking = next((consent for consent in consents if consent.problem), None)
    if lacking is None:
        return None
    return Wait(WaitKind.CONSENT, name, f"{lacking.problem}{lacking.suffix}", None, f"run: {lacking.remedy}")


def breakers(ledger: Ledger) -> dict[str, Wait]:
    """Return the waits for open circuit breakers, by key, except those of hosts of sources with many hosts."""
    many = {f"host:{row.key}" for row in ledger.pacing.buckets() if row.is_one_of_many}
    by_key = {}
    for row in ledger.pacing.breakers():
        if row.position is Position.OPEN and row.key not in many:
            kind = WaitKind.LOGIN if row.locked else WaitKind.FAILURES
            by_key[row.key] = kind.of(row.key.partition(":")[2], row.until)
    return by_key


def of_item(ledger: Ledger, home: Home, item: ItemRow) -> tuple[Wait, ...]:
    """Return why an item is not in the library yet; empty if it is, or will not be."""
    if item.state == "missing":
        return (WaitKind.DELETION.of(item.source),)
    if item.state != "present" or item.job_state not in (JobState.PENDING, JobState.RETRYING):
        return ()
    report = ServerReport.read(home)
    source = of_sources(ledger, home, report).get(item.source, ())
    if item.job_state is JobState.RETRYING:
        return (WaitKind.RETRY.of(item.source, item.not_before), *source)
    return (*source, _turn(ledger, home, item, report))


def _turn(ledger: Ledger, home: Home, item: ItemRow, report: ServerReport | None) -> Wait:
    """Return the wait of a new item for its turn: in the running sync, or for the next one."""
    last = ledger.syncs.last(ledger.sources.get(item.source).id)
    if last is not None and last.outcome is None and ledger.alive(last.owner):
        return WaitKind.SYNC.of(item.source, why="its sync is running and comes to it")
    if WorkerStatus.read(home) is None:
        return WaitKind.STOPPED.of(item.source)
    run = next(iter(report.coming(item.source, ledger.now())), None) if report else None
    return WaitKind.SYNC.of(item.source, run.at if run else None, "the next sync of its source")
