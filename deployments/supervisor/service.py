"""What `up` keeps running: forks of one zygote, followed by their logs, ended as groups, and started again when they die."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import psutil

from catchment.errors import TryAgain
from deployments.server.environment import with_room_for_a_run
from deployments.server.logs import BoundedLog
from deployments.supervisor.processes import end

_LONGEST_BACKOFF = 30.0
READY_SECONDS = 120.0
"""How long imports, and the first answers of what was started, are waited for."""
_END_SECONDS = 30.0


@dataclass(slots=True, eq=False)
class Fork:
    """A process that the zygote forked; to be used as a `subprocess.Popen` is."""

    pid: int
    _zygote: Zygote
    _process: psutil.Process | None
    returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, or minus the signal; None while it lives."""
        self._zygote.hear(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end. Raises subprocess.TimeoutExpired."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.returncode is None:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left < 0:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            self._zygote.hear(left)
        return self.returncode

    def terminate(self) -> None:
        """Ask it to end."""
        if self._process:
            with contextlib.suppress(psutil.NoSuchProcess):
                self._process.terminate()

    def kill(self) -> None:
        """Kill it at once."""
        if self._process:
            with contextlib.suppress(psutil.NoSuchProcess):
                self._process.kill()


class Zygote:
    """The process that services are forked from, seen by the one that starts it; a new one when it died."""

    def __init__(
        self, environment: Mapping[str, str], listening: socket.socket, logs: Mapping[str, BoundedLog]
    ) -> None:
        self._environment = with_room_for_a_run(environment)
        self._listening = listening.fileno()
        self._logs = logs
        self._process: subprocess.Popen[bytes] | None = None
        self._link: socket.socket | None = None
        self._received = b""
        self._ready = False
        self._started: dict[str, Fork | None] = {}
        self._forks: dict[int, Fork] = {}

    def begin(self) -> None:
        """Start it, unless it lives; it is ready some seconds later."""
        if self.died() is None and self._process is not None:
            return
        self._link, theirs = socket.socketpair()
        pipes = {role: os.pipe() for role in self._logs}
        with theirs:
            passed = [theirs.fileno(), self._listening, *(writing for _, writing in pipes.values())]
            self._process = subprocess.Popen(
                [
                    *(
                        sys.executable,
                        "-P",
                        "-m",
                        "deployments.supervisor.zygote",
                        str(theirs.fileno()),
                        str(self._listening),
                    ),
                    *(f"{role}={writing}" for role, (_, writing) in pipes.items()),
                ],
                env=self._environment,
                cwd=self._environment["PREFECT_HOME"],
                stdin=subprocess.DEVNULL,
                # What keeps it from starting keeps the server from it.
                stdout=pipes["server"][1],
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=passed,
            )
        for role, (reading, writing) in pipes.items():
            os.close(writing)
            self._logs[role].follow(os.fdopen(reading, "rb"))

    def ready(self) -> bool:
        """Whether it can fork."""
        self.hear(0)
        return self._ready

    def died(self) -> str | None:
        """How it ended; None while it lives."""
        self.hear(0)
        return None if self._process is None or self._link else _in_words(self._process.wait())

    def fork(self, role: str) -> Fork:
        """Start a service. Raises TryAgain when there is no process for it, it takes too long, or the zygote died of it."""
        self.begin()
        deadline = time.monotonic() + READY_SECONDS
        self._hear_until(lambda: self._ready, deadline)
        self._started.pop(role, None)
        if self._link:
            with contextlib.suppress(OSError):
                self._link.sendall(f"{role}\n".encode())
        self._hear_until(lambda: role in self._started, deadline)
        if fork := self._started.get(role):
            return fork
        why = self.died() or ("no process can be started" if role in self._started else "no answer")
        raise TryAgain(f"the {role} could not be started ({why}); it is tried again")

    def hear(self, seconds: float | None) -> None:
        """Take what it says, waiting for so long (None: without end) for a word."""
        if self._link is None or not select.select([self._link], [], [], seconds)[0]:
            return
        received = b""
        with contextlib.suppress(ConnectionError):
            received = self._link.recv(4096)
        if not received:
            self._gone()
            return
        *lines, self._received = (self._received + received).split(b"\n")
        for line in lines:
            self._take(line.decode().split())

    def end(self) -> None:
        """End it, and with it whatever it forked and is left."""
        if self._link:
            self._link.shutdown(socket.SHUT_RDWR)
            self._gone()

    def _hear_until(self, told: Callable[[], bool], deadline: float) -> None:
        while self._link and not told() and time.monotonic() < deadline:
            self.hear(1)

    def _take(self, words: list[str]) -> None:
        if words[0] == "ready":
            self._ready = True
        elif words[0] == "started":
            self._started[words[1]] = self._forks[int(words[2])] = Fork(int(words[2]), self, _process(int(words[2])))
        elif words[0] == "refused":
            self._started[words[1]] = None
        else:
            self._forks.pop(int(words[1])).returncode = int(words[2])

    def _gone(self) -> None:
        """It ended, and by the system's promise what it forked did too."""
        assert self._link
        assert self._process
        self._link.close()
        self._link, self._ready, self._received = None, False, b""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)
        for fork in self._forks.values():
            fork.kill()
            fork.returncode = -signal.SIGKILL
        self._forks.clear()


@dataclass(slots=True)
class Service:
    """A process that is started again when it dies, later each time it dies soon."""

    role: str
    zygote: Zygote
    process: Fork | None = None
    begun: float = 0.0
    delay: float = 0.0
    due: float = 0.0

    def start(self) -> None:
        """Start it. Raises TryAgain when it cannot be started."""
        self.begun = time.monotonic()
        try:
            self.process = self.zygote.fork(self.role)
        except TryAgain:
            self._put_off()
            raise

    @property
    def pid(self) -> int:
        return self.process.pid if self.process else 0

    def died(self) -> str | None:
        """How the child ended, the first time this is asked after its end; its descendants are ended too."""
        if self.process is None or (code := self.process.poll()) is None:
            return None
        end(self.process, grace=0)
        self.process = None
        self._put_off()
        return _in_words(code)

    def finish(self, patience: float) -> None:
        """Let the child come to its own end for so many seconds, then end it."""
        if self.process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(patience)
            self.end(grace=0)

    def end(self, grace: float) -> None:
        if self.process:
            end(self.process, grace=grace)
            self.process = None

    def _put_off(self) -> None:
        lived = time.monotonic() - self.begun
        self.delay = 1.0 if lived > 60 else min(max(2 * self.delay, 1.0), _LONGEST_BACKOFF)
        self.due = time.monotonic() + self.delay


def _in_words(code: int) -> str:
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"


def _process(pid: int) -> psutil.Process | None:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid)
    return None
