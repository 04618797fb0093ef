"""The worker of `catchment up` as a process: `python -m deployments.warm`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

from deployments.server.child_process import become_child
from deployments.server.environment import POOL
from deployments.warm.forge import lean_settings


def main() -> None:
    """Take the runs of our pool until SIGTERM or Ctrl-C."""
    become_child("worker")
    os.environ.update(lean_settings(os.environ))
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_take_runs())


async def _take_runs() -> None:
    # Imported here: Prefect reads the settings when it is imported.
    from deployments.warm.worker import WarmWorker

    # On SIGINT a worker lets its runs end; on SIGTERM it would kill them.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, signal.raise_signal, signal.SIGINT)
    await WarmWorker(work_pool_name=POOL, name=POOL, create_pool_if_not_found=False).start()


if __name__ == "__main__":
    main()
