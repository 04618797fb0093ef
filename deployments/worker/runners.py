"""The runners of a worker, and which of them executes a run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any
from uuid import UUID

from prefect.client.schemas.objects import FlowRun

from catchment.runtime.installation import OURS
from connectors import package_of
from deployments.runs.live_runs import RunEnd
from deployments.worker.runner_process import RunnerProcess
from tasks.hints import ChangeHint


class Runners:
    """Our runner, and one for each other package from the first run of one of its kinds of source.

    So a package that blocks, fills or ends its process stops only its own syncs. `duty` executes a coroutine until the worker
    stops. Call its methods on the worker's event loop, except `identities`.
    """

    def __init__(self, warn: Callable[[str], None], duty: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        self._warn = warn
        self._duty = duty
        self._by_package: dict[str, RunnerProcess] = {}

    @property
    def identities(self) -> dict[str, str]:
        """The process identities of the running runners, by package. Thread-safe."""
        return {package: each.identity for package, each in list(self._by_package.items()) if each.identity}

    @property
    def problem(self) -> str:
        """Why runners are restarted ever more slowly; empty if none is."""
        return " and ".join(each.problem for each in self._by_package.values() if each.problem)

    @property
    def busy_parsers(self) -> int:
        """Number of parser processes that work, as the runners last reported."""
        return sum(each.busy_parsers for each in self._by_package.values())

    async def prepare(self) -> None:
        """Start our runner, and wait until it has imported everything. Idempotent."""
        await self._of(OURS).prepare()

    async def start(self, run: FlowRun, entrypoint: str, changed: ChangeHint | None) -> asyncio.Future[RunEnd]:
        """Send a run to its runner, as `RunnerProcess.start`."""
        return await self._of(package_of_flow(entrypoint)).start(run, entrypoint, changed)

    def cancel(self, run: UUID) -> None:
        """Stop a run, as `RunnerProcess.cancel`: the runners that do not execute it ignore this."""
        for runner in self._by_package.values():
            runner.cancel(run)

    async def close(self) -> None:
        """Kill all runners with their descendants."""
        await asyncio.gather(*(runner.close() for runner in self._by_package.values()))

    def _of(self, package: str) -> RunnerProcess:
        if package not in self._by_package:
            self._by_package[package] = runner = RunnerProcess(self._warn, package)
            self._duty(runner.supervise())
        return self._by_package[package]


def package_of_flow(entrypoint: str) -> str:
    """Return the package with the kind of source that a flow syncs; ours for all other flows."""
    kind = entrypoint.rpartition(".sync_")[2]
    return package_of(kind) if entrypoint == f"flows.{kind}.sync_{kind}" else OURS
