"""The overhead of the parser pool: many small tasks without work, 2 KB in and 3 KB out. Prints JSON."""

from __future__ import annotations

import json
import os
import sys
import time

from catchment.parser_pool import ParserPool
from catchment.settings import Limits


def answer(data: bytes) -> bytes:
    """Return more data than the input, in the proportion of a parsed note to its file."""
    return data + data[:1_024]


def pass_through(count: int) -> dict[str, float]:
    """Send `count` tasks through a warm pool."""
    tasks = [os.urandom(2_048) for _ in range(count)]
    with ParserPool() as pool:
        list(pool.run(answer, tasks[:100], Limits()))
        start, used = time.perf_counter(), time.process_time()
        received = sum(len(outcome) for _, outcome in pool.run(answer, tasks, Limits()) if isinstance(outcome, bytes))
        seconds, used = time.perf_counter() - start, time.process_time() - used
    if received != count * 3_072:
        sys.exit("a task gave no result")
    return {"seconds": seconds, "parent_microseconds_per_task": used / count * 1e6}


def main(count: int) -> None:
    """Print the measurement for `count` tasks. Must be called from an imported module, because tasks are found by module."""
    print(json.dumps(pass_through(count)))
