"""The runner process: `python -P -m deployments.runner FD PACKAGE`, started by `deployments.worker.runner_process`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from multiprocessing.connection import Connection

from catchment.parser_pool import ParserPool
from catchment.runtime.installation import CONNECTORS, extensions
from catchment.runtime.system.linux import name_process
from catchment.sync.shared import configure_gc, use_pool
from deployments.runner.preload import (
    PREFECT,
    SourceFiles,
    complete_models,
    load,
    parser_modules,
    requested_modules,
    silence_runs,
)
from deployments.runner.runner import Runner

_MOST_PARSERS = 8
_NICENESS = 5
"""The runner and its parsers yield to interactive programs, and to the server that shows their progress."""


def main() -> None:
    """Serve the worker at the other end of the given file descriptor until it closes the connection.

    It executes the flows of a package: ours, or those of the kinds of source of another one.
    """
    # Ctrl-C in a terminal reaches the whole process group; only the worker may stop runs.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICENESS)
    name_process("runner")
    threading.current_thread().name = "runner"
    link, package = Connection(int(sys.argv[1])), sys.argv[2]
    # Before the imports, which leave hardly any garbage.
    configure_gc()
    requested = requested_modules(package)
    added = [each.point.module for each in extensions(CONNECTORS).values() if each.package == package]
    files = SourceFiles((*requested, *added))
    failed = load((*PREFECT, *requested))
    silence_runs()
    complete_models()
    # Before any thread exists: the pool's fork server is started by a fork of this process.
    with ParserPool(min(_MOST_PARSERS, os.cpu_count() or 1), preload=parser_modules(package)) as pool:
        pool.start()
        use_pool(pool)
        asyncio.run(_serve(Runner(link, files, tuple(failed)), pool))


async def _serve(runner: Runner, pool: ParserPool) -> None:
    await runner.serve()
    pool.close()
    # A normal exit of the interpreter would wait for threads that never return.
    os._exit(0)


if __name__ == "__main__":
    main()
