"""What is measured of a run, and how a long run yields to the rest of the machine."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import pytest

from deployments.warm.usage import Watched


@pytest.fixture
def family() -> Iterator[psutil.Process]:
    """A process of 50 MB with a child of 50 MB."""
    grow = "data = b'x' * 50_000_000; print('grown', flush=True);"
    parent = f"import subprocess, sys; {grow} subprocess.run([sys.executable, '-c', {grow + 'input()'!r}])"
    with subprocess.Popen([sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() + process.stdout.readline() == b"grown\n" * 2
        yield psutil.Process(process.pid)
        process.communicate(b"\n")


def test_the_memory_of_a_run_counts_the_processes_it_started(family: psutil.Process) -> None:
    watched = Watched(family)

    watched.sample()

    assert watched.memory > 100_000_000


def test_a_run_that_takes_long_yields_to_the_rest_of_the_machine(family: psutil.Process) -> None:
    quick, long = Watched(family), Watched(family, since=time.monotonic() - 3_600)

    quick.sample()
    assert family.nice() == 0
    long.sample()

    assert [process.nice() for process in (family, *family.children())] == [5, 5]


def test_a_run_that_takes_long_leaves_the_disk_to_others(family: psutil.Process) -> None:
    Watched(family, since=time.monotonic() - 3_600).sample()

    assert family.ionice().ioclass == psutil.IOPRIO_CLASS_IDLE


def test_a_run_that_has_ended_is_no_trouble(family: psutil.Process) -> None:
    watched = Watched(family)
    for process in (*family.children(), family):
        process.kill()
    family.wait()

    watched.sample()

    assert watched.memory == 0
