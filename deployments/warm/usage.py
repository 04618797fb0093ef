"""What a run used: CPU, memory and I/O of its processes, told in its log and shown as a table beside it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import orjson
import psutil
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import ArtifactCreate
from prefect.client.schemas.objects import FlowRun
from prefect.logging.loggers import PrefectLogAdapter

from deployments.warm.link import Ended

_SAMPLE_SECONDS = 2.0
_BULK_SECONDS = 10.0
"""A run that takes longer is bulk work: from then on it yields to everything else on the machine."""
_BULK_NICENESS = 5


@dataclass(slots=True)
class Watched:
    """One run's processes while they live: the most memory they held together."""

    process: psutil.Process | None
    since: float = field(default_factory=time.monotonic)
    memory: int = 0
    bulk: bool = False

    def sample(self) -> None:
        """Look once at all processes of the run; those that end meanwhile are left out."""
        if self.process is None:
            return
        with contextlib.suppress(psutil.Error):
            family = [self.process, *self.process.children(recursive=True)]
            self.memory = max(self.memory, sum(_resident(process) for process in family))
            if not self.bulk and time.monotonic() - self.since > _BULK_SECONDS:
                self.bulk = True
                _demote(family)

    async def report(self, run: FlowRun, ended: Ended, client: PrefectClient, logger: PrefectLogAdapter) -> None:
        """Tell the figures in the run's log, and keep them as a table among the run's artifacts."""
        figures = {
            "CPU": f"{ended.cpu:.2f} s",
            "peak memory": _megabytes(max(self.memory, ended.memory)),
            "read from disk": _megabytes(ended.read),
            "written to disk": _megabytes(ended.written),
        }
        logger.info("The run used: %s", ", ".join(f"{name} {value}" for name, value in figures.items()))
        table = ArtifactCreate(
            type="table",
            description="What the processes of this run used",
            data=orjson.dumps([figures]).decode(),
            flow_run_id=run.id,
        )
        await client.create_artifact(table)


class Watch:
    """Looks at the processes of all runs now and then; costs nothing while none runs."""

    def __init__(self) -> None:
        self._watched: set[int] = set()
        self._by_pid: dict[int, Watched] = {}
        self._any = asyncio.Event()

    async def keep(self) -> None:
        """Look every two seconds, for ever."""
        while True:
            await self._any.wait()
            await asyncio.sleep(_SAMPLE_SECONDS)
            for watched in list(self._by_pid.values()):
                watched.sample()

    @contextlib.contextmanager
    def over(self, pid: int) -> Iterator[Watched]:
        """Watch a run's process and all below it; one that has ended already is only reported."""
        watched = self._by_pid[pid] = Watched(_process(pid))
        self._any.set()
        try:
            yield watched
        finally:
            del self._by_pid[pid]
            if not self._by_pid:
                self._any.clear()


def _process(pid: int) -> psutil.Process | None:
    try:
        return psutil.Process(pid)
    except psutil.NoSuchProcess:
        return None


def _resident(process: psutil.Process) -> int:
    with contextlib.suppress(psutil.Error):
        resident: int = process.memory_info().rss
        return resident
    return 0


def _demote(family: list[psutil.Process]) -> None:
    """Lower priority for the processor, and the disk only when nobody else wants it."""
    for process in family:
        with contextlib.suppress(psutil.Error, OSError):
            process.nice(_BULK_NICENESS)
            for thread in process.threads():
                os.setpriority(os.PRIO_PROCESS, thread.id, _BULK_NICENESS)
            if hasattr(process, "ionice"):
                process.ionice(psutil.IOPRIO_CLASS_IDLE)


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB"
