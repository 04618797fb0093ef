"""A terminated benchmark leaves no process running."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from catchment.runtime.home import Home
from deployments.server.running import holder, running
from deployments.supervisor.supervisor import down
from tests.waiting import until

pytestmark = [pytest.mark.server, pytest.mark.long]

_BENCHMARK = """
import time
from benchmarks.system import started
from catchment.runtime.home import Home

with started(Home.default()):
    time.sleep(600)
"""


@pytest.mark.parametrize(
    ("phase", "number"), [(holder, signal.SIGHUP), (running, signal.SIGTERM)], ids=["starting", "running"]
)
def test_benchmark_that_is_terminated_stops_its_system(
    home: Home, phase: Callable[[Home], object], number: signal.Signals
) -> None:
    with subprocess.Popen([sys.executable, "-c", _BENCHMARK], stdout=subprocess.DEVNULL) as benchmark:
        try:
            until(lambda: phase(home) is not None)
            benchmark.send_signal(number)
            assert benchmark.wait(120) == 128 + number
            assert holder(home) is None
        finally:
            benchmark.kill()
            down(home)
