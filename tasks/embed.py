"""The task that makes missing embeddings, in a child process of its own, and the request for a run of the flow `embed`."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import httpx
from prefect import task
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State
from prefect.exceptions import ObjectNotFound
from prefect.runtime import deployment, flow_run

from catchment.ledger import EmbeddingCounts
from catchment.runtime.membership import shipped_name
from catchment.search.meaning import meaning_status
from catchment.settings import Home
from catchment.sync.fair_share import QUEUE
from tasks.activity import Activity, registered
from tasks.coalesce import request_once
from tasks.report import name_run
from tasks.run_states import CANCELLED, COMPLETED, FAILED, SKIPPED

_COMMAND = (sys.executable, "-P", "-m", "catchment.search.meaning")
_SHOW_SECONDS = 10.0
"""With 2 s, the server needed a sixth of a core for it."""
_SILENCE_SECONDS = 300.0
"""Time without a report after which the process is considered stuck."""
_WAIT_SECONDS, _WORK_SECONDS = 5.0, 1.0
"""How long the process waits while syncs work, and how long it works then."""
_POLL_SECONDS = 0.05


async def request_embedding() -> None:
    """Request a run of the flow `embed`, unless one is waiting already, or its deployment is paused or was deleted."""
    await request_once("embed", shipped_name(Home.default(), "embed"))


@task(name="embed-passages", task_run_name="embed passages", persist_result=False)
async def embed_passages() -> State[Any]:
    """Make the missing embeddings. Ends `Skipped` without a model, and `Cancelled` if the run is stopped."""
    work = _Embedding(flow_run.id)
    with registered(work):
        async with _showing_progress(work):
            await work.finish()
    if not work.stopped and not work.error and not work.elsewhere:
        await asyncio.to_thread(meaning_status.record, Home.default(), work.off)
    await name_run(work.result)
    if work.elsewhere:
        return SKIPPED.because("Another host makes the embeddings")
    if work.stopped:
        return CANCELLED.because(f"Stopped: {work.stopped}; the next run continues")
    if work.off:
        return SKIPPED.because(work.off)
    if work.error:
        return FAILED.because(f"The process that makes embeddings failed ({work.error}); the next run continues")
    return COMPLETED.because(work.result)


@dataclass(eq=False, slots=True)
class _Embedding(Activity):
    """The child process of a run, and its reports."""

    counts: EmbeddingCounts | None = None
    off: str = ""
    """Why there is no model."""
    error: str = ""
    elsewhere: bool = False
    """Whether another host makes them."""
    _may_work_until: float = 0.0
    _first: tuple[float, int] | None = None
    _process: Process | None = field(default=None, repr=False)

    def stop(self, reason: str) -> None:
        """Kill the process. At most one unfinished batch is lost."""
        Activity.stop(self, reason)
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    async def finish(self) -> None:
        """Start the process and follow its reports until it ends."""
        self._process = process = await asyncio.create_subprocess_exec(*_COMMAND, stdin=PIPE, stdout=PIPE)
        try:
            if self.stopped:
                return
            assert process.stdin is not None
            assert process.stdout is not None
            async with asyncio.timeout(_SILENCE_SECONDS) as silence:
                while line := await process.stdout.readline():
                    if report := json.loads(line):
                        self._take(report)
                        continue
                    await self._let_syncs_work()
                    process.stdin.write(b"\n")
                    silence.reschedule(asyncio.get_running_loop().time() + _SILENCE_SECONDS)
            if code := await process.wait():
                self.error = self.error or (f"signal {-code}" if code < 0 else f"exit code {code}")
        except TimeoutError:
            self.error = f"no progress for {_SILENCE_SECONDS / 60:.0f} minutes"
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _let_syncs_work(self) -> None:
        """Wait while a sync has a slot, but not for long: a sync of a slow host may take hours."""
        if time.monotonic() < self._may_work_until:
            return
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                while not QUEUE.is_idle():
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            self._may_work_until = time.monotonic() + _WORK_SECONDS

    def _take(self, report: dict[str, Any]) -> None:
        self.off, self.error = report.get("off", ""), report.get("error", "")
        self.elsewhere = report.get("elsewhere", False)
        self.stopped = self.stopped or report.get("stopped", "")
        if "done" in report:
            self.counts = EmbeddingCounts(**report)
            self._first = self._first or (time.monotonic(), self.counts.done)

    @property
    def made(self) -> int:
        """Number of passages embedded by this run."""
        return 0 if self.counts is None or self._first is None else self.counts.done - self._first[1]

    @property
    def progress(self) -> str:
        """The name of the run while it works."""
        if self.counts is None or self._first is None:
            return "embed: starting"
        left = max(0, self.counts.total - self.counts.done)
        seconds = (time.monotonic() - self._first[0]) * left / max(1, self.made)
        return f"embed: {self._position}" + (f", {_span(seconds)} left" if self.made else "")

    @property
    def _position(self) -> str:
        if self.counts is None:
            return "no passages"
        # Passages are added meanwhile.
        return f"{self.counts.done:,} of {max(self.counts.done, self.counts.total):,} passages"

    @property
    def result(self) -> str:
        """The name of the run at its end."""
        if self.stopped:
            return f"embed: stopped after {self._position}"
        if self.error:
            return "embed: failed"
        return f"embed: {self.made:,} passages" if self.made else f"embed: {'off' if self.off else 'nothing to do'}"


@asynccontextmanager
async def _showing_progress(work: _Embedding) -> AsyncIterator[None]:
    """Show the progress in the run's name every ten seconds, and stop the work when the deployment is paused."""
    shower = asyncio.create_task(_show_progress(work))
    try:
        yield
    finally:
        shower.cancel()
        await asyncio.gather(shower, return_exceptions=True)


async def _show_progress(work: _Embedding) -> None:
    async with get_client() as client:
        while True:
            await asyncio.sleep(_SHOW_SECONDS)
            # The server may be restarting; the work does not need it.
            with suppress(httpx.HTTPError, ObjectNotFound):
                if work.run is not None:
                    await client.update_flow_run(UUID(work.run), name=work.progress)
                if work.made:
                    # An earlier run may have failed.
                    await asyncio.to_thread(meaning_status.record, Home.default(), "")
                if deployment.id is not None and (await client.read_deployment(UUID(deployment.id))).paused:
                    work.stop("the deployment was paused")


def _span(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
