from __future__ import annotations

import os
import subprocess
import sys

import pytest

from catchment.runtime import process


def test_this_process_is_alive_under_its_own_name() -> None:
    assert process.alive(process.identity())


def test_a_process_that_ended_is_not_alive_even_before_it_is_waited_for() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    name = process.identity(child.pid)
    assert process.alive(name)
    assert child.stdin is not None
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not process.alive(name)
    child.wait()
    assert not process.alive(name)


def test_a_later_process_with_the_same_pid_or_after_a_reboot_is_another_one() -> None:
    boot, pid, started = process.identity().split(":")
    assert not process.alive(f"{boot}:{pid}:{int(started) - 1}")
    assert not process.alive(f"otherboot:{pid}:{started}")


def test_naming_a_process_that_is_gone_says_so() -> None:
    with pytest.raises(ProcessLookupError):
        process.identity(2**22 + 1)
