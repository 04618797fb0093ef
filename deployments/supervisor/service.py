"""A child process of `up`: its log, its stop with all descendants, and its restart with a growing delay."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from catchment.errors import TryAgain
from catchment.runtime.child_process import PARENT_VARIABLE, RestartPause
from deployments.server.logs import BoundedLog
from deployments.supervisor.processes import end


@dataclass(slots=True)
class Service:
    """A child process. `command` are the arguments of Python; the child inherits the descriptors `passed`."""

    role: str
    command: Sequence[str]
    environment: Mapping[str, str]
    log: BoundedLog
    passed: Sequence[int] = ()
    process: subprocess.Popen[bytes] | None = None
    pause: RestartPause = field(default_factory=RestartPause)

    def start(self) -> None:
        """Start the child. Raises TryAgain if the system cannot start a process; it is tried again after `pause`."""
        self.pause.begin()
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-P", *self.command],
                env={**self.environment, PARENT_VARIABLE: str(os.getpid())},
                cwd=self.environment["PREFECT_HOME"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=self.passed,
                umask=0o077,
            )
        except OSError as error:
            self.pause.died()
            raise TryAgain(f"the {self.role} could not be started ({error.strerror}); trying again") from error
        assert self.process.stdout
        self.log.follow(self.process.stdout)

    @property
    def pid(self) -> int:
        return self.process.pid if self.process else 0

    def died(self) -> str | None:
        """Return how the child exited, once after its exit; None otherwise. Also kills its descendants."""
        if self.process is None or (code := self.process.poll()) is None:
            return None
        end(self.process, grace=0)
        self.process = None
        self.pause.died()
        return f"killed by signal {-code}" if code < 0 else f"exit code {code}"

    def end(self, grace: float, hurry: Callable[[], bool] = lambda: False) -> None:
        """Stop the child. Kills it and its descendants after `grace` seconds or on `hurry`. Idempotent."""
        if self.process:
            end(self.process, grace=grace, hurry=hurry)
            self.process = None
