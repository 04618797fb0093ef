"""When the worker looks for work: at once when the server tells of some, when a run falls due, and now and then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from uuid import UUID

from prefect.events import Event
from prefect.events.clients import get_events_subscriber
from prefect.events.filters import EventAnyResourceFilter, EventFilter, EventNameFilter

CANCELLING = "prefect.flow-run.Cancelling"
_RUNNABLE = (
    "prefect.flow-run.Scheduled",
    "prefect.flow-run.AwaitingRetry",
    "prefect.flow-run.AwaitingConcurrencySlot",
    "prefect.flow-run.Resuming",
    "prefect.flow-run.Rescheduled",
)
_PAUSE_SECONDS = 2.0


class Bell:
    """Rings when there may be work. Ringing often or for nothing does no harm."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._told = False
        self._timer: asyncio.TimerHandle | None = None

    def ring(self, *, told: bool = False) -> None:
        """Look now; `told` when the server said that there is a run."""
        self._told |= told
        self._event.set()

    def ring_at(self, moment: datetime) -> None:
        """Look at this moment too; only the soonest is kept, for each look asks again."""
        loop = asyncio.get_running_loop()
        when = loop.time() + max((moment - datetime.now(UTC)).total_seconds(), 0.0)
        if (
            self._timer is None
            or self._timer.cancelled()
            or when < self._timer.when()
            or self._timer.when() < loop.time()
        ):
            self.silence()
            self._timer = loop.call_at(when, self.ring)

    def silence(self) -> None:
        """Forget the moment."""
        if self._timer is not None:
            self._timer.cancel()

    async def rung(self) -> bool:
        """Wait for the next ring; whether the server said that there is a run."""
        await self._event.wait()
        self._event.clear()
        told, self._told = self._told, False
        return told


async def listen(pool: UUID, bell: Bell, cancel: Callable[[UUID], object], warn: Callable[[str], None]) -> None:
    """Follow the server's events of a work pool, for ever. What is missed while it is away, the slow look finds."""
    names = EventNameFilter(name=[*_RUNNABLE, CANCELLING])
    ours = EventAnyResourceFilter(id=[f"prefect.work-pool.{pool}"])
    reachable = True
    while True:
        try:
            async with get_events_subscriber(filter=EventFilter(event=names, any_resource=ours)) as events:
                reachable = True
                bell.ring()
                async for event in events:
                    _answer(event, bell, cancel)
        except Exception as error:  # noqa: BLE001 - a refused login is a bare Exception there; without events all goes on slower
            if reachable:
                warn(f"The event stream of the server is not available ({type(error).__name__}); polling for runs")
            reachable = False
        await asyncio.sleep(_PAUSE_SECONDS)


def _answer(event: Event, bell: Bell, cancel: Callable[[UUID], object]) -> None:
    if event.event == CANCELLING:
        cancel(UUID(event.resource.id.removeprefix("prefect.flow-run.")))
    else:
        bell.ring(told=True)
