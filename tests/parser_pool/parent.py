"""A program to be killed: it keeps a pool busy and prints the IDs of the fork server and of the parser processes."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import psutil

from catchment.parser_pool import ParserPool
from catchment.settings import Limits
from tests.parser_pool import jobs
from tests.waiting import until


def main(paths: list[str]) -> None:
    """Have the parser processes write their IDs to `paths`, then wait to be killed."""
    pool = ParserPool(2)
    threading.Thread(target=lambda: list(pool.run(jobs.announce, paths, Limits())), daemon=True).start()
    until(lambda: all(Path(path).exists() and Path(path).read_text() for path in paths))
    print(*(child.pid for child in psutil.Process(os.getpid()).children(recursive=True)), flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1:])
