"""What a run uses: CPU, memory and I/O of its processes, told in its log and shown as a table beside it.

While it lives, a run that takes long is made to yield to the rest of the machine, and one that takes more memory than it may,
or gets nowhere for longer than it may, is ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import psutil
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import ArtifactCreate
from prefect.client.schemas.objects import FlowRun
from prefect.logging.loggers import PrefectLogAdapter

from catchment.runtime.heartbeat import is_overdue
from deployments.warm.link import Ended
from deployments.warm.yielding import give_way

_SAMPLE_SECONDS = 2.0
_BULK_SECONDS = 5.0
"""A run that takes longer is bulk work: from then on it yields to everything else on the machine."""
_LOOKS = 2
"""Looks in a row that must find too much memory: a parser is without a limit of its own for a moment when it fails."""


@dataclass(slots=True)
class Watched:
    """One run's processes while they live. `allowed` and `memory` are in bytes; `waited` is seconds from due to begun."""

    process: psutil.Process | None
    allowed: int | None = None
    waited: float = 0.0
    pulse: Path | None = None
    since: float = field(default_factory=time.monotonic)
    took: float = 0.0
    memory: int = 0
    """The most that all of them held together."""
    excess: str = ""
    """What is to be told of a run that took more memory than it may, or is stuck."""
    bulk: bool = False
    _looks: int = 0
    _yielding: set[int] = field(default_factory=set)

    def sample(self) -> None:
        """Look once at all processes of the run, and judge it; those that end meanwhile are left out."""
        if self.process is None:
            return
        with contextlib.suppress(psutil.Error):
            family = [self.process, *self.process.children(recursive=True)]
            held = [(process, _held(process)) for process in family]
            self.memory = max(self.memory, sum(memory for _, memory in held))
            self._judge(sum(memory for process, memory in held if not _limits_itself(process)))
            self.bulk = self.bulk or time.monotonic() - self.since > _BULK_SECONDS
            if self.bulk:
                self._yield(family)
        if self.pulse is not None and not self.excess and is_overdue(self.pulse):
            self.excess = "was stuck: it got nowhere for longer than it may, and was ended; the next sync goes on"

    def _yield(self, family: list[psutil.Process]) -> None:
        """Have all processes give way; later ones too, for in a session of their own they would inherit it in part only."""
        for process in family:
            if process.pid not in self._yielding and give_way(process, writes_ledger=process is self.process):
                self._yielding.add(process.pid)

    def _judge(self, memory: int) -> None:
        self._looks = self._looks + 1 if self.allowed is not None and memory > self.allowed else 0
        if self._looks >= _LOOKS and self.allowed is not None:
            self.excess = (
                f"used {_megabytes(memory)} of {_megabytes(self.allowed)} allowed; "
                "raise resources.memory_mb of the source if it needs more"
            )

    async def report(self, run: FlowRun, ended: Ended, client: PrefectClient, logger: PrefectLogAdapter) -> None:
        """Tell the figures in the run's log, and keep them as a table among the run's artifacts."""
        took = max(self.took, 0.001)
        figures = {
            "waited": f"{self.waited:.2f} s",
            "took": f"{took:.2f} s",
            "CPU": f"{ended.cpu:.2f} s",
            "cores": f"{ended.cpu / took:.2f}",
            "peak memory": _megabytes(self.memory or ended.memory),
            "memory allowed": "any" if self.allowed is None else _megabytes(self.allowed),
            "read from disk": _megabytes(ended.read),
            "written to disk": _megabytes(ended.written),
        }
        logger.info("The run used: %s", ", ".join(f"{name} {value}" for name, value in figures.items()))
        table = ArtifactCreate(
            type="table",
            description="What the processes of this run used",
            data=orjson.dumps([{"what": name, "figure": value} for name, value in figures.items()]).decode(),
            flow_run_id=run.id,
        )
        await client.create_artifact(table)


class Watch:
    """Looks at the processes of all runs now and then; costs nothing while none runs."""

    def __init__(self, on_bulk: Callable[[], None]) -> None:
        self._on_bulk = on_bulk
        self._watched: dict[int, tuple[Watched, Callable[[], None]]] = {}
        self._any = asyncio.Event()

    async def keep(self) -> None:
        """Look every two seconds, for ever; say when a run has become bulk work, end one that takes too much or is stuck."""
        while True:
            await self._any.wait()
            await asyncio.sleep(_SAMPLE_SECONDS)
            for watched, kill in list(self._watched.values()):
                bulk_before = watched.bulk
                watched.sample()
                if watched.bulk and not bulk_before:
                    self._on_bulk()
                if watched.excess:
                    kill()

    def bulk(self) -> int:
        """How many of the runs are bulk work by now."""
        return sum(watched.bulk for watched, _ in self._watched.values())

    @contextlib.contextmanager
    def over(
        self, pid: int, kill: Callable[[], None], *, pulse: Path, allowed_mb: int | None, waited: float
    ) -> Iterator[Watched]:
        """Watch a run's process and all below it; one that has ended already is only reported."""
        allowed = None if allowed_mb is None else allowed_mb * 1_000_000
        watched = Watched(_process(pid), allowed, waited, pulse)
        self._watched[pid] = watched, kill
        self._any.set()
        try:
            yield watched
        finally:
            watched.took = time.monotonic() - watched.since
            del self._watched[pid]
            if not self._watched:
                self._any.clear()


def _process(pid: int) -> psutil.Process | None:
    try:
        return psutil.Process(pid)
    except psutil.NoSuchProcess:
        return None


def _held(process: psutil.Process) -> int:
    """The memory that a process has for itself, where the system tells: what forks share is counted in parts."""
    with contextlib.suppress(psutil.Error):
        memory = process.memory_full_info()
        return int(getattr(memory, "pss", memory.uss))
    return 0


def _limits_itself(process: psutil.Process) -> bool:
    """Whether a process has a limit of its own, as a parser has for each item."""
    if not hasattr(process, "rlimit"):
        return False
    with contextlib.suppress(psutil.Error):
        return bool(process.rlimit(psutil.RLIMIT_DATA)[0] != psutil.Process().rlimit(psutil.RLIMIT_DATA)[0])
    return False


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB"
