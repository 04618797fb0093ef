"""Who collects the garbage of the Prefect server: a thread of its own.

A request that is given up leaves a cursor of SQLite behind, and whoever collects that one has to wait until its connection does
nothing. Should it be the event loop, while the connection waits for another's transaction, then that transaction waits for
the event loop: all stand still until SQLite gives up, after a minute.
"""

from __future__ import annotations

import gc
import threading
import time

_LOOK_SECONDS = 0.5


def collect_aside() -> None:
    """From now on collect this process's garbage in a thread, with the thresholds of the interpreter."""
    gc.disable()
    threading.Thread(target=_collect, name="garbage", daemon=True).start()


def _collect() -> None:
    thresholds = gc.get_threshold()
    while True:
        time.sleep(_LOOK_SECONDS)
        counts = gc.get_count()
        due = [generation for generation, most in enumerate(thresholds) if counts[generation] > most]
        if due:
            gc.collect(max(due))
