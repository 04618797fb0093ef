"""A program to be killed: it keeps a sandbox busy, forks itself, and says the number of the fork."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

from catchment.sandbox import Sandbox
from catchment.settings import Limits
from tests.sandbox import jobs
from tests.waiting import until


def main(paths: list[str]) -> None:
    """Have the sandbox announce its workers at `paths`, then wait to be killed."""
    sandbox = Sandbox(2)
    threading.Thread(target=lambda: list(sandbox.run(jobs.announce, paths, Limits())), daemon=True).start()
    until(lambda: all(Path(path).exists() and Path(path).read_text() for path in paths))
    fork = os.fork()
    if fork:
        print(fork, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1:])
