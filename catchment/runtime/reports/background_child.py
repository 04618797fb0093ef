"""The child process of a flow that belongs to no source: what it tells its run, and how it lets syncs pass.

Each line of its output is a JSON object: `{}` between two steps, `done` and `total` after one, `{"off": reason}`,
`{"stopped": reason}` or `{"error": …}`. None contains text of the library. After each `{}` it waits for a line of input. It
exits when its input is closed, so that it does not outlive its run.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_NICENESS = 10
"""Syncs run at 5."""


def run(work: Callable[[], None]) -> int:
    """Do the work at low priority. Returns the exit code: 1 after an error, which is told by its place alone."""
    os.setpriority(os.PRIO_PROCESS, 0, max(_NICENESS, os.getpriority(os.PRIO_PROCESS, 0)))
    try:
        work()
    except Exception as error:  # noqa: BLE001 - the message of an error may contain text of the library
        tell(error=f"{type(error).__name__} at {_location(error)}")
        return 1
    return 0


def tell(**values: object) -> None:
    """Tell the run something."""
    sys.stdout.write(f"{json.dumps(values)}\n")
    sys.stdout.flush()


@contextmanager
def permission() -> Iterator[None]:
    """Wait for permission. No lock of the ledger may be held meanwhile."""
    tell()
    if not sys.stdin.readline():
        sys.exit(1)
    yield


def _location(error: BaseException) -> str:
    """Return the file and line that raised the error."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "?" if trace is None else f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
