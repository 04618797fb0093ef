"""Record when each step of a sync requests a slot of the fair queue, starts and ends.

In every process that has this folder in PYTHONPATH, executes runs, and has the path of a file in `RECORDED_STEPS`. A line of
the file has a time in seconds, the event, and the numbers of the sync and the thread.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path


def _record(file: Path) -> None:
    from catchment.sync.fair_share import FairQueue, Share

    lines = file.open("a", buffering=1)
    wait, end = FairQueue.wait, FairQueue.end

    def note(event: str, share: Share) -> None:
        lines.write(f"{time.monotonic()} {event} {id(share)} {threading.get_ident()}\n")

    def recorded_wait(queue: FairQueue, share: Share) -> None:
        note("asked", share)
        wait(queue, share)
        note("started", share)

    def recorded_end(queue: FairQueue, share: Share) -> None:
        note("ended", share)
        end(queue, share)

    FairQueue.wait = recorded_wait  # type: ignore[method-assign]
    FairQueue.end = recorded_end  # type: ignore[method-assign]


if "deployments.runner" in sys.orig_argv and "RECORDED_STEPS" in os.environ:
    _record(Path(os.environ["RECORDED_STEPS"]))
