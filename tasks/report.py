"""Output of a sync in Prefect: a progress artifact, the run's name and a table of the results. Schedules the next retry."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from uuid import UUID

from prefect.artifacts import acreate_progress_artifact, acreate_table_artifact, aupdate_progress_artifact
from prefect.client.orchestration import get_client
from prefect.runtime import deployment, flow_run

from catchment.sync.source_sync import SourceSync
from tasks.coalesce import request_run
from tasks.open_syncs import Session
from tasks.redacted_errors import Reported

_EVERY_SECONDS = 2.0


@asynccontextmanager
async def showing_progress(opened: Session) -> AsyncIterator[None]:
    """Update a progress artifact every two seconds. A sync that takes less time has none."""
    shown: list[UUID] = []
    over = asyncio.Event()
    shower = asyncio.create_task(_show_progress(opened, shown, over))
    try:
        yield
        over.set()
        # An update that is in flight must not arrive after the final one.
        await asyncio.wait([shower])
    finally:
        shower.cancel()
        await asyncio.gather(shower, return_exceptions=True)
    for artifact in shown:
        await aupdate_progress_artifact(artifact, 100.0, description=f"{opened.sync.source.name}: done")


async def _show_progress(opened: Session, shown: list[UUID], over: asyncio.Event) -> None:
    sync = opened.sync
    while not await _happens(over, _EVERY_SECONDS):
        if not shown:
            shown.append(
                await acreate_progress_artifact(
                    0.0, key=artifact_key(sync.source.name, "progress"), description=sync.source.name
                )
            )
        await aupdate_progress_artifact(shown[0], sync.progress.share() * 100, description=await described(opened))


async def _happens(event: asyncio.Event, within: float) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(within):
            return await event.wait()
    return False


async def described(opened: Session) -> str:
    """The description of a sync in progress: its source, and its ETA if there is an estimate."""
    sync = opened.sync
    with suppress(Reported):  # The ledger is busy. The next update tries again.
        if (moment := await opened.call(sync.update_eta)) is not None:
            return f"{sync.source.name}: done about {moment.astimezone():%H:%M}"
    return sync.source.name


async def report(opened: Session, more: str = "") -> None:
    """Name the run after its result, followed by `more`, and create a table artifact with the numbers of items."""
    sync, rule = opened.sync, await opened.call(opened.sync.rule)
    table = [{"step": name.replace("_", " "), "items": n} for name, n in sync.progress.summary().items() if n]
    key, description = artifact_key(sync.source.name, "summary"), _headline(sync, rule)
    await asyncio.gather(
        name_run(f"{sync.source.name}: {sync.progress.sentence()} {more}".rstrip()),
        acreate_table_artifact(table, key=key, description=description),
    )


def _headline(sync: SourceSync, rule: str) -> str:
    """The sync's ID, duration and speed. The worker reports the resource usage when the processes have exited."""
    began = sync.sync.began
    took = max((datetime.now(UTC) - began).total_seconds(), 0.001)
    words = [f"Sync {sync.sync.id} of {sync.source.name}: took {took:.1f} s"]
    if items := sync.progress.done():
        words.append(f"{items / took:.0f} items a second")
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


async def schedule_next(name: str, moment: datetime | None) -> None:
    """Schedule the next sync of a source at `moment`, unless one is scheduled then already.

    Does nothing if `moment` is None or the deployment was deleted.
    """
    if moment is None or deployment.id is None:
        return
    # One run for all items due within a second, at its end: this run does not cover items due later in its own second.
    second = moment.replace(microsecond=0) + timedelta(seconds=moment.microsecond > 0)
    await request_run(f"{name}: retries", second, f"{name}:{second.isoformat()}", {})


def artifact_key(source: str, content: str) -> str:
    """Return the artifact key of a source, unique per source, in lower-case letters, digits and dashes."""
    name = source
    if "_" in source:
        # Prefect allows no underscore. The digest distinguishes `my_notes` from `my-notes`.
        digest = hashlib.sha256(source.encode()).hexdigest()[:8]
        name = f"{source.replace('_', '-')}-{digest}"
    return f"{name}-{content}"
