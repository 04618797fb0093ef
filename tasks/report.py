"""What a sync shows in Prefect: its progress while it runs, a name and a table of figures afterwards, and its next try."""

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

from catchment.sync.session import SourceSync
from tasks.coalesce import ask_for_another
from tasks.redacted_errors import Reported
from tasks.session import Session

_EVERY_SECONDS = 2.0


@asynccontextmanager
async def showing_progress(opened: Session) -> AsyncIterator[None]:
    """Keep a progress artifact up to date; a sync that is over in two seconds gets none."""
    shown: list[UUID] = []
    over = asyncio.Event()
    shower = asyncio.create_task(_show_progress(opened, shown, over))
    try:
        yield
        over.set()
        # What it is telling at the moment must not arrive after the end.
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
    """What a sync is called while it runs: its source, and when it will be done."""
    sync = opened.sync
    with suppress(Reported):  # The ledger is busy; the next look may tell.
        if (moment := await opened.call(sync.foretell)) is not None:
            return f"{sync.source.name}: done about {moment.astimezone():%H:%M}"
    return sync.source.name


async def report(opened: Session, more: str = "") -> None:
    """Name the run after what it did, and what `more` there is to say, and leave a table of its figures."""
    sync, rule = opened.sync, await opened.call(opened.sync.rule)
    await name_run(f"{sync.source.name}: {sync.progress.sentence()} {more}".rstrip())
    table = [{"what": name.replace("_", " "), "items": n} for name, n in sync.progress.summary().items() if n]
    await acreate_table_artifact(
        table, key=artifact_key(sync.source.name, "summary"), description=_headline(sync, rule)
    )


def _headline(sync: SourceSync, rule: str) -> str:
    """Which sync it was, and how fast: what its processes used is told by the worker, once they have ended."""
    began = sync.sync.began
    took = max((datetime.now(UTC) - began).total_seconds(), 0.001)
    words = [f"Sync {sync.sync.id} of {sync.source.name}: took {took:.1f} s"]
    if done := sync.progress.done():
        words.append(f"{done / took:.0f} items a second")
    if rule:
        words.append(f"ruled: {rule}")
    if (due := flow_run.scheduled_start_time) is not None:
        words.append(f"waited {max((began - due).total_seconds(), 0.0):.1f} s")
    return ", ".join(words)


async def name_run(name: str) -> None:
    """Give the flow run a name that says what it did."""
    if flow_run.id:
        async with get_client() as client:
            await client.update_flow_run(UUID(flow_run.id), name=name)


async def schedule_next(name: str, moment: datetime | None) -> None:
    """Have the next sync of a source at the moment when there is more to do, unless it is scheduled for then already.

    Of one whose deployment was deleted meanwhile there is none.
    """
    if moment is None or deployment.id is None:
        return
    # One run for what is due within a second, at its end: what is due later in the second of this very run is another's to do.
    second = moment.replace(microsecond=0) + timedelta(seconds=moment.microsecond > 0)
    await ask_for_another(f"{name}: retries", second, f"{name}:{second.isoformat()}", {})


def artifact_key(source: str, what: str) -> str:
    """Return the key of a source's artifact in lowercase letters, digits and dashes; no two sources share one."""
    name = source
    if "_" in source:
        # Prefect allows no underscore. The digest distinguishes `my_notes` from `my-notes`.
        digest = hashlib.sha256(source.encode()).hexdigest()[:8]
        name = f"{source.replace('_', '-')}-{digest}"
    return f"{name}-{what}"
