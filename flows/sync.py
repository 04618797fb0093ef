"""The order of a sync, the same for every connector: preflight checks, discovery, slices, failing items, summary."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice

from prefect import get_run_logger
from prefect.client.schemas.objects import State
from prefect.runtime import deployment, flow_run

from catchment.errors import CatchmentError, NoConsent, NotNow, RateLimited, Refused, SourceError, TryAgain
from catchment.settings import BackfillNumber, PlanId, SourceSettings
from flows.own_failures import cause, resumable
from flows.slices import BATCH, work_through
from tasks import hints
from tasks.background_work import request_background
from tasks.coalesce import (
    another_run_waits,
    coalesce_into_next,
    complete_waiting_runs,
    request_backfill,
    request_once,
)
from tasks.open_syncs import Session, session
from tasks.redacted_errors import Reported, finished
from tasks.report import explained, name_failed_run, name_run, report, schedule_next, showing_progress
from tasks.run_states import CANCELLED, FAILED, QUARANTINED, REFUSED, SKIPPED, WAITING
from tasks.source_events import announce
from tasks.sync_tasks import each, process_item, process_other_items

_COALESCE_SECONDS = 5.0
_LISTING_LOOK_SECONDS = 0.02
_GIVE_WAY_LOOK_SECONDS = 0.5
_MOST_FAILING = 200
"""Failing items that one sync processes; the next sync continues."""
_SHOWN_OF_EACH_REASON = 3
"""Failing items with a task run each: Prefect counts each of them as failed."""


@resumable
async def bring_up_to_date(
    kind: str,
    name: str,
    settings: SourceSettings,
    *,
    deep: bool,
    plan: PlanId | None = None,
    backfill: BackfillNumber | None = None,
    changed_only: bool = False,
) -> State | dict[str, int]:
    """Sync a source, from its listing to the last item. Returns the numbers of items by result, or a final state.

    `changed_only`: compare only the paths that the watcher reported; everything, if it reported none. `backfill`: work for
    that alone, until another run of the source waits; then one more run is requested.

    A run with the settings of another source ends `Refused`. A paused or held source is skipped; a source that keeps failing
    ends `Quarantined` and is held. If another run is syncing the source, one more run is requested: the other may have listed
    the source too early. A sync that was stopped (`tasks.activity.stop`) ends `Cancelled`.
    """
    try:
        async with session(kind, name, settings, flow_run.id, plan, backfill) as opened:
            try:
                return await _sync(opened, deep, changed_only=changed_only)
            except Exception as error:
                if opened.stopped and isinstance(error, Reported):
                    return await _stopped(opened)
                if isinstance(problem := cause(error), SourceError):
                    return await _failed(opened, problem)
                await _broken(opened, problem)
                raise
    except NoConsent as reason:
        await name_run(f"{name}: skipped, no consent")
        return SKIPPED.because(str(reason))
    except Refused as reason:
        await name_run(f"{name}: refused")
        return REFUSED.because(str(reason))
    except NotNow as reason:
        await name_run(f"{name}: skipped")
        await schedule_next(name, reason.until)
        return SKIPPED.because(str(reason))
    except TryAgain:
        if deployment.id is None:
            raise
        await name_run(f"{name}: coalesced, another run is active")
        parameters = {"deep": deep, "plan": plan, "backfill": backfill}
        return await coalesce_into_next(name, _COALESCE_SECONDS, parameters)


async def _sync(opened: Session, deep: bool, *, changed_only: bool) -> State | dict[str, int]:
    sync = opened.sync
    if changed_only and (hint := hints.take(opened.run)) is not None:
        sync.follow(hint.paths, hint.since)
    start = datetime.now(UTC)
    giving_way = asyncio.create_task(_giving_way(opened)) if sync.backfill is not None else None
    try:
        async with showing_progress(opened):
            try:
                await _listed(opened, deep)
            except Exception as error:
                if sync.keeps_items and isinstance(cause(error), SourceError):
                    await work_through(opened)
                raise
            await work_through(opened)
            await _failing_items(opened)
    finally:
        if giving_way is not None:
            giving_way.cancel()
            await asyncio.gather(giving_way, return_exceptions=True)
    if opened.stopped:
        return await _stopped(opened)
    if sync.permit.ended:
        return await _forbidden(opened)
    summary = await opened.call(sync.finish, "completed")
    # Only now, so that after a failure they make their own attempt. They cannot start before this run ends.
    await complete_waiting_runs(start)
    announce(sync)
    await report(opened)
    await schedule_next(sync.source.name, await opened.call(sync.next_retry))
    if deployment.id is not None:
        if (backfill := await opened.call(sync.backfill_to_continue)) is not None:
            await request_backfill(sync.source.name, *backfill)
        for sink in await opened.call(sync.sinks_to_supply):
            await request_once("deliver", sink)
        for flow_name in await opened.call(sync.background_flows):
            await request_background(flow_name)
    return summary


async def _giving_way(opened: Session) -> None:
    """Look twice a second whether another run of the source waits, and let the backfill end before its next batch then."""
    while not await another_run_waits():
        await asyncio.sleep(_GIVE_WAY_LOOK_SECONDS)
    opened.sync.gives_way = True


async def _listed(opened: Session, deep: bool) -> None:
    """List the source. Items of a first listing are processed while it continues, because none of them can be a move."""
    sync = opened.sync
    first = await opened.call(sync.discovery.is_first)
    # Not a task: its run would be 30 rows in Prefect's database, and most syncs find nothing.
    listing = asyncio.create_task(opened.call(sync.discover, deep=deep))
    begun_at = 0
    try:
        while first and not listing.done():
            await asyncio.wait({listing}, timeout=_LISTING_LOOK_SECONDS)
            if sync.progress.jobs - begun_at >= BATCH:
                begun_at = sync.progress.jobs
                await work_through(opened)
    except asyncio.CancelledError:
        listing.cancel()
        raise
    finally:
        await listing
    if (progress := sync.progress).listed:
        get_run_logger().info(
            "Found %s new or changed items; queued %s jobs.", f"{progress.listed:,}", f"{progress.jobs:,}"
        )


async def _stopped(opened: Session) -> State:
    """End as cancelled. The next sync resumes after the last batch."""
    reason = opened.sync.permit.reason
    with suppress(Reported):  # The ledger cannot be written now. The sync is closed there later.
        await opened.call(opened.sync.finish, "cancelled")
    await name_run(f"{opened.sync.source.name}: cancelled after {opened.sync.progress.sentence()}")
    return CANCELLED.because(f"The sync was stopped: {reason}")


async def _forbidden(opened: Session) -> State:
    """End after consent expired or the source was paused. The next run is skipped with the reason, until it is resumed."""
    await opened.call(opened.sync.finish, "cancelled")
    await report(opened, "until it was stopped")
    return SKIPPED.because(opened.sync.permit.reason)


async def _broken(opened: Session, error: Exception) -> None:
    """Record that Catchment itself failed (a full disk, a busy ledger). The source is not at fault."""
    known = error if isinstance(error, CatchmentError) else CatchmentError(f"unexpected {type(error).__name__}")
    with suppress(Reported):  # The flow raises the original error.
        await opened.call(opened.sync.finish, "crashed", known)


async def _failing_items(opened: Session) -> None:
    """Process the items that failed, in this sync or before. If the sync ends early, only show those in quarantine.

    The first of each reason have a task run each, the others one together. Raises Reported if the source or our own files
    failed instead of an item; no further items are started then.
    """
    sync = opened.sync
    is_over = sync.permit.ended
    reasons = {
        job: trouble.failure.reason for job, trouble in sync.troubles.items() if not is_over or trouble.retry_at is None
    }
    if not is_over:
        reasons |= await opened.call(sync.jobs_to_process_alone, _MOST_FAILING)
    numbers: Counter[str] = Counter()
    shown: list[int] = []
    others: list[int] = []
    for job, reason in islice(reasons.items(), _MOST_FAILING):
        (shown if numbers[reason] < _SHOWN_OF_EACH_REASON else others).append(job)
        numbers[reason] += 1
    # One more than it has attempts: the ledger decides about the item's state, and a failed item does not fail the sync.
    item = process_item.with_options(retries=sync.policy.retry.attempts)
    await each(opened, shown, lambda job: finished(item, sync.sync.id, job, reasons[job].value))
    if others:
        await finished(process_other_items, sync.sync.id, others)


async def _failed(opened: Session, error: SourceError) -> State:
    sync = opened.sync
    await opened.call(sync.finish, "failed", error)
    announce(sync, error)
    if isinstance(error, RateLimited):
        await name_run(f"{sync.source.name}: waiting for its host")
        await schedule_next(sync.source.name, await opened.call(sync.next_retry))
        return WAITING.because("Rate limit of the host; continues in another run")
    await schedule_next(sync.source.name, sync.discovery.again)
    held = sync.outcome == "quarantined"
    reason = explained(sync.source.name, error)
    get_run_logger().error(reason)
    await name_failed_run(f"{sync.source.name}: {'held' if held else 'failed'}", error)
    if not held:
        return FAILED.because(reason)
    return QUARANTINED.because(f"Held until: `catchment sources resume {sync.source.name}`. {reason}")
