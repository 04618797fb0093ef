"""What is measured of a run, how a long one yields to the rest of the machine, and when one took too much memory."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

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
    assert (family.nice(), quick.bulk) == (0, False)
    long.sample()

    assert [process.nice() for process in (family, *family.children())] == [10, 10]
    assert long.bulk


def test_what_a_long_run_starts_leaves_the_disk_to_others_and_the_run_itself_is_last_in_line(
    family: psutil.Process,
) -> None:
    Watched(family, since=time.monotonic() - 3_600).sample()

    assert tuple(family.ionice()) == (psutil.IOPRIO_CLASS_BE, 7)
    assert [child.ionice().ioclass for child in family.children()] == [psutil.IOPRIO_CLASS_IDLE]


def test_a_long_run_yields_also_where_the_system_shares_the_processor_among_sessions() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True) as leader:
        share = Path(f"/proc/{leader.pid}/autogroup")
        # On a system that shares among processes alone there is no such file.
        wanted = share.read_text().replace("nice 0", "nice 10") if share.exists() else ""
        watched = Watched(psutil.Process(leader.pid), since=time.monotonic() - 3_600)
        deadline = time.monotonic() + 10
        while _text(share) != wanted and time.monotonic() < deadline:
            # The system takes one such wish in a tenth of a second, and others have theirs.
            watched.sample()

        assert leader.poll() is None
        assert _text(share) == wanted


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def test_a_run_may_hold_as_much_memory_as_it_is_allowed(family: psutil.Process) -> None:
    enough, little = Watched(family, allowed=200_000_000), Watched(family, allowed=80_000_000)

    for _ in range(3):
        enough.sample()
        little.sample()

    assert enough.excess == ""
    assert re.match(r"used 1\d\d\.\d MB of 80\.0 MB allowed; raise resources\.memory_mb", little.excess)


def test_a_moment_above_what_is_allowed_does_no_harm(family: psutil.Process) -> None:
    watched = Watched(family, allowed=1)

    watched.sample()
    watched.allowed = 200_000_000
    watched.sample()
    watched.allowed = 1
    watched.sample()

    assert watched.excess == ""


def test_a_process_with_a_limit_of_its_own_is_not_counted(family: psutil.Process) -> None:
    [child] = family.children()
    child.rlimit(psutil.RLIMIT_DATA, (1 << 40, 1 << 40))
    watched = Watched(family, allowed=80_000_000)

    for _ in range(3):
        watched.sample()

    assert watched.excess == ""
    assert watched.memory > 100_000_000


def test_a_run_that_has_ended_is_no_trouble(family: psutil.Process) -> None:
    watched = Watched(family)
    for process in (*family.children(), family):
        process.kill()
    family.wait()

    watched.sample()

    assert watched.memory == 0
