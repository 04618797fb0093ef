"""The processes that Catchment starts: `python -m deployments.child server|worker|run`. Only this module imports Prefect.

Each ends with the process that started it, even when that one is killed.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import runpy
import signal
import sys
import threading
import time

from deployments.environment import POOL

_PR_SET_PDEATHSIG = 1


def main(role: str) -> None:
    """Become the server, the worker, or one flow run."""
    _end_with_parent()
    if role == "server":
        _serve()
    elif role == "worker":
        _work()
    else:
        sys.argv = ["prefect.engine"]
        runpy.run_module("prefect.engine", run_name="__main__")


def _serve() -> None:
    import uvicorn
    from prefect.server.api.server import create_app

    uvicorn.run(
        create_app(final=True),
        host="127.0.0.1",
        port=int(os.environ["PREFECT_SERVER_API_PORT"]),
        log_level="warning",
        # Open event streams never end by themselves; a stop must not wait for them.
        timeout_graceful_shutdown=3,
    )


def _work() -> None:
    """Load everything while the server starts, then wait for the word on stdin: the pool is there and is clean."""
    from prefect.workers.process import ProcessWorker

    if not sys.stdin.readline():
        return
    signal.signal(signal.SIGTERM, _interrupt)
    worker = ProcessWorker(work_pool_name=POOL, name="catchment", create_pool_if_not_found=False)
    try:
        asyncio.run(worker.start())
    except KeyboardInterrupt:
        sys.exit(0)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _end_with_parent() -> None:
    parent = os.getppid()
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == 1:
            # The parent died before the request was made.
            os._exit(1)
    else:
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1])
