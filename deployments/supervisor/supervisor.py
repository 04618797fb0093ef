"""`up` and `down`: keep the server, the worker and the web process running, and stop them with all their descendants.

A joined host runs no server: its worker waits for the server of all hosts, and its page works meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from catchment.content import copies_in_memory
from catchment.errors import CatchmentError, Refused, TryAgain
from catchment.runtime.home import Home
from catchment.runtime.installation import FILES
from catchment.runtime.membership import Membership, shipped_name
from catchment.runtime.process import alive, is_local, pid_of
from catchment.runtime.web_process import is_live
from catchment.runtime.worker_status import WorkerStatus
from deployments.runs.work_pool import ensure_pool, follow_clock, replan, worker_online
from deployments.server.client import api
from deployments.server.environment import auth_string, authorities, child_environment, unusable_variables
from deployments.server.logs import BoundedLog
from deployments.server.ports import Exposure, listen, listen_for_page
from deployments.server.prefect_database import note_block_types, prepare
from deployments.server.processes import Orphans, until
from deployments.server.running import (
    ELSEWHERE,
    Running,
    holder,
    record,
    running,
    starting,
    state_file,
    supervisor_lock,
    ui_login,
)
from deployments.supervisor.clock import WallClock
from deployments.supervisor.service import START_SECONDS, Service, StartPatience
from deployments.supervisor.silence import Silence
from deployments.supervisor.start_detached import STOP_SECONDS, start_in_background
from deployments.supervisor.sweep import Sweep

__all__ = ["Running", "down", "running", "ui_login", "up"]

_SHIPPED = FILES / "prefect.yaml"
_SHIPPED_NAMES = ("upkeep", "embed", "recognize")
"""Its deployments that every home gets. Their flows have the same names."""
_RUNS_END_SECONDS = 18.0
"""Time for the worker to stop: it gives its runs 12 s, and then records their states."""
_AWAY_SECONDS = 3.0
_LOOK_SECONDS = 0.25
_FORGET_SECONDS = 4.0
"""Time in which the web process ends its open responses."""
_ANSWER_SECONDS = 1.0
_ANSWER_ELSEWHERE_SECONDS = 5.0
_AWAY_AGAIN_SECONDS = 10.0
"""Interval in which a joined host looks for a server that was away at its start."""

_SERVER = ("-m", "deployments.server.app")
_WORKER = ("-m", "deployments.worker")
_HEALTH = ("-m", "deployments.health.page")
_WEB = ("-m", "web")
_HEALTHY_SECONDS = 300.0
_UNHEALTHY_SECONDS = 60.0
"""Interval between two refreshes of the health page."""

Announce = Callable[[str], None]


def up(
    home: Home,
    *,
    port: int | None = None,
    exposure: Exposure | None = None,
    detach: bool = False,
    announce: Announce,
) -> int:
    """Start the server and the worker and keep them running until a signal or `down`. Returns the exit code.

    With `detach`, returns as soon as both are ready. If they are running already, deploys the changes of the sources file and
    returns 0. Waits for a system that is stopping, and with `detach` for one that is starting. Raises TryAgain if the requested
    port is in use, or if they do not become ready; Refused if they run elsewhere, or on another port or address than the
    requested one.
    """
    home.make()
    is_joined = Membership.of(home) is not None
    if is_joined and port is not None:
        raise Refused("--port: the Prefect server of a joined host is on another machine; omit it")
    if detach and starting(home) is not None:
        announce("Catchment is already starting")
        if not until(lambda: starting(home) is None, START_SECONDS):
            raise TryAgain("Catchment is still starting; try again in a minute")
    if state := running(home):
        if state.is_elsewhere:
            raise Refused(f"{ELSEWHERE}; stop it there with `catchment down`")
        if not state.stopping:
            if port not in (None, state.port):
                raise Refused(f"port {port}: Catchment runs on port {state.port}; stop it first with `catchment down`")
            if exposure and (exposure.address, exposure.host_at(state.page_port)) != (state.listen, state.host):
                raise Refused("--listen: Catchment runs without it; stop it first with `catchment down`")
            _deploy(home, state, announce)
            announce(f"Catchment is already running: {state.url}")
            return 0
        until(lambda: holder(home) is None, STOP_SECONDS)
    elif holder(home) is None:
        # A supervisor holds the lock for a moment before it writes its identity. Until then `running` would accept the record
        # and the identity of a killed supervisor.
        state_file(home).unlink(missing_ok=True)
    if detach:
        return start_in_background(home, port, exposure, announce)
    end = _StopRequest()
    # Install the handlers before taking the lock: once the lock is visible, another process may signal this one.
    with _signals(end.add), supervisor_lock(home) as is_held:
        if not is_held:
            if holder(home) is None:
                raise TryAgain("a restore is running in this home; start Catchment after it")
            announce("Catchment is already starting")
            return 0
        of_page, moved = listen_for_page(home, exposure)
        with contextlib.ExitStack() as stack:
            listening = None if is_joined else stack.enter_context(listen(home, port))
            for page in of_page:
                stack.enter_context(page)
            if moved:
                announce(moved)
            _Supervisor(home, listening, of_page, exposure, announce, end).supervise()
    return 0


def down(home: Home) -> bool:
    """Stop the system that is running or starting, and wait for its exit. Returns False if none was running.

    Raises Refused if the supervisor runs in another PID namespace, which signals do not reach.
    """
    if not (supervisor := holder(home)):
        return False
    if not is_local(supervisor):
        raise Refused(f"{ELSEWHERE}; stop it there with `catchment down`")
    if not alive(supervisor):
        return True
    state = running(home)
    # The supervisor may exit meanwhile.
    with contextlib.suppress(ProcessLookupError):
        pid = pid_of(supervisor)
        if state is None or not state.stopping:
            # A second signal would mean an urgent stop.
            os.kill(pid, signal.SIGTERM)
        if not _end_of(supervisor):
            # Its children exit with it.
            os.kill(pid, signal.SIGKILL)
            _end_of(supervisor)
    return True


def _end_of(supervisor: str) -> bool:
    """Wait for the exit of a supervisor. Returns False on timeout."""
    return until(lambda: not alive(supervisor), STOP_SECONDS)


class _StopRequest:
    """Counts requests to stop. The second one means: stop at once."""

    def __init__(self) -> None:
        self._requests = 0

    def add(self) -> None:
        """Record a request. Safe in a signal handler."""
        self._requests += 1

    def is_made(self) -> bool:
        return self._requests > 0

    def is_urgent(self) -> bool:
        return self._requests > 1


class _Supervisor:
    def __init__(
        self,
        home: Home,
        listening: socket.socket | None,
        of_page: Sequence[socket.socket],
        exposure: Exposure | None,
        announce: Announce,
        end: _StopRequest,
    ) -> None:
        port = listening.getsockname()[1] if listening else 0
        self._home = home
        self._announce = announce
        self._end = end
        login = auth_string(home)
        environment = child_environment(home, port=port, auth=login)

        def service(
            role: str, *command: str, passed: Sequence[int] = (), environment: Mapping[str, str] = environment
        ) -> Service:
            return Service(role, command, environment, BoundedLog(home.logs / f"{role}.log", announce), passed)

        self._server = (
            service("server", *_SERVER, str(listening.fileno()), passed=[listening.fileno()]) if listening else None
        )
        # The worker imports while the server does, and waits until the other end of this pipe is closed.
        gate, self._gate = os.pipe()
        self._worker = service("worker", *_WORKER, str(gate), passed=[gate])
        self._health = service("health", *_HEALTH)
        of_web = {name: value for name, value in environment.items() if name != "PREFECT_API_AUTH_STRING"}
        page_port = of_page[0].getsockname()[1]
        host = exposure.host_at(page_port) if exposure else ""
        pages = [page.fileno() for page in of_page]
        self._web = service("web", *_WEB, ",".join(map(str, pages)), host, passed=pages, environment=of_web)
        self._health_ended, self._is_healthy = -_HEALTHY_SECONDS, False
        state = Running(port, os.getpid(), datetime.now(UTC), 0, 0, login, page_port=page_port)
        self._state = replace(state, listen=exposure.address if exposure else "", host=host)
        if membership := Membership.of(home):
            self._state = replace(self._state, server=membership.server, authorities=authorities(home))
        self._is_open, self._look_for_server, self._problem = False, 0.0, ""
        self._sweep = Sweep(home)
        self._clock = WallClock()
        self._silence = Silence(self._answers)
        self._web_silence = Silence(lambda: is_live(home))
        self._web_mark = copies_in_memory.mark(home)
        self._orphans = Orphans()

    def supervise(self) -> None:
        for name, problem in unusable_variables().items():
            self._announce(f"{name}: {problem}; not used")
        if self._server and (line := prepare(self._home)):
            self._announce(line)
        try:
            if self._server:
                self._start_server(self._server)
                self._worker.start()
                import deployments.sources.deploy  # noqa: F401 - takes half a second, and the server takes longer

                self._await_service(self._answers, "the Prefect server", self._server)
                note_block_types(self._home)
            while not self._end.is_made() and not self._is_homeless():
                if not self._is_open and time.monotonic() >= self._look_for_server:
                    self._open_or_wait()
                self._forget()
                self._revive()
                self._kill_unresponsive()
                if self._server and (set_by := self._clock.set_by()):
                    self._follow_clock(self._server, set_by)
                self._sweep.run_if_due()
                self._refresh_health()
                self._orphans.reap({service.pid for service in self._services})
                time.sleep(_LOOK_SECONDS)
        finally:
            self._close()

    @property
    def _services(self) -> tuple[Service, ...]:
        return (*([self._server] if self._server else ()), self._worker, self._health, self._web)

    def _is_homeless(self) -> bool:
        """Whether the home was removed or moved, and does not return within seconds."""
        if until(self._home.run.exists, _AWAY_SECONDS):
            return False
        self._announce("the home folder was deleted; stopping")
        return True

    def _open_or_wait(self) -> None:
        """Open the system. A joined host tries again until the server of all hosts accepts it."""
        self._look_for_server = time.monotonic() + _AWAY_AGAIN_SECONDS
        try:
            if not self._server and not self._answers():
                raise TryAgain(f"the Prefect server at {self._state.url} does not respond; the worker waits for it")
            self._open()
        except TryAgain as error:
            if self._server:
                raise
            if str(error) != self._problem:
                self._problem = str(error)
                self._announce(self._problem)
        if not self._is_open and not self._web.pause.started:
            self._open_page()

    def _open(self) -> None:
        """Let the worker begin, which corrects the states of runs before it takes any."""
        ensure_pool(self._state, membership.queues if (membership := Membership.of(self._home)) else ())
        if self._server and (back := follow_clock(self._state)):
            self._announce(f"the clock was set back by at least {back:.0f} s while Catchment was stopped")
        if self._gate:
            os.close(self._gate)
            self._gate = 0
        if not self._worker.process:
            self._worker.start()
        self._await_service(self._is_worker_online, "the worker", self._worker)
        if not self._end.is_made():
            _deploy(self._home, self._state, self._announce)
            self._is_open = True
            self._announce(f"Catchment is running: {self._state.url}")
            if not self._web.pause.started:
                self._open_page()

    def _open_page(self) -> None:
        """Record the system, so that `up` returns, and start the page last: its imports must not slow the others down."""
        self._record()
        self._announce(f"Page: {self._state.page_url}")
        self._web_mark = copies_in_memory.mark(self._home)
        with contextlib.suppress(TryAgain):
            self._web.start()

    def _is_worker_online(self) -> bool:
        # A shared server has the heartbeats of all hosts, by its own clock.
        return worker_online(self._state) if self._server else WorkerStatus.read(self._home) is not None

    def _await_service(self, ready: Callable[[], bool], what: str, service: Service) -> None:
        patience = StartPatience(service.progress)
        while not self._end.is_made() and not ready():
            how = service.died()
            if how or patience.is_over():
                raise TryAgain(f"{what} did not start ({how or 'no response'}); see `catchment logs {service.role}`")
            time.sleep(0.05)

    def _answers(self) -> bool:
        try:
            seconds = _ANSWER_SECONDS if self._server else _ANSWER_ELSEWHERE_SECONDS
            with api(self._state, timeout=seconds) as client:
                return client.get("/health").is_success
        except TryAgain:
            return False

    def _forget(self) -> None:
        """Replace the web process after texts were deleted of which it may have copies."""
        if (mark := copies_in_memory.mark(self._home)) != self._web_mark and self._web.process:
            self._announce("texts were deleted: the page forgets them, and is back in a moment")
            self._web_mark = mark
            self._web.end(grace=_FORGET_SECONDS)
            with contextlib.suppress(TryAgain):
                self._web.start()

    def _revive(self) -> None:
        for child in self._services:
            if child is self._health:
                continue
            if how := child.died():
                self._announce(f"the {child.role} stopped ({how}); restarting in {child.pause.seconds:.0f} s")
            if child.process or not child.pause.started or child.pause.left:
                continue
            try:
                self._restart(child)
            except CatchmentError as error:
                self._announce(str(error))

    def _restart(self, child: Service) -> None:
        if child is self._worker and not self._answers():
            return
        if child is self._server:
            self._start_server(child)
            self._await_service(self._answers, "the Prefect server", child)
        else:
            child.start()
        # If the disk is full, the record keeps the old pids; the processes continue.
        with contextlib.suppress(OSError):
            self._record()

    def _kill_unresponsive(self) -> None:
        """Kill an unresponsive server or web process. It is then restarted, as after a crash."""
        for child, silence in ((self._server, self._silence), (self._web, self._web_silence)):
            if child is None or child.process is None:
                silence.reset()
            elif silence.is_long():
                self._announce(f"the {child.role} is unresponsive; killing it")
                child.process.kill()
                silence.reset()

    def _follow_clock(self, server: Service, seconds: float) -> None:
        """Reschedule the runs after the clock was set by this many seconds (negative: back), which Prefect does not handle."""
        self._announce(f"the clock was set {'forward' if seconds > 0 else 'back'} by {abs(seconds):.0f} s")
        if seconds < 0:
            # The server's internal services sleep until the old time is reached again.
            server.end(grace=4)
            with contextlib.suppress(CatchmentError):
                self._restart(server)
                replan(self._state, -seconds)

    def _start_server(self, server: Service) -> None:
        self._silence.reset()
        # A killed server may have left this lock, with a pid that another process has now. It could never be taken then.
        (self._home.prefect / "concurrency_leases" / "expirations.lock").unlink(missing_ok=True)
        server.start()

    def _refresh_health(self) -> None:
        """Refresh the health page in the UI every five minutes, and every minute while a check fails or an incident is open."""
        if ended := self._health.died():
            self._health_ended, self._is_healthy = time.monotonic(), ended == "exit code 0"
        is_well = self._is_healthy and not self._home.open_incidents.exists()
        interval = _HEALTHY_SECONDS if is_well else _UNHEALTHY_SECONDS
        if self._health.process is None and time.monotonic() >= self._health_ended + interval:
            self._health_ended, self._is_healthy = time.monotonic(), False
            with contextlib.suppress(TryAgain):
                self._health.start()

    def _record(self) -> None:
        self._state = replace(
            self._state, server_pid=self._server.pid if self._server else 0, worker_pid=self._worker.pid
        )
        record(self._home, self._state)

    def _close(self) -> None:
        """Stop the worker, which stops its runs and records that, then the server. Kills processes that do not stop."""
        # If the disk is full, others can wait for the exit without the record.
        with contextlib.suppress(OSError):
            if state_file(self._home).exists():
                self._state = replace(self._state, stopping=True)
                self._record()
        for reader in (self._health, self._web):
            reader.end(grace=0)
        # A server that does not answer (it may be starting) records no states, so the runs need no time for that.
        answers = (self._server is None or self._server.process is not None) and self._answers()
        self._worker.end(grace=_RUNS_END_SECONDS if answers else 4, hurry=self._end.is_urgent)
        if self._server:
            self._server.end(grace=6 if answers else 0)
        state_file(self._home).unlink(missing_ok=True)


def _deploy(home: Home, state: Running, announce: Announce) -> None:
    """Deploy the sources file. If it is invalid, the system runs with the previous deployments."""
    # Imported here: reading the sources file needs heavy modules, once.
    from deployments.sources.deploy import deploy, is_deployed

    try:
        for name, host in deploy(home, state).items():
            announce(f"{name}: moved to host {host}")
        # Every home gets the shipped deployments once; the user may pause them in the UI.
        if new := [name for name in _SHIPPED_NAMES if not is_deployed(state, name, shipped_name(home, name))]:
            deploy(home, state, new, file=_SHIPPED)
    except CatchmentError as error:
        announce(f"sources not deployed: {error}")


@contextlib.contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[None]:
    names = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {name: signal.signal(name, lambda *_: stop()) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
