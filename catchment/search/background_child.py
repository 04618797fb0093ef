"""The child process of `embed` or `recognize`: what it tells its run, and how it lets syncs pass.

Each line of its output is a JSON object: `{}` between two steps, `done` and `total` after one, `{"off": reason}`,
`{"stopped": reason}` or `{"error": …}`. None contains text of the library. After each `{}` it waits for a line of input. It
exits when its input is closed, so that it does not outlive its run.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from catchment.errors import NotFound
from catchment.ledger import Ledger
from catchment.runtime.home import Home

_NICENESS = 10
"""Syncs run at 5."""


def run(flow: str, work: Callable[[Ledger], None]) -> int:
    """Do the work of a flow at low priority, if there is a library and no other host does it.

    Returns the exit code: 1 after an error, which is told by its place alone.
    """
    os.setpriority(os.PRIO_PROCESS, 0, max(_NICENESS, os.getpriority(os.PRIO_PROCESS, 0)))
    try:
        with suppress(NotFound), closing(Ledger.inspect(Home.default())) as ledger, ledger.alone(flow) as is_alone:
            if is_alone:
                work(ledger)
            else:
                tell(elsewhere=True)
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
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(frame.filename).name}:{frame.lineno}"
