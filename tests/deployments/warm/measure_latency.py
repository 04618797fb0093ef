"""From the creation of a run to its completion, with the warm worker and with Prefect's process worker, one after the other.

    python -m pytest -s tests/deployments/warm/measure_latency.py

It takes two minutes and is no test: figures differ from machine to machine and are printed, not judged.
"""

from __future__ import annotations

import os
import statistics
import time
from datetime import datetime

import pytest

from tests.deployments.warm.conftest import Pool

_RUNS = 10

pytestmark = [pytest.mark.server, pytest.mark.timeout(400)]


def _seconds(pool: Pool) -> list[float]:
    """What each run took, by the server's clock; runs are apart from each other, as a person's are."""
    taken = []
    for _ in range(_RUNS):
        # Nobody asks the server while it is busy with the run.
        run = pool.run("answer")
        time.sleep(1.2)
        done = pool.await_state(run, "COMPLETED")
        taken.append(
            (datetime.fromisoformat(done["end_time"]) - datetime.fromisoformat(done["created"])).total_seconds()
        )
    return taken


def _print(name: str, taken: list[float]) -> None:
    load = os.getloadavg()[0]
    middle = statistics.median(taken)
    print(f"\n{name}: median {middle:.2f} s of {len(taken)}, {min(taken):.2f}-{max(taken):.2f} s, load {load:.1f}")


def test_latency(other_pool: Pool) -> None:
    other_pool.await_state(other_pool.run("answer"), "COMPLETED")
    warm = _seconds(other_pool)
    other_pool.stop_worker()

    other_pool.environment["PREFECT_WORKER_QUERY_SECONDS"] = "10"
    other_pool.start_worker("process")
    stock = _seconds(other_pool)

    _print("warm worker", warm)
    _print("process worker of Prefect, looking every 10 s", stock)
