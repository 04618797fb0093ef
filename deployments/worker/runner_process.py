"""The worker's side of the runner: starts it, sends it runs, and replaces it if it dies, hangs, grows or is out of date."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any
from uuid import UUID

import psutil
from prefect.client.schemas.objects import FlowRun

from catchment.content import copies_in_memory
from catchment.errors import TryAgain
from catchment.runtime.child_process import RestartPause
from catchment.runtime.home import Home
from catchment.runtime.installation import OURS
from catchment.runtime.process import identity
from deployments.runner.messages import (
    Cancel,
    CodeChanged,
    Finished,
    Heartbeat,
    Ready,
    Retire,
    Start,
    ToRunner,
    ToWorker,
)
from deployments.runs.live_runs import Loss, RunEnd
from deployments.server.processes import descendants, kill
from tasks.hints import ChangeHint

_SILENT_SECONDS = 60.0
"""Time without a heartbeat after which a runner counts as hanging."""
_MOST_MEMORY = 2_000_000_000
"""Bytes of resident memory at which the runner is restarted. The parsers have separate limits."""
_IDLE_SECONDS = 300.0
"""Time without a run after which the runner of another package ends: it takes 120 MB."""
_ABANDONED_SECONDS = 10.0
"""Time for a thread of a stopped run to return, in the runner of another package. Then its other runs are interrupted."""


class RunnerProcess:
    """The runner of a package, one process at a time. Call its methods on the worker's event loop.

    Ours lives always. That of another package ends when it is idle for some minutes, and the next run starts it.
    """

    def __init__(self, warn: Callable[[str], None], package: str = OURS) -> None:
        self._warn = warn
        self._package = package
        self._current: _Process | None = None
        self._starting = asyncio.Lock()
        self._pause = RestartPause()
        self._problem = ""
        self._closed = False

    @property
    def identity(self) -> str | None:
        """The process identity of the running runner."""
        return self._current.identity if self._current and not self._current.is_gone else None

    @property
    def problem(self) -> str:
        """Why the runner is restarted ever more slowly; empty if it is not."""
        return self._problem if self._pause.is_growing else ""

    @property
    def busy_parsers(self) -> int:
        """Number of parser processes that work, as the running runner last reported."""
        return self._current.heartbeat.busy_parsers if self._current and not self._current.is_gone else 0

    async def prepare(self) -> None:
        """Start the runner unless it is running, and wait until it has imported everything. Idempotent.

        A runner that exits again and again is started after a growing pause.
        """
        async with self._starting:
            while (current := self._current) is None or current.is_gone or current.must_be_replaced():
                await asyncio.sleep(self._pause.left)
                if self._closed:
                    raise TryAgain("the worker is stopping; another worker takes the run")
                if current is not None:
                    current.retire()
                self._pause.begin()
                try:
                    self._current = _Process(self._package, self._warn, self._lost)
                except OSError as error:
                    self._put_off(_of(self._package, f"could not be started ({error.strerror})"))
        await asyncio.shield(current.ready)

    async def start(self, run: FlowRun, entrypoint: str, changed: ChangeHint | None) -> asyncio.Future[RunEnd]:
        """Send a run to the runner, once there is one. The future is its end. Raises TryAgain if the worker is stopping."""
        while True:
            await self.prepare()
            if self._current is not None and not self._current.is_gone:
                return self._current.start(run, entrypoint, changed)

    def cancel(self, run: UUID) -> None:
        """Stop a run. It ends within 10 s, or its thread is abandoned."""
        if self._current is not None:
            self._current.send(Cancel(run))

    async def supervise(self) -> None:
        """Kill a runner that hangs or grows too large, and replace an idle one that is out of date. Runs until cancelled."""
        while True:
            await asyncio.sleep(2)
            if (current := self._current) is None or self._closed:
                continue
            current.judge()
            if not (current.is_gone or current.must_be_replaced()):
                continue
            if self._package == OURS:
                with contextlib.suppress(TryAgain):
                    await self.prepare()
            else:
                self._current = None
                current.retire()

    async def close(self) -> None:
        """Kill the runner and all its descendants."""
        self._closed = True
        if self._current is not None:
            await asyncio.to_thread(self._current.kill, "the worker stopped")

    def _lost(self, process: _Process, how: str) -> None:
        if process is self._current and not self._closed:
            self._put_off(how)

    def _put_off(self, how: str) -> None:
        pause = self._pause.died()
        self._problem = f"the runner {how}"
        self._warn(f"The runner {how}; restarting in {pause:.0f} s")


class _Process:
    """One runner process and its messages."""

    def __init__(self, package: str, warn: Callable[[str], None], lost: Callable[[_Process, str], None]) -> None:
        self._package = package
        self._warn = warn
        self._report_loss = lost
        self._loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[None] = self._loop.create_future()
        self.is_gone = False
        self.heartbeat = Heartbeat({}, 0)
        self._mark = copies_in_memory.mark(Home.default())
        self._heard = self._used = time.monotonic()
        self._abandoned_since = math.inf
        self._is_stale = False
        self._is_reported = False
        self._cause = ""
        self._is_explained = False
        self._runs: dict[UUID, asyncio.Future[RunEnd]] = {}
        own_end, runner_end = socket.socketpair()
        with runner_end:
            # In the worker's process group, so that killing the group of a dead worker kills the runner, too.
            self._popen = subprocess.Popen(
                [sys.executable, "-P", "-m", "deployments.runner", str(runner_end.fileno()), package],
                pass_fds=[runner_end.fileno()],
                stdin=subprocess.DEVNULL,
                env=_environment(),
            )
        self._link = Connection(own_end.detach())
        self.identity = ""
        with contextlib.suppress(ProcessLookupError):  # it exited already, which the thread below reports
            self.identity = identity(self._popen.pid)
        threading.Thread(target=self._receive, name="from runner", daemon=True).start()

    def send(self, message: ToRunner) -> None:
        # The receiving thread notices the exit of a dead runner.
        with contextlib.suppress(OSError):
            self._link.send(message)

    def start(self, run: FlowRun, entrypoint: str, changed: ChangeHint | None) -> asyncio.Future[RunEnd]:
        self._runs[run.id] = finished = self._loop.create_future()
        self.send(Start(run, entrypoint, changed))
        return finished

    def must_be_replaced(self) -> bool:
        """Whether the runner is idle, and its code changed, it has threads that never return, or texts were deleted.

        That of another package also after some minutes.
        """
        is_outdated = self._is_stale or self._mark != copies_in_memory.mark(Home.default())
        is_unused = self._package != OURS and time.monotonic() - self._used > _IDLE_SECONDS
        return not self._runs and (is_outdated or is_unused or self.heartbeat.abandoned_threads > 0)

    def retire(self) -> None:
        """End the idle process. That of another package is killed, because a thread may keep it from exiting."""
        if self._package == OURS:
            self.send(Retire())
        elif not self.is_gone:
            self.kill("was not needed")

    def judge(self) -> None:
        """Kill the process if its event loop hangs, it takes too much memory, or a package leaves threads behind."""
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(self._popen.pid)
            is_silent = self.ready.done() and time.monotonic() - self._heard > _SILENT_SECONDS
            if process.status() == psutil.STATUS_DISK_SLEEP:
                # A kill takes effect only when the disk responds.
                if is_silent and not self._is_reported:
                    self._is_reported = True
                    self._warn("The runner waits for an unresponsive disk; runs continue when it responds")
            elif is_silent:
                self.kill(f"reported nothing for {_SILENT_SECONDS:.0f} s")
            elif (memory := process.memory_info().rss) > _MOST_MEMORY:
                self.kill(f"used {memory / 1e6:.0f} MB of {_MOST_MEMORY / 1e6:.0f} MB allowed")
            elif self._package != OURS and self._heard - self._abandoned_since > _ABANDONED_SECONDS:
                self._is_explained = True
                self.kill("had a stopped run that never returns")

    def kill(self, cause: str) -> None:
        """Kill the runner and all its descendants. Returns after their exit."""
        self._cause = cause
        below = descendants(self._popen.pid)
        self._popen.kill()
        kill(below)
        self._popen.wait()

    def _receive(self) -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                self._loop.call_soon_threadsafe(self._handle, self._link.recv())
        code = self._popen.wait()
        with contextlib.suppress(RuntimeError):  # the worker's loop is closed already
            self._loop.call_soon_threadsafe(self._lost, code)

    def _handle(self, message: ToWorker) -> None:
        self._heard = time.monotonic()
        match message:
            case Ready(failed):
                if failed:
                    self._warn(f"Modules that could not be imported before the first run: {', '.join(failed)}")
                _resolve(self.ready, None)
            case Finished(run, problem):
                self._used = self._heard
                if (waiting := self._runs.pop(run, None)) is not None:
                    _resolve(waiting, problem)
            case Heartbeat():
                self.heartbeat = message
                since = min(self._abandoned_since, self._heard)
                self._abandoned_since = since if message.abandoned_threads else math.inf
            case CodeChanged():
                self._is_stale = True

    def _lost(self, code: int) -> None:
        self.is_gone = True
        self._link.close()
        how = _of(self._package, self._cause or _in_words(code))
        self._report_loss(self, how)
        _resolve(self.ready, None)
        loss = Loss(self.identity, how, tuple(self._runs), self.heartbeat.steps, self._is_explained)
        for waiting in self._runs.values():
            _resolve(waiting, loss)
        self._runs.clear()


def _environment() -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT__")}
    # The worker has checked the version. With this check, a runner cannot start while the server does not respond.
    return own | {"PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED": "false"}


def _of(package: str, how: str) -> str:
    """Complete "the runner …"."""
    return how if package == OURS else f"of {package} {how}"


def _in_words(code: int) -> str:
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"was killed by {signal.Signals(-code).name}"
        return f"was killed by signal {-code}"
    return f"exited with code {code}"


def _resolve(future: asyncio.Future[Any], value: object) -> None:
    if not future.done():
        future.set_result(value)
