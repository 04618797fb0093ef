"""How many runs may live at once, and how busy the machine is."""

from __future__ import annotations

import time

import psutil

from deployments.worker.admission import MachineReading

RUNS_AT_ONCE = 16
"""The cap if nobody set one. Runs share one process and the processor, so a further run costs only its batch in memory."""


class Gauge:
    """Measures how busy the machine was since the last reading.

    Work of low priority does not count: the runner and its parsers have a low priority, so syncs do not slow each other down.
    """

    def __init__(self) -> None:
        psutil.cpu_times_percent(None)

    def read(self) -> MachineReading:
        """How busy it is now; takes 0.1 ms."""
        cpu = psutil.cpu_times_percent(None)
        idle = cpu.idle + cpu.nice + getattr(cpu, "iowait", 0.0)
        return MachineReading(time.monotonic(), max(0.0, 1 - idle / 100), psutil.virtual_memory().percent / 100)
