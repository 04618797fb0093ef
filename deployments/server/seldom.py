"""How often the Prefect server looks for work of its own: each look costs, and a system at rest does little else.

Its background worker, of the library docket, looks eight times a second at a store in its own memory, which says by itself
what is to be done at once; and ten times a second for the order to break a task off, which Prefect never gives.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import docket
import prefect
from prefect.server.api import background_workers

from deployments.server.environment import TRIED_PREFECT

_TRIED_DOCKET = "0.27."
_LOOK = timedelta(seconds=1)
"""What is due later is begun as much later at most; Prefect's services are due every 5 seconds and less often."""


class Seldom(docket.Worker):
    """Docket's own worker, which looks once a second and hears of no order to break off."""

    def __init__(self, of: docket.Docket, **how: Any) -> None:
        super().__init__(of, minimum_check_interval=_LOOK, scheduling_resolution=_LOOK, **how)

    async def _cancellation_listener(self) -> None:
        session = self._processing_session
        assert session is not None
        session.cancellation_ready.set()
        await session.stopping.wait()


def look_seldom() -> None:
    """Use it in this process, with the versions that it was tried with; others run as they are."""
    if prefect.__version__.startswith(TRIED_PREFECT) and docket.__version__.startswith(_TRIED_DOCKET):
        background_workers.Worker = Seldom  # type: ignore[assignment,attr-defined]
