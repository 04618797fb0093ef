"""The tasks of a sync: normalize and extract batches, and process failing items one at a time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from datetime import timedelta
from typing import Any, ParamSpec, TypeVar

from prefect import Task, get_run_logger, task
from prefect.client.schemas.objects import State, TaskRun
from prefect.context import TaskRunContext

from catchment.content.normalize import NORMALIZER
from catchment.errors import LedgerUnavailable, SourceError
from catchment.sync.backoff import IN_RUN_SECONDS
from catchment.views.trouble import problem_and_remedy
from tasks.open_syncs import Session, current
from tasks.redacted_errors import Reported, ends_with_state
from tasks.report import with_page
from tasks.run_states import COMPLETED, FAILED, QUARANTINED, RETRYING_LATER

P = ParamSpec("P")
R = TypeVar("R")


def _is_ledger_busy(_task: Task[Any, Any], _run: TaskRun, state: State) -> bool:
    """Whether an immediate retry can help: it does if the ledger was busy, and does not if the source is unavailable."""
    return isinstance(state.data, Reported) and isinstance(state.data.error, LedgerUnavailable)


_ITEMS_AT_ONCE = 4
_RETRIES: dict[str, Any] = {"retries": 2, "retry_delay_seconds": [1, 3], "retry_condition_fn": _is_ledger_busy}
"""Retries of a step while the ledger is busy. The connector's retry policy decides about each failing item."""


def _batch_key(_context: TaskRunContext, parameters: dict[str, Any]) -> str:
    """Cache key of a batch: its content, its connector, and the version of the parsing code."""
    sync = current(parameters["sync"]).sync
    return f"{sync.source.kind}:{NORMALIZER}:{sync.batch_key(parameters['token'])}:normalize"


async def cached(step: Task[P, R], opened: Session, token: int) -> Task[P, R]:
    """Return the step for a batch with the caching policy of the source: 0 days disable caching.

    A result is not used if the items that it speaks of are not stored.
    """
    days = opened.sync.policy.cache.days
    is_stored = days > 0 and await opened.call(opened.sync.is_cached, token)
    return step.with_options(cache_expiration=timedelta(days=days), refresh_cache=not is_stored)


def _can_retry(_task: Task[Any, Any], _run: TaskRun, state: State) -> bool:
    """Whether to retry an item: not if it was quarantined or deferred to a later sync, or its source is unavailable."""
    is_gone = isinstance(state.data, Reported) and isinstance(state.data.error, SourceError)
    return state.name == FAILED.name and not is_gone


@task(
    name="normalize-batch",
    task_run_name="read and parse batch {number}",
    cache_key_fn=_batch_key,
    persist_result=True,
    **_RETRIES,
)
@ends_with_state
async def normalize_batch(sync: int, number: int, token: int) -> dict[str, int]:
    """Read and parse a batch."""
    opened = current(sync)
    return await opened.call(opened.sync.normalize, token)


@task(name="extract-batch", task_run_name="extract and deliver batch {number}", persist_result=False, **_RETRIES)
@ends_with_state
async def extract_batch(sync: int, number: int, token: int) -> dict[str, int]:
    """Split a batch into chunks, links and entities, and deliver them to the library."""
    opened = current(sync)
    return await opened.call(opened.sync.process, token)


@task(name="item", task_run_name="item {job}: {reason}", retry_condition_fn=_can_retry, persist_result=False)
@ends_with_state
async def process_item(sync: int, job: int, reason: str) -> State:
    """Process one failing item. It ends `Quarantined` if its attempts are used up, or if no further attempt can help.

    `reason`: why it failed last.
    """
    return await _attempt(current(sync), job)


@task(name="other-items", task_run_name="other failing items", persist_result=False)
@ends_with_state
async def process_other_items(sync: int, jobs: list[int]) -> State:
    """Process failing items that have no task run of their own."""
    opened = current(sync)
    ends: Counter[str] = Counter()

    async def process(job: int) -> None:
        while (end := await _attempt(opened, job)).name == FAILED.name:
            continue
        ends[str(end.name).lower()] += 1

    await each(opened, jobs, process)
    figures = ", ".join(f"{number} {end}" for end, number in ends.items())
    return COMPLETED.because(with_page(f"{figures}.", f"/jobs?source={opened.sync.source.name}"))


async def each(opened: Session, jobs: Iterable[int], process: Callable[[int], Awaitable[object]]) -> None:
    """Process failing items, some at once, until the sync is stopped. Raises the first error, and starts no item after it."""
    at_once = asyncio.Semaphore(_ITEMS_AT_ONCE)
    errors: list[Exception] = []

    async def retry_item(job: int) -> None:
        async with at_once:
            if errors or opened.stopped:
                return
            try:
                await process(job)
            except Exception as error:  # noqa: BLE001 - raised below, when no item is in progress
                errors.append(error)

    await asyncio.gather(*map(retry_item, jobs))
    if errors:
        raise errors[0]


async def _attempt(opened: Session, job: int) -> State:
    """Process a failing item once, unless its last attempt decided already. Its state is `Failed` if another attempt is due."""
    before = trouble = opened.sync.troubles.get(job)
    if before is None or opened.sync.waits(before, IN_RUN_SECONDS) is not None:
        if before is not None:
            await opened.sleep(opened.sync.waits(before, IN_RUN_SECONDS) or 0)
        trouble = await opened.call(opened.sync.process_alone, job)
        if trouble is before and await opened.call(opened.sync.is_left, job):
            # A quota or rate limit is used up, or the sync was stopped.
            return RETRYING_LATER.because("no further jobs can be claimed now")
    if trouble is None:
        return COMPLETED.because("done")
    failure = trouble.failure
    get_run_logger().warning(
        "item %d, attempt %d: %s (%s): %s", job, trouble.attempt, failure.reason, failure.error, failure.message
    )
    problem, remedy = problem_and_remedy(failure.message, failure.reason)
    text, path = f"{problem} (attempt {trouble.attempt})", f"/jobs/{job}"
    if trouble.retry_at is None:
        return QUARANTINED.because(with_page(f"{text}. What helps: {remedy}.", path))
    if opened.sync.waits(trouble, IN_RUN_SECONDS) is None:
        return RETRYING_LATER.because(with_page(f"{text}. Next attempt: {trouble.retry_at:%H:%M:%S} UTC.", path))
    return FAILED.because(f"{text}; retried in this run")
