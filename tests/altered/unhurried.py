"""Slow down syncs with the preset `local`, at little CPU cost: batches of five items, and a pause before each delivery.

Takes effect in processes that execute runs, have this folder in PYTHONPATH, and have the seconds of a pause in `REST_SECONDS`.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

_BATCH = 5


def _take_time(seconds: float) -> None:
    from catchment import settings
    from catchment.ledger.jobs.queue import Queue

    settings._PARSERS_AND_BATCH[settings.Preset.LOCAL] = (1, _BATCH)
    deliver = Queue.deliver

    def unhurried(*arguments: Any) -> Any:
        time.sleep(seconds)
        return deliver(*arguments)

    Queue.deliver = unhurried  # type: ignore[method-assign]


if "deployments.runner" in sys.orig_argv and "REST_SECONDS" in os.environ:
    _take_time(float(os.environ["REST_SECONDS"]))
