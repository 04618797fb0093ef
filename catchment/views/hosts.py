"""The hosts that share a ledger: their state, and the sources and deletions that wait for them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from catchment.records import record_of
from catchment.runtime.home import Home
from catchment.runtime.membership import ANY, Membership
from catchment.runtime.process import place_of
from catchment.runtime.server_report import ServerReport

if TYPE_CHECKING:
    from catchment.ledger import JoinedHost, Ledger


class HostState(StrEnum):
    """State of a host, by its beat in the ledger."""

    ACTIVE = "active"
    SILENT = "silent"
    """It stopped without notice, or cannot reach the ledger."""
    STOPPED = "stopped"
    LEFT = "left"
    """It was taken out; its sources run nowhere until another host takes them over."""


@dataclass(frozen=True, slots=True)
class HostStanding:
    """A host. The fields are those of `hosts --json`.

    Attributes:
        last_beat: None after an orderly stop, and before the first start.
        sources: The sources that run on this host only; None before the first report of the server.
        syncs: The sources with a running sync there.
        purges: The removed or revoked sources with data left on its disk.
        problem: A description of the problem; "" if it is active, or if nothing waits for it.
    """

    name: str
    is_me: bool
    state: HostState
    last_beat: datetime | None
    version: str
    takes_any: bool
    joined: datetime
    sources: tuple[str, ...] | None
    syncs: tuple[str, ...]
    purges: tuple[str, ...]
    problem: str


def hosts(ledger: Ledger, report: ServerReport | None = None) -> list[HostStanding]:
    """Return the hosts by name; none if the home runs alone. `report`: of the server, with the sources of each host."""
    if not (joined := ledger.hosts.all()):
        return []
    running = [ledger.syncs.get(number) for number in ledger.syncs.moment()[1]]
    purging = ledger.purging.unfinished()
    return [
        _standing(
            joined_host,
            tuple(sorted(name for name, host in report.on.items() if host == joined_host.name)) if report else None,
            tuple(sorted(sync.source for sync in running if place_of(sync.owner) == joined_host.boot)),
            tuple(source for source, names in purging.items() if joined_host.name in names),
        )
        for joined_host in joined
    ]


def absent(ledger: Ledger, named: Collection[str]) -> Mapping[str, HostState]:
    """Return which of these hosts do not work now, by name; none if the home runs alone."""
    if not (joined := {host.name: _state(host) for host in ledger.hosts.all()}):
        return {}
    states = {name: joined.get(name, HostState.LEFT) for name in named if name != ANY}
    return {name: state for name, state in states.items() if state is not HostState.ACTIVE}


def elsewhere(home: Home, source: str) -> str | None:
    """Return the other host that has the files of a source; None if it is this one, any or unknown."""
    if (me := Membership.of(home)) is None or (report := ServerReport.read(home)) is None:
        return None
    host = report.on.get(source)
    return None if host in (me.name, ANY) else host


def _state(host: JoinedHost) -> HostState:
    if host.is_alive:
        return HostState.ACTIVE
    return HostState.STOPPED if host.silent_for is None else HostState.SILENT


def _standing(
    host: JoinedHost, sources: tuple[str, ...] | None, syncs: tuple[str, ...], purges: tuple[str, ...]
) -> HostStanding:
    state = _state(host)
    waiting = [f"{', '.join(sources)} {'waits' if len(sources) == 1 else 'wait'} for it"] if sources else []
    waiting += [f"has not deleted its data of {', '.join(purges)}"] if purges else []
    problem = {HostState.SILENT: ["does not answer", *waiting], HostState.STOPPED: waiting}
    return record_of(
        HostStanding,
        host,
        state=state,
        joined=host.joined_at,
        sources=sources,
        syncs=syncs,
        purges=purges,
        problem="; ".join(problem.get(state, [])),
    )
