"""`python -m benchmarks.idle [SECONDS]`: resource usage of the whole system while three watched sources do not change.

CPU in percent of one core, over the given seconds (default 120). Memory in MB: resident (RSS) and proportional (PSS, shared
pages counted in parts).
"""

from __future__ import annotations

import json
import sys
import time

import psutil

from benchmarks.system import add_vault, by_role, empty, own_mb, started
from catchment.settings import Home

_NOTES = 100
_REST = 40.0
"""Seconds between the last sync and the measurement, for work after the start to finish."""


def main(seconds: float) -> None:
    """Start a separate system, let it become idle, and take two samples."""
    with empty("idle") as place, started(home := Home(place / "home")) as state:
        for name in ("one", "two", "three"):
            add_vault(home, place / name, name, _NOTES, watch=True)
        time.sleep(_REST)
        figures = _measured(by_role(state), seconds)
    for role, figure in figures.items():
        print(f"{role:12}{figure['cpu']:6.2f} %{figure['resident']:8.0f} MB resident{figure['own']:8.0f} MB its own")
    print(json.dumps(figures))


def _measured(roles: dict[psutil.Process, str], seconds: float) -> dict[str, dict[str, float]]:
    before = {process: _cpu(process) for process in roles}
    begun = time.monotonic()
    time.sleep(seconds)
    lasted = time.monotonic() - begun
    figures: dict[str, dict[str, float]] = {}
    for process, role in roles.items():
        figure = figures.setdefault(role, {"cpu": 0.0, "resident": 0.0, "own": 0.0})
        figure["cpu"] += 100 * (_cpu(process) - before[process]) / lasted
        figure["resident"] += process.memory_info().rss / 1e6
        figure["own"] += own_mb(process)
    parts = list(figures.values())
    return figures | {"all": {key: sum(part[key] for part in parts) for key in ("cpu", "resident", "own")}}


def _cpu(process: psutil.Process) -> float:
    """CPU seconds, including exited children: short-lived processes count, too."""
    return sum(process.cpu_times()[:4])


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 120)
