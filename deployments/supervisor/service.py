"""A child process of `up`: its log, its stop with all descendants, and its restart with a growing delay."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import psutil

from catchment.errors import TryAgain
from catchment.runtime.child_process import PARENT_VARIABLE, RestartPause
from deployments.server.logs import BoundedLog
from deployments.server.processes import end

START_SECONDS = 900.0
"""Time limit for the imports and the first answer of a child that makes progress."""
_IDLE_SECONDS = 120.0
"""Time limit of a child without progress."""
_BUSY_SECONDS = 1.0
"""Processor time that counts as progress. A process that waits for something uses less in its time limit."""


class StartPatience:
    """How long to wait for a child that starts: as long as it makes progress, up to a limit.

    `progress`: returns its processor time and the number of its log lines; `clock`: returns monotonic seconds.
    """

    def __init__(self, progress: Callable[[], tuple[float, int]], clock: Callable[[], float] = time.monotonic) -> None:
        self._progress, self._clock = progress, clock
        self._seconds, self._lines = progress()
        self._begun = self._moved = clock()

    def is_over(self) -> bool:
        """Whether the child made no progress for two minutes, or did not start within a quarter of an hour."""
        now, (seconds, lines) = self._clock(), self._progress()
        if seconds >= self._seconds + _BUSY_SECONDS or lines > self._lines:
            self._seconds, self._lines, self._moved = seconds, lines, now
        return now - self._moved > _IDLE_SECONDS or now - self._begun > START_SECONDS


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

    def progress(self) -> tuple[float, int]:
        """Return the seconds of processor time that the child has used, and the number of lines in its log."""
        if self.process is None:
            return 0.0, self.log.lines
        try:
            times = psutil.Process(self.process.pid).cpu_times()
        except psutil.Error:
            return 0.0, self.log.lines
        return times.user + times.system, self.log.lines

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
