"""A process that is kept running: started, followed by its log, ended as a group, and started again when it dies."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
from dataclasses import dataclass

from deployments.logs import BoundedLog
from deployments.processes import end

_LONGEST_BACKOFF = 30.0


@dataclass(slots=True)
class Service:
    """A process that is started again when it dies, later each time it dies soon."""

    role: str
    log: BoundedLog
    environment: dict[str, str]
    sockets: tuple[socket.socket, ...] = ()
    process: subprocess.Popen[bytes] | None = None
    begun: float = 0.0
    delay: float = 0.0
    due: float = 0.0

    def start(self) -> None:
        descriptors = [one.fileno() for one in self.sockets]
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "deployments.child", self.role, *map(str, descriptors)],
            env=self.environment,
            cwd=self.environment["PREFECT_HOME"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=descriptors,
        )
        self.begun = time.monotonic()
        self.log.follow(self.process)

    def let_go(self) -> None:
        """Tell the child that what it waits for is there."""
        if self.process and self.process.stdin:
            # A child that died meanwhile is found by its exit.
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.write(b"go\n")
                self.process.stdin.close()

    @property
    def pid(self) -> int:
        return self.process.pid if self.process else 0

    def died(self) -> str | None:
        """How the child ended, the first time this is asked after its end; its descendants are ended too."""
        if self.process is None or (code := self.process.poll()) is None:
            return None
        end(self.process, grace=0)
        self.process = None
        lived = time.monotonic() - self.begun
        self.delay = 1.0 if lived > 60 else min(max(2 * self.delay, 1.0), _LONGEST_BACKOFF)
        self.due = time.monotonic() + self.delay
        return f"killed by signal {-code}" if code < 0 else f"exit code {code}"

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
