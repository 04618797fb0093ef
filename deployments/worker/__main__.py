"""The worker process: `python -P -m deployments.worker [FD]`, started by `catchment up`. Waits until the pipe FD is closed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys

from prefect.logging import get_logger

from catchment.runtime.child_process import become_child
from catchment.runtime.home import Home
from catchment.runtime.membership import Membership
from catchment.runtime.system.linux import IS_LINUX
from deployments.server.environment import POOL
from deployments.worker.worker import WarmWorker


def main() -> None:
    """Serve the work pool of this home until SIGTERM or Ctrl-C."""
    become_child("worker")
    for gate in map(int, sys.argv[1:]):
        os.read(gate, 1)
        os.close(gate)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve())


async def _serve() -> None:
    # On SIGINT Prefect's worker stops its runs; on SIGTERM it would kill them.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, signal.raise_signal, signal.SIGINT)
    home = Home.default()
    host = Membership.of(home)
    worker = WarmWorker(
        work_pool_name=POOL,
        work_queues=list(host.queues) if host else None,
        name=host.name if host else POOL,
        create_pool_if_not_found=False,
    )
    worker.home, worker.membership = home, host
    if IS_LINUX:
        # The watcher uses inotify. Elsewhere the schedules find the changes.
        from deployments.watch.thread import WatcherThread

        worker.watcher = WatcherThread(home, get_logger("watcher"))
    await worker.start()


if __name__ == "__main__":
    main()
