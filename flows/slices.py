"""The subflows that a sync chains for every slice: `normalize` makes documents of items, `extract` delivers them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable

from prefect import flow

from tasks.session import current
from tasks.work import cached, extract_batch, normalize_batch

_AT_ONCE = 2
"""Batches that each subflow works on side by side: one is in the parsers while another is written."""

_normalized: dict[int, asyncio.Event] = {}
"""By its token, whether a batch at work in this process has left `normalize`, so that `extract` may take it over."""


async def chain(sync: int, number: int, batches: list[int]) -> None:
    """Bring a slice of claimed batches into the library: each is extracted as soon as it is normalized."""
    _normalized.update((token, asyncio.Event()) for token in batches)

    async def first() -> None:
        try:
            await normalize(sync, number, batches)
        finally:
            # Also when the subflow could not even begin: `extract` must not wait for it then.
            for token in batches:
                _normalized[token].set()

    # The server takes a quarter of a second to make two subflows; one saved note need not wait for that.
    ahead = asyncio.to_thread(current(sync).run_ahead, batches[0])
    try:
        ends = await asyncio.gather(ahead, first(), extract(sync, number, batches), return_exceptions=True)
    finally:
        for token in batches:
            del _normalized[token]
    for end in ends:
        if isinstance(end, BaseException):
            raise end


@flow(name="normalize", flow_run_name="normalize slice {number}", retries=0, persist_result=False)
async def normalize(sync: int, number: int, batches: list[int]) -> dict[str, int]:
    """Read and parse every batch of a slice."""
    step = cached(normalize_batch, sync)

    async def one(index: int, token: int) -> dict[str, int]:
        try:
            return await step(sync, index, token)
        finally:
            _normalized[token].set()

    return await _side_by_side(one, batches)


@flow(name="extract", flow_run_name="extract slice {number}", retries=0, persist_result=False)
async def extract(sync: int, number: int, batches: list[int]) -> dict[str, int]:
    """Take every batch of a slice apart, as it comes from `normalize`, and deliver it."""

    async def one(index: int, token: int) -> dict[str, int]:
        await _normalized[token].wait()
        return await extract_batch(sync, index, token)

    return await _side_by_side(one, batches)


async def _side_by_side(
    work: Callable[[int, int], Awaitable[dict[str, int]]], batches: Iterable[int]
) -> dict[str, int]:
    """The sum of what the batches gave. The first error is raised after the batches at work have come to an end."""
    places = asyncio.Semaphore(_AT_ONCE)

    async def place(index: int, token: int) -> dict[str, int]:
        async with places:
            return await work(index, token)

    results = await asyncio.gather(*(place(i, t) for i, t in enumerate(batches, 1)), return_exceptions=True)
    total: Counter[str] = Counter()
    for result in results:
        if isinstance(result, BaseException):
            raise result
        total.update(result)
    return dict(total)
