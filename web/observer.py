"""What the web process watches in the background: figures every minute, incidents every ten seconds."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable

from anyio import CapacityLimiter, to_thread

from catchment.errors import CatchmentError, NotFound

_JUDGE_SECONDS = 10.0
_SAMPLE_SECONDS = 60.0
_ROLL_SECONDS = 300.0


class Observer:
    """Calls each duty at its interval in one thread, so that they never overlap. A duty that fails is repeated in time.

    Args:
        judge: Opens and closes incidents. Raises CatchmentError.
        sample: Stores the gauges. Raises CatchmentError.
        roll: Merges old figures. Raises CatchmentError.
    """

    def __init__(self, judge: Callable[[], None], sample: Callable[[], None], roll: Callable[[], None]) -> None:
        self._duties = {judge: _JUDGE_SECONDS, sample: _SAMPLE_SECONDS, roll: _ROLL_SECONDS}

    async def run(self) -> None:
        """Watch until cancelled."""
        alone, due = CapacityLimiter(1), dict.fromkeys(self._duties, 0.0)
        while True:
            for duty, seconds in self._duties.items():
                if time.monotonic() >= due[duty]:
                    due[duty] = time.monotonic() + seconds
                    await to_thread.run_sync(_attempt, duty, limiter=alone)
            await asyncio.sleep(1)


def _attempt(duty: Callable[[], None]) -> None:
    try:
        duty()
    except NotFound:
        return  # There is no ledger before the first source.
    except CatchmentError as error:
        sys.stderr.write(f"observer: {error}\n")
