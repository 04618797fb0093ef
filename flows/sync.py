"""The order of a sync, the same for every connector: gates, discovery, slices, troubled items, the summary.

A sync whose place others wait for ends between two batches, and a run that is asked for goes on where it was.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable

import httpx
from prefect import get_run_logger
from prefect.client.schemas.objects import State, StateType
from prefect.runtime import deployment, flow_run

from catchment.errors import (
    HomeUnavailable,
    LedgerError,
    NoConsent,
    NotNow,
    RateLimited,
    SourceError,
    TryAgain,
)
from catchment.settings import PlanId, SourceSettings
from flows.slices import BATCH, chain
from tasks.coalesce import answer_the_waiting, hand_on
from tasks.redacted_errors import Reported, in_thread
from tasks.report import name_run, report, schedule_next, showing_progress
from tasks.session import SourceSync, session
from tasks.sync_tasks import QUARANTINED, discover, process_item

_AGAIN_SECONDS = 5.0
_LISTING_LOOK_SECONDS = 0.02
_QUIET_SECONDS = 2.0
_ITEMS_AT_ONCE = 4
ITEMS_SHOWN = 200
"""Troubled items of one sync that get a task run of their own; the rest is worked on in batches, and listed by the ledger."""


async def bring_up_to_date(
    kind: str,
    name: str,
    settings: SourceSettings,
    *,
    deep: bool,
    plan: PlanId | None = None,
    changed_only: bool = False,
) -> State | dict[str, int]:
    """One sync of a source, from its listing to the last item; the figures of what it did.

    `changed_only`: once nothing changes any more, only what the watcher saw change is looked at, where it told.
    One that follows a plan is done in one run: another could not know what was left of it.

    A source that is paused or held is left alone; one that keeps failing ends `Quarantined` and is held. One that another run
    is at work on is asked for again: that run may have passed by what this one was asked for.
    """
    try:
        with session(kind, name, settings, flow_run.id, plan) as sync:
            try:
                may_yield = deployment.id is not None and plan is None
                return await _sync(sync, deep, may_yield=may_yield, changed_only=changed_only)
            except Reported as reported:
                if isinstance(reported.error, SourceError):
                    return await _failed(sync, reported.error)
                sync.end_broken(reported.error or reported)
                raise
            except (LedgerError, HomeUnavailable) as error:
                sync.end_broken(error)
                raise
    except NoConsent as reason:
        await name_run(f"{name}: left alone without consent")
        return State(type=StateType.COMPLETED, name="Skipped", message=str(reason))
    except NotNow as reason:
        await name_run(f"{name}: left alone")
        await schedule_next(name, reason.until)
        return State(type=StateType.COMPLETED, name="Skipped", message=str(reason))
    except TryAgain:
        if deployment.id is None:
            raise
        await name_run(f"{name}: asked for again, for another run is at work")
        return await hand_on(name, _AGAIN_SECONDS, deep=deep, plan=plan)
    except (LedgerError, HomeUnavailable) as error:
        # By itself: what it was raised from has statements and paths, which Prefect would log.
        raise error from None
    except httpx.HTTPError as error:
        # Of the Prefect server: what a connector meets is a SourceError. Who crashed is followed by another, who failed is not.
        message = f"The Prefect server did not answer ({type(error).__name__}); the sync goes on in a new run"
        return State(type=StateType.CRASHED, name="Crashed", message=message)


async def _sync(sync: SourceSync, deep: bool, *, may_yield: bool, changed_only: bool) -> State | dict[str, int]:
    sync.may_yield = may_yield
    sync.discovery.changed_only = changed_only
    answering = asyncio.create_task(answer_the_waiting())
    try:
        async with showing_progress(sync):
            await _work(sync, deep)
            await _troubled(sync)
        await answering
    finally:
        # Those that wait try by themselves what this run failed at.
        answering.cancel()
        await asyncio.gather(answering, return_exceptions=True)
    if sync.permit.ended:
        return await _withdrawn(sync)
    if sync.yields:
        return await _yielded(sync, deep)
    summary = sync.end()
    await report(sync)
    await schedule_next(sync.source.name, sync.next_retry())
    return summary


async def _work(sync: SourceSync, deep: bool) -> None:
    """List the source and do what there is to do, as far as the sync need not yield.

    What the sync before this one left is done first. The source is listed afterwards in any case: it may have changed since.
    """
    numbers = itertools.count(1)
    if sync.continues and not deep:
        await _slices(sync, numbers)
    if not sync.yields:
        await _quiet(sync)
        await _listed(sync, numbers, deep)
    if not sync.yields:
        await _slices(sync, numbers)


async def _quiet(sync: SourceSync) -> None:
    """Wait until what changes is written; a run that was asked for early. Not for what goes on changing."""
    clock = asyncio.get_running_loop()
    last = clock.time() + _QUIET_SECONDS
    while sync.discovery.changed_only and (seconds := min(sync.discovery.quiet_in(), last - clock.time())) > 0:
        await asyncio.sleep(seconds)


async def _listed(sync: SourceSync, numbers: Iterable[int], deep: bool) -> None:
    """List the source; what a first listing has found is worked on meanwhile, for nothing of it can turn out to be a move."""
    first = sync.discovery.is_first
    listing = asyncio.create_task(discover(sync.sync.id, deep))
    begun_at = 0
    try:
        while first and not listing.done():
            await asyncio.wait({listing}, timeout=_LISTING_LOOK_SECONDS)
            if sync.progress.jobs - begun_at >= BATCH and not sync.yields:
                begun_at = sync.progress.jobs
                await _slices(sync, numbers)
    finally:
        await listing


async def _slices(sync: SourceSync, numbers: Iterable[int]) -> None:
    """Work on a slice of batches at a time until nothing waits."""
    for number in numbers:
        first = await in_thread(sync.claim, BATCH)
        if first is None:
            return
        await chain(sync.sync.id, number, first)


async def _yielded(sync: SourceSync, deep: bool) -> State:
    """Let others have the place; the run that goes on is asked for before this one ends, so that nothing is forgotten."""
    ended = await hand_on(sync.source.name, 0, deep=deep and sync.unlisted)
    sync.end_yielded()
    await report(sync, "so far; goes on when others have had a place")
    return ended


async def _withdrawn(sync: SourceSync) -> State:
    """End where consent did: what was read is the purge's to delete, and the next run says why it reads nothing."""
    sync.end_withdrawn()
    await report(sync, "until consent ended")
    return State(type=StateType.COMPLETED, name="Skipped", message="Consent has ended or was withdrawn meanwhile")


async def _troubled(sync: SourceSync) -> None:
    """A task run of its own for each item that left its batch or failed before; of a sync that ends early, for the hopeless.

    Raises Reported where it was not the item that failed, but its source or our own files; no more items are begun then.
    """
    if sync.yields or sync.permit.ended:
        jobs = [job for job, trouble in sync.troubles.items() if trouble.retry_at is None][:ITEMS_SHOWN]
    else:
        jobs = [*sync.troubles, *sync.tried_before(ITEMS_SHOWN)][:ITEMS_SHOWN]
    item = process_item.with_options(retries=sync.policy.retry.attempts - 1)
    places = asyncio.Semaphore(_ITEMS_AT_ONCE)
    reported: list[Reported] = []

    async def one(job: int) -> None:
        async with places:
            if reported:
                return
            # The state is the ledger's to judge; a failed item does not fail the sync.
            state: State = await item(sync.sync.id, job, return_state=True)  # type: ignore[misc]  # typed as not awaitable
            end = await state.aresult(raise_on_failure=False)
            if isinstance(end, Reported):
                reported.append(end)

    await asyncio.gather(*map(one, dict.fromkeys(jobs)))
    if reported:
        raise reported[0]


async def _failed(sync: SourceSync, error: SourceError) -> State:
    held = sync.end_failed(error)
    if isinstance(error, RateLimited):
        await name_run(f"{sync.source.name}: waits for its host")
        await schedule_next(sync.source.name, sync.next_retry())
        return State(
            type=StateType.COMPLETED, name="Waiting", message="The host asked to wait; another run goes on then"
        )
    get_run_logger().error("the source cannot be read: %s", type(error).__name__)
    await name_run(f"{sync.source.name}: {'held' if held else 'failed'}")
    if not held:
        return State(type=StateType.FAILED, name="Failed", message=f"{type(error).__name__}; nothing was deleted")
    remedy = f"catchment sources resume {sync.source.name}"
    return State(type=StateType.FAILED, name=QUARANTINED, message=f"{type(error).__name__}; held until: {remedy}")
