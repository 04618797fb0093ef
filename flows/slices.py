"""The subflows that a sync chains for every slice: `normalize` makes documents of items, `extract` delivers them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable

from prefect import flow

from tasks.redacted_errors import in_thread
from tasks.session import SourceSync, current
from tasks.sync_tasks import cached, extract_batch, normalize_batch

BATCH = 1_000
"""Jobs that a sync claims at a time, at most."""
_BATCHES_PER_SLICE = 10
_AT_ONCE = 2
"""Batches that each subflow works on side by side: one is in the parsers while another is written."""

_Numbered = tuple[int, int]
"""A batch's place in its slice, and its token."""


class _Slice:
    """The batches of one slice on their way through this process: claimed when `normalize` has room, passed on to `extract`."""

    def __init__(self, sync: SourceSync, first: int) -> None:
        self._sync = sync
        self._unclaimed = _BATCHES_PER_SLICE - 1
        self._number = 1
        self._claimed = [(1, first)]
        self._claiming = asyncio.Lock()
        self._normalized: asyncio.Queue[_Numbered | None] = asyncio.Queue()

    async def claimed(self) -> AsyncIterator[_Numbered]:
        """Each batch once, whoever asks for the next."""
        while batch := await self._next():
            yield batch

    async def normalized(self) -> AsyncIterator[_Numbered]:
        """Each batch that was passed on, once, until the last was."""
        while batch := await self._normalized.get():
            yield batch
        self.end()

    def pass_on(self, batch: _Numbered) -> None:
        """The batch has left `normalize`."""
        self._normalized.put_nowait(batch)

    def end(self) -> None:
        """No batch will be passed on any more; may be called again."""
        self._normalized.put_nowait(None)

    async def _next(self) -> _Numbered | None:
        async with self._claiming:
            if self._claimed:
                return self._claimed.pop()
            token = await in_thread(self._sync.claim, BATCH) if self._unclaimed else None
            if token is None:
                self._unclaimed = 0
                return None
            self._unclaimed -= 1
            self._number += 1
            return self._number, token


_slices: dict[int, _Slice] = {}
"""The slice that each sync of this process is at."""


async def chain(sync: int, number: int, first: int) -> None:
    """Bring a slice into the library: the batch that was claimed first, and those that follow.

    Each is claimed when there is room for it, and extracted as soon as it is normalized.
    """
    _slices[sync] = at_work = _Slice(current(sync), first)

    async def normalized() -> None:
        try:
            await normalize(sync, number)
        finally:
            # Also when the subflow could not even begin: `extract` must not wait for it then.
            at_work.end()

    # The server takes a quarter of a second to make two subflows; one saved note need not wait for that.
    ahead = asyncio.to_thread(current(sync).run_ahead, first)
    try:
        ends = await asyncio.gather(ahead, normalized(), extract(sync, number), return_exceptions=True)
    finally:
        del _slices[sync]
    for end in ends:
        if isinstance(end, BaseException):
            raise end


@flow(name="normalize", flow_run_name="normalize slice {number}", retries=0, persist_result=False)
async def normalize(sync: int, number: int) -> dict[str, int]:
    """Read and parse every batch of a slice."""
    step, at_work = cached(normalize_batch, sync), _slices[sync]

    async def work(index: int, token: int) -> dict[str, int]:
        try:
            return await step(sync, index, token)
        finally:
            at_work.pass_on((index, token))

    return await _side_by_side(at_work.claimed, work)


@flow(name="extract", flow_run_name="extract slice {number}", retries=0, persist_result=False)
async def extract(sync: int, number: int) -> dict[str, int]:
    """Take every batch of a slice apart, as it comes from `normalize`, and deliver it."""

    async def work(index: int, token: int) -> dict[str, int]:
        return await extract_batch(sync, index, token)

    return await _side_by_side(_slices[sync].normalized, work)


async def _side_by_side(
    batches: Callable[[], AsyncIterator[_Numbered]], work: Callable[[int, int], Awaitable[dict[str, int]]]
) -> dict[str, int]:
    """The sum of what the batches gave. The first error is raised after the batches at work have come to an end."""
    total: Counter[str] = Counter()

    async def one_by_one() -> None:
        async for index, token in batches():
            total.update(await work(index, token))

    for end in await asyncio.gather(*(one_by_one() for _ in range(_AT_ONCE)), return_exceptions=True):
        if isinstance(end, BaseException):
            raise end
    return dict(total)
