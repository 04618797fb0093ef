"""The second half of `catchment check`: hidden and upcoming problems, each with its remedy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from catchment.content.parsing import CODE
from catchment.errors import CatchmentError, TryAgain
from catchment.ledger import Ledger
from catchment.runtime import watch_status
from catchment.runtime.home import Home
from catchment.runtime.server_report import ServerReport
from catchment.telemetry.incidents import FAIL, OK, WARN, Condition
from catchment.views import health
from catchment.views.waits import state_of, without_consent
from deployments.health import background, leftovers, logins, machine
from deployments.server.planned import latest_report
from deployments.server.running import ELSEWHERE, running
from deployments.sources.sources_file import SourceEntry, SourcesFile
from deployments.watch.inotify import inotify_limits, inotify_used


def examine(home: Home) -> list[Condition]:
    """Check the machine, this home and, if the server is running, its runs and slots. Changes nothing."""
    state = running(home)
    entries, findings = _entries(home)
    written = None if findings else {entry.name: entry.kind for entry in entries}
    closed = without_consent(home, [entry.name for entry in entries])
    permitted = [entry for entry in entries if entry.name not in closed]
    findings += [_inotify(home, permitted), *machine.disks(home, permitted)]
    findings += Ledger.ask(home, lambda ledger: _of_ledger(home, ledger, written), list[Condition]())
    findings += logins.examine(home, permitted, state)
    homes = leftovers.by_home()
    own = homes.pop(home.path, [])
    findings += [leftovers.files(home), leftovers.processes(home, own), machine.port(home, state is not None, homes)]
    findings += [machine.clocks(home, state), *machine.growth(home), *machine.versions(home)]
    if state and state.listen:
        text = f"the page listens on {state.listen} for {state.host}; what it sends there is not encrypted"
        findings.append(Condition("address", OK, text))
    findings += health.raw_content(home, deep=True)
    if state and state.is_elsewhere:
        findings += [Condition("runs", WARN, ELSEWHERE, "run the command there"), *background.examine(home)]
    elif state is None:
        findings += background.examine(home)
    else:
        try:
            findings += leftovers.in_prefect(home, state) + background.examine(home, state)
        except TryAgain:
            problem = "the Prefect server does not respond"
            findings.append(Condition("runs", FAIL, problem, "see `catchment check`"))
    return findings


def mend(home: Home) -> None:
    """Remove leftover files and release leaked slots, where that is safe. Idempotent. Raises TryAgain."""
    leftovers.remove_files(home)
    if (state := running(home)) and not state.is_elsewhere:
        leftovers.release_slots(state)


def _entries(home: Home) -> tuple[tuple[SourceEntry, ...], list[Condition]]:
    try:
        return SourcesFile.load(home.sources_file).entries, []
    except CatchmentError as error:
        return (), [Condition.of_error("sources", error, "catchment config validate")]


def _of_ledger(home: Home, ledger: Ledger, written: Mapping[str, str] | None) -> list[Condition]:
    """Check consents and jobs, and compare the library with sources.yaml: the kind of each source; None with errors."""
    conditions = health.consents(ledger.consents.all(), datetime.now(UTC))
    conditions += health.released(ledger.queue.released(health.RELEASED_OFTEN)) + health.outdated(ledger, CODE)
    if ledger.is_restore_unfinished:
        conditions.append(health.unfinished_restore())
    elif written is not None:
        # Commands change one after the other.
        report, sources, latest = ServerReport.read(home), ledger.sources.all(), latest_report(home)
        others = (report.on.keys() if report else set()) - written.keys()
        conditions += health.differences(written, [source for source in sources if source.name not in others])
        conditions += health.switched_off(
            filter(None, (state_of(source.name, source, latest)[1] for source in sources))
        )
    return conditions


def _inotify(home: Home, entries: Iterable[SourceEntry]) -> Condition:
    watched = watch_status.read(home) or {}
    folders = sum(state.folders for state in watched.values())
    used, instances = inotify_used()
    return machine.inotify(machine.folders(home, entries), folders, used, instances, inotify_limits())
