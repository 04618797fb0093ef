"""The tasks of `embed` and `recognize`, which belong to no source: each works in a child process that lets syncs pass.

`catchment.search.background_child` is the other side.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import httpx
from prefect import task
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State
from prefect.exceptions import ObjectNotFound
from prefect.runtime import deployment, flow_run

from catchment.ledger import Ledger
from catchment.runtime.membership import shipped_name
from catchment.search.meaning import meaning_status
from catchment.settings import Home
from catchment.sync.fair_share import QUEUE
from tasks.activity import Activity, registered
from tasks.coalesce import request_once
from tasks.report import name_run
from tasks.run_states import CANCELLED, COMPLETED, FAILED, SKIPPED

_SHOW_SECONDS = 10.0
"""With 2 s, the server needed a sixth of a core for it."""
_SILENCE_SECONDS = 300.0
"""Time without a report after which the process is considered stuck."""
_WAIT_SECONDS, _WORK_SECONDS = 5.0, 1.0
"""How long the process waits while syncs work, and how long it works then."""
_READ_AGAIN_SECONDS = 60.0
"""How often sources read again while pages are recognized: each time is a sync."""
_POLL_SECONDS = 0.05


async def request_background(flow: str) -> None:
    """Request a run of `embed` or `recognize`, unless one is waiting already, or its deployment is paused or was deleted."""
    await request_once(flow, shipped_name(Home.default(), flow))


@task(name="embed-passages", task_run_name="embed passages", persist_result=False)
async def embed_passages() -> State[Any]:
    """Make the missing embeddings. Ends `Skipped` without a model, and `Cancelled` if the run is stopped."""
    work = Background(flow_run.id, flow="embed", module="catchment.search.meaning", unit="passages")

    async def progressed() -> None:
        # An earlier run may have failed.
        await asyncio.to_thread(meaning_status.record, Home.default(), "")

    state = await follow(work, progressed)
    if not work.stopped and not work.error and not work.elsewhere:
        await asyncio.to_thread(meaning_status.record, Home.default(), work.off)
    return state


@task(name="recognize-pages", task_run_name="recognize pages", persist_result=False)
async def recognize_pages() -> State[Any]:
    """Recognize the text of waiting pages, and let their sources read them again.

    Ends `Skipped` without Tesseract, and `Cancelled` if the run is stopped.
    """
    work = Background(flow_run.id, flow="recognize", module="deployments.ocr", unit="pages")

    last_asked = 0.0

    async def read_again() -> None:
        nonlocal last_asked
        if time.monotonic() - last_asked < _READ_AGAIN_SECONDS:
            return
        last_asked = time.monotonic()
        # Also those of an earlier run that was killed before it requested them.
        for name in await asyncio.to_thread(
            Ledger.ask, Home.default(), lambda ledger: ledger.recognition.sources(), []
        ):
            await request_once(*name.split("/", 1))

    state = await follow(work, read_again)
    last_asked = 0.0
    await read_again()
    return state


@dataclass(eq=False, slots=True, kw_only=True)
class Background(Activity):
    """The child process of a run, and its reports.

    Attributes:
        flow: The name of the flow.
        module: The module of the process.
        unit: What it makes, in the plural.
        off: Why it can make nothing.
        elsewhere: Whether another host does the work.
    """

    flow: str
    module: str
    unit: str
    done: int = 0
    total: int | None = None
    off: str = ""
    error: str = ""
    elsewhere: bool = False
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
        self._process = process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", self.module, stdin=PIPE, stdout=PIPE
        )
        try:
            if self.stopped:
                return
            assert process.stdin and process.stdout
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
            self.done, self.total = report["done"], report["total"]
            self._first = self._first or (time.monotonic(), self.done)

    @property
    def made(self) -> int:
        """How many this run made."""
        return 0 if self._first is None else self.done - self._first[1]

    @property
    def progress(self) -> str:
        """The name of the run while it works."""
        if self.total is None or self._first is None:
            return f"{self.flow}: starting"
        left = max(0, self.total - self.done)
        seconds = (time.monotonic() - self._first[0]) * left / max(1, self.made)
        return f"{self.flow}: {self._position}" + (f", {_span(seconds)} left" if self.made else "")

    @property
    def _position(self) -> str:
        if self.total is None:
            return f"no {self.unit}"
        # Some are added meanwhile.
        return f"{self.done:,} of {max(self.done, self.total):,} {self.unit}"

    @property
    def result(self) -> str:
        """The name of the run at its end."""
        if self.stopped:
            return f"{self.flow}: stopped after {self._position}"
        if self.error:
            return f"{self.flow}: failed"
        nothing = "off" if self.off else "nothing to do"
        return f"{self.flow}: {self.made:,} {self.unit}" if self.made else f"{self.flow}: {nothing}"


async def follow(work: Background, progressed: Callable[[], Awaitable[None]]) -> State[Any]:
    """Do the work, and return the state of its task: `Skipped` if it can make nothing, `Cancelled` if the run is stopped.

    `progressed`: called every ten seconds if it made something.
    """
    with registered(work):
        shower = asyncio.create_task(_show_progress(work, progressed))
        try:
            await work.finish()
        finally:
            shower.cancel()
            await asyncio.gather(shower, return_exceptions=True)
    await name_run(work.result)
    if work.elsewhere:
        return SKIPPED.because("Another host does this work")
    if work.stopped:
        return CANCELLED.because(f"Stopped: {work.stopped}; the next run continues")
    if work.off:
        return SKIPPED.because(work.off)
    if work.error:
        return FAILED.because(f"The process of `{work.flow}` failed ({work.error}); the next run continues")
    return COMPLETED.because(work.result)


async def _show_progress(work: Background, progressed: Callable[[], Awaitable[None]]) -> None:
    """Show the progress in the run's name every ten seconds, and stop the work when the deployment is paused."""
    async with get_client() as client:
        while True:
            await asyncio.sleep(_SHOW_SECONDS)
            # The server may be restarting; the work does not need it.
            with suppress(httpx.HTTPError, ObjectNotFound):
                if work.run is not None:
                    await client.update_flow_run(UUID(work.run), name=work.progress)
                if work.made:
                    await progressed()
                if deployment.id is not None and (await client.read_deployment(UUID(deployment.id))).paused:
                    work.stop("the deployment was paused")


def _span(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
