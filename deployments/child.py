"""The processes that Catchment starts: `python -m deployments.child server|worker|watcher|reclaim`.

Each ends with the process that started it, even when that one is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import socket
import sys
import threading
import time
from typing import TYPE_CHECKING

from catchment.home import Home
from deployments.environment import POOL

if TYPE_CHECKING:
    from deployments.warm.worker import WarmWorker

_PR_SET_PDEATHSIG = 1


def main(role: str, *arguments: str) -> None:
    """Become the server, the worker, the watcher, or what hands the ledger's jobs back."""
    # A shell's background job ignores Ctrl-C and hands that down; here it is how the worker is asked to stop.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _end_with_parent()
    os.umask(0o077)
    if role == "server":
        _serve(int(arguments[0]))
    elif role == "worker":
        _work()
    elif role == "watcher":
        from deployments.watch.__main__ import main as watch

        watch()
    else:
        from deployments.reclaim import main as reclaim

        reclaim()


def _serve(descriptor: int) -> None:
    import uvicorn
    from prefect.server.api.server import create_app

    from deployments.answers import telling
    from deployments.confined import confined
    from deployments.immediate import begin_immediately

    begin_immediately()
    listening = socket.socket(fileno=descriptor)
    config = uvicorn.Config(
        confined(telling(create_app(final=True)), listening.getsockname()[1]),
        log_level="warning",
        # Open event streams never end by themselves; a stop must not wait for them.
        timeout_graceful_shutdown=3,
    )
    uvicorn.Server(config).run(sockets=[listening])


def _work() -> None:
    from deployments.warm.worker import WarmWorker

    worker = WarmWorker(work_pool_name=POOL, name=POOL, create_pool_if_not_found=False)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_take_runs(worker))


async def _take_runs(worker: WarmWorker) -> None:
    """Import everything while the server starts, then wait for the word on stdin: the pool is there and is clean."""
    from deployments.warm.deploying import answering

    async with answering(Home.default(), worker.execute):
        await worker.warm_up()
        if not await asyncio.to_thread(sys.stdin.readline):
            return
        # Ctrl-C is what a worker takes as the wish to let its runs end; a plain end would kill them.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, signal.raise_signal, signal.SIGINT)
        await worker.start()


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
    main(*sys.argv[1:])
