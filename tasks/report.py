"""Output of a sync in Prefect: the run's name and artifacts, and the reason of a failure. Schedules the next retry."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from uuid import UUID

import httpx
from prefect.artifacts import (
    acreate_markdown_artifact,
    acreate_progress_artifact,
    acreate_table_artifact,
    aupdate_progress_artifact,
)
from prefect.client.orchestration import get_client
from prefect.exceptions import ObjectNotFound
from prefect.runtime import deployment, flow_run

from catchment.errors import SourceError
from catchment.runtime.web_process import page_address
from catchment.settings import Home
from catchment.sync.progress import NOTHING_TO_DO
from catchment.sync.source_sync import SourceSync
from catchment.telemetry.incidents import reason_of
from tasks.artifacts import DONE, ENDED_EARLY, NOTHING, SHOWN, artifact_key, quarantine
from tasks.coalesce import another_run_starts_by, request_run
from tasks.open_syncs import Session
from tasks.redacted_errors import Reported

_EVERY_SECONDS = 2.0
_published: dict[str, str] = {}
"""The quarantine of each source as this process published it last. The health page corrects later changes by operators."""


@asynccontextmanager
async def showing_progress(opened: Session) -> AsyncIterator[None]:
    """Update a progress artifact every two seconds, and at the end. A sync that takes less time has none."""
    shown: list[UUID] = []
    updating = asyncio.Lock()
    shower = asyncio.create_task(_show_progress(opened, shown, updating))
    end = ENDED_EARLY
    try:
        yield
        # An update that is in flight must not arrive after the final one.
        async with updating:
            shower.cancel()
        end = "done"
    finally:
        shower.cancel()
        await asyncio.gather(shower, return_exceptions=True)
        for artifact in shown:
            # The server may be the cause.
            with suppress(httpx.HTTPError, ObjectNotFound):
                percent = DONE if end == "done" else opened.sync.progress.share() * 100
                await aupdate_progress_artifact(artifact, percent, description=f"{opened.sync.source.name}: {end}")


async def _show_progress(opened: Session, shown: list[UUID], updating: asyncio.Lock) -> None:
    sync = opened.sync
    while True:
        await asyncio.sleep(_EVERY_SECONDS)
        async with updating:
            if not shown:
                key = artifact_key(sync.source.name, "progress")
                shown.append(await acreate_progress_artifact(0.0, key=key, description=sync.source.name))
            await aupdate_progress_artifact(shown[0], sync.progress.share() * 100, description=await described(opened))


async def described(opened: Session) -> str:
    """The description of a sync in progress: its source, and its ETA if there is an estimate."""
    sync = opened.sync
    with suppress(Reported):  # The ledger is busy. The next update tries again.
        if (moment := await opened.call(sync.update_eta)) is not None:
            return f"{sync.source.name}: done about {moment.astimezone():%H:%M}"
    return sync.source.name


async def report(opened: Session, more: str = "") -> None:
    """Name the run after its result, followed by `more`, and create its artifacts if something changed."""
    sync, result = opened.sync, opened.sync.progress.sentence()
    work = "" if sync.backfill is None else f"backfill {sync.backfill.id}, "
    name = f"{sync.source.name}: {work}{result} {more}".rstrip()
    await asyncio.gather(name_run(name), *([] if result == NOTHING_TO_DO else [_create_artifacts(opened, name)]))


async def _create_artifacts(opened: Session, result: str) -> None:
    """Create a table with the numbers of items, and the quarantine of the source if it differs from the last one."""
    sync, name = opened.sync, opened.sync.source.name
    rows = [{"step": step.replace("_", " "), "items": n} for step, n in sync.progress.summary().items() if n]
    headline = _headline(sync, result, await opened.call(sync.rule))
    await acreate_table_artifact(rows, key=artifact_key(name, "summary"), description=headline)
    text, description = quarantine(Home.default(), name, await opened.call(sync.quarantined, SHOWN))
    if _published.get(name, NOTHING) != text:
        await acreate_markdown_artifact(text, key=artifact_key(name, "quarantine"), description=description)
        _published[name] = text


def explained(source: str, error: SourceError) -> str:
    """Return the kind of problem of a source, the remedy, and its page. Contains no path."""
    code = reason_of(error)
    return with_page(f"{code.help}. {code.runbook.replace('NAME', source)}", f"/trouble/sources/{source}")


def with_page(text: str, path: str) -> str:
    """Return the text followed by the address of a page for people, if there is one."""
    address = page_address(Home.default(), path)
    # Prefect's log would take a quotation mark for a part of the address.
    return f"{text} See {address} for details." if address else text


def _headline(sync: SourceSync, result: str, rule: str) -> str:
    """The result, and the sync's ID, duration and speed. The worker reports the resources when the processes have exited."""
    began = sync.sync.began
    took = max((datetime.now(UTC) - began).total_seconds(), 0.001)
    words = [f"{result}; sync {sync.sync.id} took {took:.1f} s"]
    if (speed := sync.progress.ended_jobs() / took) >= 1:
        words.append(f"{speed:.0f} items a second")
    if rule:
        words.append(f"ruled: {rule}")
    if (due := flow_run.scheduled_start_time) is not None:
        words.append(f"waited {max((began - due).total_seconds(), 0.0):.1f} s")
    return ", ".join(words)


async def name_run(name: str) -> None:
    """Rename the flow run."""
    if flow_run.id:
        async with get_client() as client:
            await client.update_flow_run(UUID(flow_run.id), name=name)


async def name_failed_run(name: str, error: SourceError) -> None:
    """Rename the flow run, with the kind of problem."""
    await name_run(f"{name} ({reason_of(error)})")


async def schedule_next(name: str, moment: datetime | None) -> None:
    """Schedule the next sync of a source at `moment`, unless one is scheduled by then: that one looks for the next moment anew.

    Does nothing if `moment` is None or the deployment was deleted.
    """
    if moment is None or deployment.id is None:
        return
    # One run for all items due within a second, at its end: this run does not cover items due later in its own second.
    second = moment.replace(microsecond=0) + timedelta(seconds=moment.microsecond > 0)
    if not await another_run_starts_by(second):
        await request_run(f"{name}: retries", second, f"{name}:{second.isoformat()}", {})
