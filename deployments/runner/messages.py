"""The messages between a worker and its runner, pickled over one `multiprocessing.connection.Connection`.

A closed connection means that the other process has exited.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from prefect.client.schemas.objects import FlowRun

from tasks.hints import ChangeHint


@dataclass(frozen=True, slots=True)
class Start:
    """Worker to runner: execute a flow run. `entrypoint` is `module.function`.

    `changed`: the only paths that the run's sync has to compare; None: it compares everything.
    """

    run: FlowRun
    entrypoint: str
    changed: ChangeHint | None = None


@dataclass(frozen=True, slots=True)
class Cancel:
    """Worker to runner: stop a flow run. Unknown and finished runs are ignored."""

    run: UUID


@dataclass(frozen=True, slots=True)
class Retire:
    """Worker to runner: exit after the last run."""


@dataclass(frozen=True, slots=True)
class Ready:
    """Runner to worker: everything is imported, except the `failed` modules."""

    failed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Finished:
    """Runner to worker: a flow run has ended. `problem` is empty if the flow set its own final state."""

    run: UUID
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Runner to worker, every second from the runs' event loop.

    `steps`: the current step of the sync of each run; empty between steps. A run that is not a sync is missing.
    `abandoned_threads`: how many threads never returned. `busy_parsers`: how many parser processes work.
    """

    steps: Mapping[UUID, str]
    abandoned_threads: int
    busy_parsers: int = 0


@dataclass(frozen=True, slots=True)
class CodeChanged:
    """Runner to worker: a source file differs from the imported one; restart the runner when it is idle."""


ToRunner = Start | Cancel | Retire
ToWorker = Ready | Finished | Heartbeat | CodeChanged
