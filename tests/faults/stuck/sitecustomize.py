"""Block the server or a sync while a marker file exists.

Every Python with this folder in PYTHONPATH imports this module. The folder named by `STUCK` contains the marker:
`server` or `web` for a call that never returns and blocks all threads of that process, `sync` for a lock that is taken on
delivery and never released. The supervisor checks both each second in place of every five.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

_WANTED = Path(os.environ["STUCK"])


def _watch(marker: str) -> None:
    while not (_WANTED / marker).exists():
        time.sleep(0.05)
    call = ctypes.PyDLL(None).pause
    while True:
        call()


def _wrap_server(marker: str) -> None:
    import uvicorn

    run = uvicorn.Server.run

    def watched(*arguments: Any, **options: Any) -> None:
        threading.Thread(target=_watch, args=(marker,), daemon=True).start()
        run(*arguments, **options)

    uvicorn.Server.run = watched  # type: ignore[method-assign]


def _wrap_delivery() -> None:
    from catchment.ledger.jobs.queue import Queue

    deliver = Queue.deliver

    def stuck(*arguments: Any) -> Any:
        if (_WANTED / "sync").exists():
            lock = threading.Lock()
            lock.acquire()
            lock.acquire()
        return deliver(*arguments)

    Queue.deliver = stuck  # type: ignore[method-assign]


def _check_often() -> None:
    from deployments.supervisor import silence

    silence._INTERVAL_SECONDS = 1.0


if "deployments.supervisor.detached" in sys.orig_argv:
    _check_often()
if "deployments.server.app" in sys.orig_argv:
    _wrap_server("server")
if sys.orig_argv[2:4] == ["-m", "web"]:
    _wrap_server("web")
if "deployments.runner" in sys.orig_argv:
    _wrap_delivery()
