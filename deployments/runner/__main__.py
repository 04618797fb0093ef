"""The runner as a process: `python -P -m deployments.runner FD`, started by `deployments.worker.runner_process`."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
from multiprocessing.connection import Connection

from deployments.runner.preload import SourceFiles, complete_models, load, wanted
from deployments.runner.runner import Runner
from deployments.server.child_process import name_process

_ALLOCATIONS_BETWEEN_COLLECTIONS = 50_000
"""A batch makes a hundred thousand tuples and no cycle: 8 % less CPU time over 10,000 notes than the default of 700."""

_NICENESS = 5
"""The runner and its parsers yield to the programs that a person uses, and to the server that shows their progress."""


def main() -> None:
    """Serve the worker at the other end of the given file descriptor until it closes the connection."""
    # Ctrl-C in a terminal reaches the whole process group; the worker decides what happens to the runs.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICENESS)
    name_process("runner")
    threading.current_thread().name = "runner"
    link = Connection(int(sys.argv[1]))
    files = SourceFiles(wanted())
    failed = load(wanted())
    complete_models()
    gc.set_threshold(_ALLOCATIONS_BETWEEN_COLLECTIONS, 20, 50)
    asyncio.run(_serve(Runner(link, files, tuple(failed))))


async def _serve(runner: Runner) -> None:
    await runner.serve()
    # Not by way of the interpreter, which would wait for threads that never return.
    os._exit(0)


if __name__ == "__main__":
    main()
