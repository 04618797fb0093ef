"""`catchment logs`: the last lines of a log, and new ones as they are written."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.console.conftest import Cli


@pytest.fixture
def log(state: Path) -> Path:
    file = state / "logs" / "worker.log"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"first\nsecond\n\x1b]0;owned\x07third\n")
    return file


@pytest.fixture
def following(log: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "console", "logs", "-f", "-n", "1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    timer = threading.Timer(30, process.kill)
    timer.start()
    yield process
    timer.cancel()
    process.kill()
    process.wait()
    assert process.stdout
    process.stdout.close()


def test_last_lines_are_shown_without_control_sequences(log: Path, cli: Cli) -> None:
    assert cli("logs", "-n", "2").out == "second\nthird\n" or cli("logs", "-n", "2").out == "second\n third\n"
    assert cli("logs", "worker").out.splitlines()[0] == "first"


def test_missing_log_is_reported_with_the_remedy(log: Path, cli: Cli) -> None:
    response = cli("logs", "server")
    assert (response.code, response.out) == (4, "")
    assert response.err == "catchment: server: no log yet; start Catchment with `catchment up --detach`\n"


def test_since_shows_later_lines_of_both_files_and_what_follows_them(log: Path, cli: Cli) -> None:
    log.with_suffix(".log.1").write_bytes(
        b"2026-11-20T10:00:00.000Z old\n2026-11-20T11:00:00.500Z failed\n  at line 3\n"
    )
    log.write_bytes(b'{"at": "2026-11-20T12:00:00.000Z", "message": "new"}\n')
    shown = cli("logs", "--since", "2026-11-20T10:30Z").out.splitlines()
    assert shown == [
        "2026-11-20T11:00:00.500Z failed",
        "  at line 3",
        '{"at": "2026-11-20T12:00:00.000Z", "message": "new"}',
    ]
    assert cli("logs", "--since", "2026-11-20T10:30Z", "-n", "1").out.splitlines() == shown[-1:]
    assert cli("logs", "--since", "yesterday").code == 2
    assert cli("logs", "--since", "1h").err.startswith("worker: no lines since ")


def test_follow_shows_appended_lines_and_survives_rotation(log: Path, following: subprocess.Popen[str]) -> None:
    assert following.stdout
    assert following.stdout.readline().strip() == "third"
    with log.open("ab") as file:
        file.write(b"fourth\nfif")
        file.flush()
        assert following.stdout.readline() == "fourth\n"
        file.write(b"th\n")
    assert following.stdout.readline() == "fifth\n"
    log.replace(log.with_suffix(".log.1"))
    log.write_bytes(b"new\n")
    assert following.stdout.readline() == "new\n"
