from __future__ import annotations

import os
import subprocess
import sys

import pytest

from catchment.runtime import process


def test_current_process_is_alive() -> None:
    assert process.alive(process.identity())


def test_exited_process_is_not_alive_before_it_is_reaped() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    name = process.identity(child.pid)
    assert process.alive(name)
    assert child.stdin is not None
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not process.alive(name)
    child.wait()
    assert not process.alive(name)


def test_reused_pid_and_reboot_are_distinguished() -> None:
    boot, pid, started = process.identity().split(":")
    assert not process.alive(f"{boot}:{pid}:{int(started) - 1}")
    assert not process.alive(f"otherboot:{pid}:{started}")


def test_naming_an_exited_process_reports_it() -> None:
    with pytest.raises(ProcessLookupError):
        process.identity(2**22 + 1)
