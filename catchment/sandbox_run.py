"""What one run and one worker are to the sandbox's keeper, and the verdicts on tasks that gave no result."""

from __future__ import annotations

import os
import queue
import signal
import socket
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from catchment.errors import CatchmentError, ProcessKilled, ResourceExhausted, TimedOut
from catchment.sandbox_worker import held_bytes
from catchment.settings import Limits

_UNREAD_BYTES = 32 << 20
"""With this much waiting to be taken by a slow caller, its run gets no new tasks."""


@dataclass(frozen=True)
class Failed:
    """A task that gave no result: why, and where it was raised (modules, lines and functions; no values)."""

    error: CatchmentError
    traceback: str


Outcome = tuple[int, bytes | Failed, bool]
"""The index of a task; its pickled result or (error, traceback), or the failure itself; whether it is a result."""


@dataclass(eq=False, slots=True)
class Run:
    """One call of `Sandbox.run`: what is still to be handed out, and where its outcomes go."""

    function: bytes
    tasks: Sequence[Any]
    limits: Limits
    waiting: deque[int] = field(init=False)
    outbox: queue.SimpleQueue[list[Outcome] | CatchmentError] = field(default_factory=queue.SimpleQueue)
    fresh: list[Outcome] = field(default_factory=list)
    pace: float = 0.002
    """Seconds that a task of this run took, lately."""
    made_bytes: int = 0
    taken_bytes: int = 0
    open: int = field(init=False)
    cancelled: bool = False

    def __post_init__(self) -> None:
        self.open = len(self.tasks)
        self.waiting = deque(range(self.open))

    def has_room(self) -> bool:
        return self.made_bytes - self.taken_bytes <= _UNREAD_BYTES

    def put(self, index: int, outcome: bytes | Failed, *, ok: bool = False) -> None:
        if not self.cancelled:
            self.open -= 1
            self.made_bytes += len(outcome) if isinstance(outcome, bytes) else 0
            self.fresh.append((index, outcome, ok))

    def flush(self) -> None:
        if self.fresh:
            self.outbox.put(self.fresh)
            self.fresh = []


@dataclass(eq=False, slots=True)
class Worker:
    """A worker as the keeper knows it. `queue` is what it was given and has not answered: it is at the first."""

    number: int
    connection: socket.socket
    queue: deque[tuple[Run, int]] = field(default_factory=deque)
    inbox: bytearray = field(default_factory=bytearray)
    unsent: bytearray = field(default_factory=bytearray)
    pid: int = 0
    held: int = 0
    began: float = 0.0
    moved: float = 0.0
    usable: bool = True
    leaving: bool = False
    condemned: tuple[Run, int] | None = None
    verdict: CatchmentError = field(default_factory=ProcessKilled)

    def touch(self) -> None:
        self.began = self.moved = time.monotonic()

    def growth(self) -> int:
        """Bytes of memory that it holds now more than at first."""
        return held_bytes(self.pid) - self.held


def timed_out(limit: str, seconds: float) -> TimedOut:
    return TimedOut(f"it was not done within {seconds:g} s; raise limits.{limit} if the file only needs longer")


def too_big(limits: Limits) -> ResourceExhausted:
    return ResourceExhausted(
        f"it needs more than {limits.memory_mb} MB of memory; raise limits.memory_mb if the file is worth it"
    )


def death(status: int | None, limits: Limits, *, out_of_memory: bool) -> CatchmentError:
    if out_of_memory:
        return too_big(limits)
    if status is None:
        how = "was lost together with the one that started it"
    elif os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        how = f"was ended by {name}" + (" (the kernel does that when memory runs out)" if name == "SIGKILL" else "")
    else:
        how = f"ended by itself with status {os.waitstatus_to_exitcode(status)}"
    return ProcessKilled(f"its parser process {how}; if it happens again, leave the file out")
