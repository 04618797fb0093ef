"""The default limit of concurrent runs, and the load of the machine."""

from __future__ import annotations

import time

import psutil

from deployments.runs.admission import MachineReading

RUNS_AT_ONCE = 16
"""The default cap. Runs share one process and its CPU use, so one more run costs only the memory of its batch."""


class Gauge:
    """Measures the load of the machine since the last reading.

    Low-priority work does not count: the runner and its parsers have a low priority, so syncs do not slow each other down.
    """

    def __init__(self) -> None:
        psutil.cpu_times_percent(None)

    def read(self) -> MachineReading:
        """Return the current load. Takes 0.1 ms."""
        cpu = psutil.cpu_times_percent(None)
        idle = cpu.idle + cpu.nice + getattr(cpu, "iowait", 0.0)
        return MachineReading(time.monotonic(), max(0.0, 1 - idle / 100), psutil.virtual_memory().percent / 100)
