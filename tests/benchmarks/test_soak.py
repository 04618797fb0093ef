"""A soak continues after the last finished test, however the round before ended."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from benchmarks.soak import Tally, run_tests

pytestmark = pytest.mark.long

_TESTS = """
import os, signal

def test_first():
    pass

def test_end_of_a_round():
    os.kill(os.getpid(), signal.SIGINT)

def test_last():
    assert False
"""


def test_soak_continues_after_an_interrupted_round(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(_TESTS)

    def outcomes() -> tuple[dict[str, str], bool]:
        run_tests(tmp_path, time.monotonic() + 600, (str(tmp_path / "test_it.py"), "-p", "no:cacheprovider"))
        tally = Tally.read(tmp_path)
        return {name.split("::")[1]: outcome for name, outcome in tally.tests.items()}, tally.tests_done

    Tally().write(tmp_path)
    assert outcomes() == ({"test_first": "passed"}, False)
    assert outcomes() == ({"test_first": "passed", "test_end_of_a_round": "unfinished"}, False)
    assert outcomes()[0]["test_last"] == "failed"
    assert outcomes()[1], "nothing is left"
    assert Tally.read(tmp_path).failures != []


def test_soak_ends_when_no_test_can_be_collected(tmp_path: Path) -> None:
    Tally().write(tmp_path)
    with pytest.raises(SystemExit, match="before the first test"):
        run_tests(tmp_path, time.monotonic() + 600, (str(tmp_path / "none.py"),))
