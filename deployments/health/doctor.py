"""The examination behind `catchment doctor`: what may go wrong soon or went wrong unseen, with what mends it."""

from __future__ import annotations

from contextlib import closing, suppress
from datetime import UTC, datetime

from catchment import status
from catchment.errors import CatchmentError, TryAgain
from catchment.ledger import Ledger
from catchment.runtime.home import Home
from catchment.status import Finding, Verdict
from deployments.health import leftovers, logins, machine
from deployments.server.running import running
from deployments.sources.sources_file import SourceEntry, SourcesFile
from deployments.watch import status as watch_status


def examine(home: Home) -> list[Finding]:
    """Examine the machine, this home, and what the server remembers if it is up. Changes nothing."""
    state = running(home)
    entries, findings = _entries(home)
    findings += [_inotify(home, entries), *machine.disks(home, entries), *_consents(home), *_jobs(home)]
    findings += logins.examine(home, entries, state)
    homes = leftovers.by_home()
    mine = homes.pop(home.path, [])
    findings += [leftovers.files(home), leftovers.processes(home, mine), machine.port(home, state is not None, homes)]
    findings += [machine.clocks(home, state), *machine.growth(home), *machine.versions(home)]
    if state is not None:
        try:
            findings += leftovers.in_prefect(home, state)
        except TryAgain:
            said = "the Prefect server does not respond"
            findings.append(Finding("runs", Verdict.FAIL, said, "see `catchment health`"))
    return findings


def mend(home: Home) -> None:
    """Clear away what is left over, where that can do no harm; may be called again. Raises TryAgain."""
    leftovers.remove_files(home)
    if state := running(home):
        leftovers.release_slots(state)


def _entries(home: Home) -> tuple[tuple[SourceEntry, ...], list[Finding]]:
    try:
        return SourcesFile.load(home.sources_file).entries, []
    except CatchmentError as error:
        said, _, remedy = str(error).partition("; ")
        return (), [Finding("sources", Verdict.FAIL, said, remedy or "catchment config validate")]


def _consents(home: Home) -> list[Finding]:
    # A ledger that cannot be read, or is not there yet, is told by its own probe.
    with suppress(CatchmentError), closing(Ledger.inspect(home.database_url)) as ledger:
        return status.consents(ledger.consents.all(), datetime.now(UTC))
    return []


def _jobs(home: Home) -> list[Finding]:
    with suppress(CatchmentError), closing(Ledger.inspect(home.database_url)) as ledger:
        return status.released(ledger.queue.released(status.RELEASED_OFTEN))
    return []


def _inotify(home: Home, entries: tuple[SourceEntry, ...]) -> Finding:
    watched = watch_status.read(home) or {}
    ours = sum(state.folders for state in watched.values())
    used, instances = machine.inotify_used()
    return machine.inotify(machine.folders(home, entries), ours, used, instances, machine.inotify_limits())
