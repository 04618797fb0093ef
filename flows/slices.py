"""The two subflows of each slice of a sync: `normalize` reads and parses its batches, `extract` delivers them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

from prefect import flow

from tasks.open_syncs import Session, current
from tasks.redacted_errors import ends_with_state, finished
from tasks.sync_tasks import cached, extract_batch, normalize_batch

BATCH = 1_000
"""Maximum number of jobs in a batch."""
_BATCHES_PER_SLICE = 10


async def work_through(opened: Session) -> None:
    """Process one slice after another until no job is waiting."""
    while (first := await opened.call(opened.sync.claim, BATCH)) is not None:
        opened.slices += 1
        await _work_on_slice(opened, first)


async def _work_on_slice(opened: Session, first: int) -> None:
    """Process a slice: the claimed batch `first`, and the batches that `normalize` claims after it.

    The two subflows run concurrently, connected by a queue: one batch is parsed while the previous one is delivered. Raises
    the first error after both have finished.
    """
    sync, number = opened.sync.sync.id, opened.slices
    batches = opened.batches = asyncio.Queue()

    async def normalized() -> None:
        try:
            await finished(normalize, sync, number, first)
        finally:
            # Also if the subflow failed to start, so that `extract` does not wait for it.
            batches.put_nowait(None)

    for end in await asyncio.gather(normalized(), finished(extract, sync, number), return_exceptions=True):
        if isinstance(end, BaseException):
            raise end


@flow(name="normalize", flow_run_name="normalize slice {number}", retries=0, persist_result=False)
@ends_with_state
async def normalize(sync: int, number: int, first: int) -> dict[str, int]:
    """Read and parse every batch of a slice. `first` is the token of the batch that is already claimed."""
    opened = current(sync)
    total: Counter[str] = Counter()
    async for index, token in _claimed(opened, first):
        total.update(await finished(await cached(normalize_batch, opened, token), sync, index, token))
        opened.batches.put_nowait((index, token))
    return dict(total)


@flow(name="extract", flow_run_name="extract slice {number}", retries=0, persist_result=False)
@ends_with_state
async def extract(sync: int, number: int) -> dict[str, int]:
    """Extract and deliver every batch of a slice, in the order in which `normalize` finishes them."""
    batches = current(sync).batches
    total: Counter[str] = Counter()
    while (batch := await batches.get()) is not None:
        total.update(await finished(extract_batch, sync, *batch))
    return dict(total)


async def _claimed(opened: Session, first: int) -> AsyncIterator[tuple[int, int]]:
    """The number and the token of each batch of a slice. Claims the next batch when the previous one is parsed."""
    yield 1, first
    for index in range(2, _BATCHES_PER_SLICE + 1):
        if (token := await opened.call(opened.sync.claim, BATCH)) is None:
            return
        yield index, token
