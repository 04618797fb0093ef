"""The first half of `catchment check`: server, scheduler, worker, web process, watcher, sources.

The verdicts and their wording are in `catchment.views.health`. Rarer problems are checked by `deployments.health.doctor`.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from catchment.contracts import Connector
from catchment.errors import CatchmentError, SourceUnavailable, TryAgain
from catchment.ledger import Ledger, Source
from catchment.pacing.waits import Wait, WaitKind
from catchment.runtime import secret_references, watch_status
from catchment.runtime.home import Home
from catchment.runtime.membership import Membership
from catchment.runtime.server_report import ServerReport
from catchment.runtime.web_process import WebAddress, is_live, last_start
from catchment.runtime.worker_status import WorkerStatus
from catchment.sync.preflight import scopes_of
from catchment.telemetry.incidents import OK, WARN, Condition, ReasonCode
from catchment.views import health
from catchment.views.telemetry import conditions
from catchment.views.waits import state_of, without_consent
from connectors import problems
from deployments.health import background, logins, machine
from deployments.health.announcing import AlertSettings
from deployments.server.client import Client, api, everything, read_blocks_of
from deployments.server.environment import POOL
from deployments.server.planned import latest_report, own_queues
from deployments.server.running import ELSEWHERE, Running, running, transition
from deployments.sources.sources_file import SourceEntry, SourcesFile

PROBE_SECONDS = 10.0
_PAGE = 200
_VARIABLE = "env:"

T = TypeVar("T")
_Known = tuple[Mapping[str, Source], Mapping[str, Condition], Mapping[str, datetime | None]]


def examine(home: Home) -> list[Condition]:
    """Run all checks. Takes up to ten seconds if sources do not answer: they are probed in parallel."""
    now = datetime.now(UTC)
    ledger = health.ledger(health.opened(home), health.LastCheck.read(home), now)
    findings = [*machine.prefect_version(), health.disk(home.path), ledger, *health.raw_content(home)]
    changes = transition(home)
    state = None if changes else running(home)
    if state and state.is_elsewhere:
        findings += [Condition("server", WARN, ELSEWHERE, "run the command there"), *background.examine(home)]
        state = None
    elif state:
        findings += _served(home, state, now)
    else:
        findings += [health.server(False, False, changes), *background.examine(home)]
    if state:
        is_alive = WebAddress.read(home) is not None
        findings.append(health.web(state.started, last_start(home), is_alive, is_live(home), now))
    try:
        entries = SourcesFile.load(home.sources_file).entries
    except CatchmentError as error:
        return [*findings, _invalid("sources", error)]
    try:
        AlertSettings.load(home)
    except CatchmentError as error:
        findings.append(_invalid("alerts", error))
    if state:
        is_watched = watch_status.read(home) is not None
        findings.append(health.watcher(sum(entry.watch for entry in entries), is_watched))
        read_blocks_of(state)
    findings += [Condition.of_error("packages", problem) for problem in problems()]
    closed = without_consent(home, [entry.name for entry in entries])
    permitted = [entry for entry in entries if entry.name not in closed]
    findings += [each for each in logins.examine(home, permitted, state) if each.verdict is not OK]
    elsewhere = changes is not None or (state is not None and state.pid != os.getpid())
    return findings + _sources(home, entries, latest_report(home), now, closed, elsewhere=elsewhere)


def _invalid(probe: str, error: CatchmentError) -> Condition:
    return Condition.of_error(probe, error, "catchment config validate", ReasonCode.SETTINGS_INVALID)


def _served(home: Home, state: Running, now: datetime) -> list[Condition]:
    """The checks that need the server's answers."""
    try:
        with api(state, timeout=5) as client:
            plan, heard = _plan(client, own_queues(home), now), _heard(client, home)
        behind = background.examine(home, state)
    except TryAgain:
        return [health.server(True, False, at=state.server), *background.examine(home)]
    online = health.worker(heard, WorkerStatus.read(home), now)
    return [health.server(True, True), plan, online, *behind]


def _plan(client: Client, queues: dict[str, Any], now: datetime) -> Condition:
    deployments = everything(client, "deployments", queues)
    schedules = [
        s for deployment in deployments if not deployment["paused"] for s in deployment["schedules"] if s["active"]
    ]
    query = {
        "flow_runs": {"state": {"type": {"any_": ["SCHEDULED", "PENDING", "RUNNING"]}}},
        "work_pools": {"name": {"any_": [POOL]}},
        **queues,
        "sort": "EXPECTED_START_TIME_ASC",
        "limit": _PAGE,
    }
    runs = client.post("/flow_runs/filter", json=query).raise_for_status().json()
    # A run that waits for the one before it, of the same deployment, is not late.
    working = {run["deployment_id"] for run in runs if run["state_type"] != "SCHEDULED"}
    planned = [run for run in runs if run["state_type"] == "SCHEDULED"]
    due = [
        _moment(run["next_scheduled_start_time"])
        for run in planned
        if run["state_name"] in ("Scheduled", "Late") and run["deployment_id"] not in working
    ]
    return health.scheduler(len(schedules), len(planned), [moment for moment in due if moment is not None], now)


def _heard(client: Client, home: Home) -> datetime | None:
    """The time of the latest heartbeat of a worker of our pool, or of this host's."""
    workers, host = everything(client, f"work_pools/{POOL}/workers", {}), Membership.of(home)
    beats = [_moment(worker["last_heartbeat_time"]) for worker in workers if not host or worker["name"] == host.name]
    return max((beat for beat in beats if beat is not None), default=None)


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _sources(
    home: Home,
    entries: tuple[SourceEntry, ...],
    report: ServerReport | None,
    now: datetime,
    closed: Mapping[str, Wait],
    *,
    elsewhere: bool,
) -> list[Condition]:
    """Check the sources. Those that are `closed`, without consent, are not read."""
    # A variable that is set for `up` may be unset for this caller, such as a cron job.
    unset = {entry.name: variable for entry in entries if elsewhere and (variable := _unset(entry))}
    probers = {entry.name: _prober(entry) for entry in entries if entry.name not in {*unset, *closed}}
    reached = dict[str, CatchmentError | None].fromkeys((*unset, *closed)) | within(PROBE_SECONDS, probers)
    silent = SourceUnavailable(f"no answer within {PROBE_SECONDS:.0f} s; check that its disk is connected")
    nothing: _Known = {}, {}, {}
    known, problems, good = Ledger.ask(home, lambda ledger: _known(home, ledger), nothing)
    conditions = []
    for entry in entries:
        name = entry.name
        _, wait = state_of(name, known.get(name), report)
        if name not in known and entry.paused:
            wait = WaitKind.PAUSED.of(name)
        wait = closed.get(name, wait)
        conditions.append(
            health.source(
                name,
                wait,
                reached.get(name, silent),
                good.get(name),
                now,
                known=problems.get(f"source {name}") or problems.get(f"watch {name}"),
                unset=unset.get(name),
                is_read=_is_here(_connector(entry)),
            )
        )
    return conditions


def _known(home: Home, ledger: Ledger) -> _Known:
    """Return the sources of the ledger, their problems and the ends of their last good syncs, by name or probe."""
    known = {source.name: source for source in ledger.sources.all()}
    problems = {condition.probe: condition for condition in conditions.present(ledger, home)}
    good = {name: last.ended for name, condition in known.items() if (last := ledger.syncs.last_good(condition.id))}
    return known, problems, good


def _unset(entry: SourceEntry) -> str | None:
    """The first environment variable with a secret of the source that this process lacks; None if all are set."""
    names = (value.removeprefix(_VARIABLE) for value in _secrets(entry) if value.startswith(_VARIABLE))
    return next((name for name in names if name not in os.environ), None)


def _secrets(entry: SourceEntry) -> list[str]:
    return [row.value for row in entry.settings.rows() if row.is_secret and row.value]


def _prober(entry: SourceEntry) -> Callable[[], CatchmentError | None]:
    """Return a function that reads a source on this machine, or else the secrets of its login.

    It sends no request to a host: the checks are repeated every minute or five. Only syncs send requests, at their pace.
    """

    def probe() -> CatchmentError | None:
        from catchment.sync import preflight

        try:
            connector = _connector(entry)
            if _is_here(connector):
                preflight.probe(connector)
            else:
                for reference in _secrets(entry):
                    secret_references.resolve(reference)
        except CatchmentError as error:
            return error
        return None

    return probe


def _is_here(connector: Connector) -> bool:
    return not scopes_of(connector)


def _connector(entry: SourceEntry) -> Connector:
    from connectors import connector_class

    return connector_class(entry.kind)(entry.settings)


def within(seconds: float, calls: Mapping[str, Callable[[], T]]) -> dict[str, T]:
    """Return the results of calls made in parallel. A call that takes longer is abandoned, and missing from the result."""
    answers: dict[str, T] = {}

    def take(name: str, call: Callable[[], T]) -> None:
        answers[name] = call()

    threads = [threading.Thread(target=take, args=pair, daemon=True) for pair in calls.items()]
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return dict(answers)
