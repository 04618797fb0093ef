"""A system in a container and commands outside, in two PID namespaces that share the home."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from catchment.runtime.home import Home
from catchment.runtime.process import boot, pid_of

if TYPE_CHECKING:
    from tests.console.conftest import Cli

_ELSEWHERE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
_SUPERVISOR = """
import os
import sys
from datetime import UTC, datetime
from catchment.runtime.home import Home
from deployments.server.running import Running, record, supervisor_lock

home = Home.default().make()
with supervisor_lock(home) as is_held:
    record(home, Running(1, os.getpid(), datetime.now(UTC), 0, 0, ""))
    print(is_held, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def contained(filled: Path) -> Iterator[subprocess.Popen[str]]:
    """A process in another PID namespace that holds the home as its supervisor does."""
    if subprocess.run([*_ELSEWHERE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may not make a PID namespace")
    command = [*_ELSEWHERE, sys.executable, "-c", _SUPERVISOR]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        yield process
        process.communicate()


def test_commands_outside_a_container_see_the_system_inside(
    cli: Cli, filled: Path, tmp_path: Path, contained: subprocess.Popen[str]
) -> None:
    held_by = (Home(filled).run / "up.lock").read_text()
    assert pid_of(held_by) == 1, "this pid is that of another process here"
    assert held_by.partition("-")[0] == boot()
    assert cli("backup", str(tmp_path / "kept.db")).code == 0
    before = (filled / "ledger.db").read_bytes()
    assert cli("status", "--json").json["server"]["running"]
    assert "runs in another container; run commands there" in cli("status").out
    assert "state    in another container\n\nNext:          catchment search WORDS " in cli().out
    for probe in ("health", "doctor"):
        assert "another container" in cli(probe).out
    response = cli("sync", "notes")
    assert (response.code, "another container" in response.err) == (5, True)
    for words in (["restore", str(tmp_path / "kept.db")], ["down"], ["up", "--detach"]):
        response = cli(*words)
        assert (response.code, response.err.count("\n")) == (5, 1), words
    assert (filled / "ledger.db").read_bytes() == before
    assert contained.poll() is None
    contained.communicate()
    assert not cli("status", "--json").json["server"]["running"]
    assert cli("restore", str(tmp_path / "kept.db")).code == 0
