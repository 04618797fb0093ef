"""The order of a sync, the same for every connector: gates, discovery, slices, troubled items, the summary."""

from __future__ import annotations

import asyncio
import itertools

from prefect import get_run_logger
from prefect.client.schemas.objects import State, StateType
from prefect.runtime import flow_run

from catchment.errors import NotNow, SourceError
from catchment.settings import SourceSettings
from flows.slices import chain
from tasks.quiet import Reported
from tasks.report import name_run, report, schedule_retry, showing_progress
from tasks.session import SourceSync, session
from tasks.work import QUARANTINED, discover, process_item

BATCH = 1_000
BATCHES_PER_SLICE = 10
_ITEMS_AT_ONCE = 4
ITEMS_SHOWN = 200
"""Troubled items of one sync that get a task run of their own; the rest is worked on in batches, and listed by the ledger."""


async def bring_up_to_date(kind: str, name: str, settings: SourceSettings, *, deep: bool) -> State | dict[str, int]:
    """One sync of a source, from its listing to the last item; the figures of what it did.

    A source that is paused or held is left alone; one that keeps failing ends `Quarantined` and is held.
    """
    try:
        with session(kind, name, settings, flow_run.id) as sync:
            try:
                return await _sync(sync, deep)
            except Reported as reported:
                if isinstance(reported.error, SourceError):
                    return await _failed(sync, reported.error)
                sync.end_broken(reported.error or reported)
                raise
    except NotNow as reason:
        await name_run(f"{name}: left alone")
        return State(type=StateType.COMPLETED, name="Skipped", message=str(reason))


async def _sync(sync: SourceSync, deep: bool) -> dict[str, int]:
    number = sync.sync.id
    async with showing_progress(sync):
        await discover(number, deep)
        await _slices(sync)
        await _troubled(sync)
    summary = sync.end()
    await report(sync)
    await schedule_retry(sync)
    return summary


async def _slices(sync: SourceSync) -> None:
    """Claim a slice of batches at a time until nothing waits."""
    for index in itertools.count(1):
        batches = [token for _ in range(BATCHES_PER_SLICE) if (token := sync.claim(BATCH)) is not None]
        if not batches:
            return
        await chain(sync.sync.id, index, batches)


async def _troubled(sync: SourceSync) -> None:
    """A task run of its own for each item that left its batch or failed before."""
    jobs = [*sync.troubles, *sync.tried_before(ITEMS_SHOWN)][:ITEMS_SHOWN]
    item = process_item.with_options(retries=sync.policy.retry.attempts - 1)
    places = asyncio.Semaphore(_ITEMS_AT_ONCE)

    async def one(job: int) -> None:
        async with places:
            # The state is the ledger's to judge; a failed item does not fail the sync.
            await item(sync.sync.id, job, return_state=True)  # type: ignore[misc]  # typed as not awaitable

    await asyncio.gather(*map(one, dict.fromkeys(jobs)))


async def _failed(sync: SourceSync, error: SourceError) -> State:
    held = sync.end_failed(error)
    get_run_logger().error("the source cannot be read: %s", type(error).__name__)
    await name_run(f"{sync.source.name}: {'held' if held else 'failed'}")
    if not held:
        return State(type=StateType.FAILED, name="Failed", message=f"{type(error).__name__}; nothing was deleted")
    remedy = f"catchment sources resume {sync.source.name}"
    return State(type=StateType.FAILED, name=QUARANTINED, message=f"{type(error).__name__}; held until: {remedy}")
