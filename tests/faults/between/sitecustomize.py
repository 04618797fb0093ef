"""Found by every Python that has this folder in PYTHONPATH: the worker, its runs and the watcher ask a proxy for the server.

`BETWEEN` is the address of the proxy. The supervisor and the commands ask the server itself. Syncs whose preset is `local`
deliver five items at a time and rest after it, so that they go on for a while and cost little.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

_API = f"{os.environ['BETWEEN']}/api"
_BATCH = 5
_REST_SECONDS = 0.5


def _ask_the_proxy() -> None:
    from deployments.server import Running

    Running.api_url = property(lambda _: _API)  # type: ignore[assignment]


def _take_time() -> None:
    from catchment import settings
    from catchment.ledger.queue import Queue

    settings._PARSERS_AND_BATCH[settings.Preset.LOCAL] = (1, _BATCH)
    deliver = Queue.deliver

    def unhurried(*arguments: Any) -> Any:
        acknowledged = deliver(*arguments)
        time.sleep(_REST_SECONDS)
        return acknowledged

    Queue.deliver = unhurried  # type: ignore[method-assign]


def _in_forks() -> None:
    from deployments import processes
    from deployments.warm import forge

    named = processes.name_process

    def become(name: str) -> None:
        named(name)
        if name == "worker":
            os.environ["PREFECT_API_URL"] = _API
            forge.take_settings()
        elif name == "watcher":
            _ask_the_proxy()

    processes.name_process = become


if "deployments.zygote" in sys.orig_argv:
    _in_forks()
if {"deployments.zygote", "deployments.warm.forge"} & set(sys.orig_argv):
    _take_time()
