"""What the machine has and how busy it is."""

from __future__ import annotations

import os
import time

import psutil

from deployments.worker.admission import HOT_MEMORY, Machine, Reading

RUNS_AT_ONCE = 16
"""The cap if nobody set one. Runs share one process and the processor, so a further run costs only its batch in memory."""


def this_machine() -> Machine:
    """The cores of this machine, and the memory that runs may take together before the machine counts as busy."""
    return Machine(os.cpu_count() or 1, psutil.virtual_memory().total * HOT_MEMORY / 1e6)


class Gauge:
    """Tells how busy the machine was since it was last asked.

    Work of low priority is not counted as busy: it gives way by itself, so to run less of it would help nobody.
    """

    def __init__(self) -> None:
        psutil.cpu_times_percent(None)

    def read(self) -> Reading:
        """How busy it is now; takes 0.1 ms."""
        cpu = psutil.cpu_times_percent(None)
        idle = cpu.idle + cpu.nice + getattr(cpu, "iowait", 0.0)
        return Reading(time.monotonic(), max(0.0, 1 - idle / 100), psutil.virtual_memory().percent / 100)
