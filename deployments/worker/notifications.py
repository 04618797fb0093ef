"""Wake-ups of the worker: an event of the server reports a run, a run falls due, or the poll interval has passed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from uuid import UUID

from prefect.events import Event
from prefect.events.clients import get_events_subscriber
from prefect.events.filters import EventAnyResourceFilter, EventFilter, EventNameFilter

from tasks.run_states import AWAITING_RETRY, AWAITING_SLOT

CANCELLING = "prefect.flow-run.Cancelling"
_RUNNABLE = (
    "prefect.flow-run.Scheduled",
    f"prefect.flow-run.{AWAITING_RETRY.name}",
    f"prefect.flow-run.{AWAITING_SLOT.name}",
    "prefect.flow-run.Resuming",
    "prefect.flow-run.Rescheduled",
)
_OF_DEPLOYMENTS = ("prefect.deployment.created", "prefect.deployment.updated", "prefect.deployment.deleted")
_PAUSE_SECONDS = 2.0


class Bell:
    """A wake-up signal. Spurious and repeated wake-ups are harmless."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._is_reported = False
        self._timer: asyncio.TimerHandle | None = None

    def ring(self, *, is_reported: bool = False) -> None:
        """Wake the worker. `is_reported`: the server reported a run."""
        self._is_reported |= is_reported
        self._event.set()

    def ring_at(self, moment: datetime) -> None:
        """Wake the worker at this time too, in place of the time before: each poll sets the earliest of all."""
        self.silence()
        self._timer = asyncio.get_running_loop().call_later((moment - datetime.now(UTC)).total_seconds(), self.ring)

    def silence(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()

    async def rung(self) -> bool:
        """Wait for the next wake-up. Returns whether the server reported a run."""
        await self._event.wait()
        self._event.clear()
        is_reported, self._is_reported = self._is_reported, False
        return is_reported


async def listen(
    pool: UUID,
    bell: Bell,
    cancel: Callable[[UUID], object],
    deployments_changed: Callable[[], object],
    warn: Callable[[str], None],
) -> None:
    """Follow the server's events of a work pool, forever. If events are lost, the slow poll finds their runs."""
    names = EventNameFilter(name=[*_RUNNABLE, *_OF_DEPLOYMENTS, CANCELLING])
    of_pool = EventAnyResourceFilter(id=[f"prefect.work-pool.{pool}"])
    reachable = True
    while True:
        try:
            async with get_events_subscriber(filter=EventFilter(event=names, any_resource=of_pool)) as events:
                reachable = True
                bell.ring()
                deployments_changed()
                async for event in events:
                    if event.event in _OF_DEPLOYMENTS:
                        deployments_changed()
                    else:
                        _answer(event, bell, cancel)
        except Exception as error:  # noqa: BLE001 - Prefect raises a bare Exception for a refused login; polling continues
            if reachable:
                warn(f"The event stream of the server is not available ({type(error).__name__}); polling for runs")
            reachable = False
        await asyncio.sleep(_PAUSE_SECONDS)


def _answer(event: Event, bell: Bell, cancel: Callable[[UUID], object]) -> None:
    if event.event == CANCELLING:
        cancel(UUID(event.resource.id.removeprefix("prefect.flow-run.")))
    else:
        bell.ring(is_reported=True)
