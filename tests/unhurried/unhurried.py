"""Slow down syncs with the preset `local`, at little CPU cost: batches of five items, and a pause before each delivery.

Takes effect in processes that execute runs and have this folder in PYTHONPATH.
"""

from __future__ import annotations

import sys
import time
from typing import Any

_BATCH = 5
_REST_SECONDS = 0.5


def _take_time() -> None:
    from catchment import settings
    from catchment.ledger.jobs.queue import Queue

    settings._PARSERS_AND_BATCH[settings.Preset.LOCAL] = (1, _BATCH)
    deliver = Queue.deliver

    def unhurried(*arguments: Any) -> Any:
        time.sleep(_REST_SECONDS)
        return deliver(*arguments)

    Queue.deliver = unhurried  # type: ignore[method-assign]


if "deployments.runner" in sys.orig_argv:
    _take_time()
