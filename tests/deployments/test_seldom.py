"""The background worker of the Prefect server looks for work less often, and does all of it."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime, timedelta

import pytest
from docket import Docket
from prefect.server.api import background_workers

from deployments.server.seldom import Seldom, look_seldom


def test_it_is_used_with_the_versions_that_are_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_workers, "Worker", vars(background_workers)["Worker"])
    look_seldom()
    assert vars(background_workers)["Worker"] is Seldom


async def test_what_is_due_now_and_what_is_due_later_is_done() -> None:
    done: asyncio.Queue[str] = asyncio.Queue()

    async def job(name: str) -> None:
        await done.put(name)

    async with Docket("seldom", url="memory://seldom") as docket, Seldom(docket) as worker:
        docket.register(job)
        working = asyncio.create_task(worker.run_forever())
        await docket.add(job)("now")
        assert await asyncio.wait_for(done.get(), 60) == "now"
        await docket.add(job, when=datetime.now(UTC) + timedelta(seconds=0.1))("later")
        assert await asyncio.wait_for(done.get(), 60) == "later"
        working.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await working
