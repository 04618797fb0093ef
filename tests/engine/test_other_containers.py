"""Which processes live, as seen from another PID namespace that shares the home."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from catchment.runtime import process
from catchment.runtime.home import Home

_INSIDE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
_RESIDENT = """
import sys
from pathlib import Path
from catchment.runtime import process
from catchment.runtime.home import Home

Home(Path(sys.argv[1])).make()
print(process.identity(), flush=True)
for name in sys.stdin:
    print(process.alive(name.strip()), flush=True)
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("CATCHMENT_HOME", str(tmp_path / "home"))
    if subprocess.run([*_INSIDE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may not make a PID namespace")
    return Home.default().make()


@contextmanager
def container(home: Home) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run a process that uses the home in its own PID namespace. Yield its identity."""
    command = [*_INSIDE, sys.executable, "-c", _RESIDENT, str(home.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as inside:
        assert inside.stdout is not None
        yield inside.stdout.readline().strip(), inside
        inside.communicate()


def says(inside: subprocess.Popen[str], name: str) -> str:
    assert inside.stdin is not None and inside.stdout is not None
    inside.stdin.write(f"{name}\n")
    inside.stdin.flush()
    return inside.stdout.readline().strip()


def test_process_in_another_container_is_alive_until_it_ends(home: Home) -> None:
    with container(home) as (name, _inside):
        assert process.pid_of(name) == 1
        assert process.alive(name)
        assert not process.is_local(name)
    assert not process.alive(name)


def test_container_knows_the_processes_outside_and_in_other_containers(home: Home) -> None:
    outside = process.identity()
    with container(home) as (one, of_one), container(home) as (other, of_other):
        assert [says(of_one, outside), says(of_one, other), says(of_other, one)] == ["True"] * 3
        of_other.communicate()
        assert says(of_one, other) == "False"
        # Its own processes are known exactly: this is a pid of no process there.
        assert says(of_one, one.replace(":1:", ":2:")) == "False"


def test_names_of_an_earlier_version_are_of_this_machine() -> None:
    boot, pid, started = process.boot(), os.getpid(), process.identity().rpartition(":")[2]
    assert process.alive(f"{boot}:{pid}:{started}")
    assert not process.alive(f"{boot}:{pid}:0")
