"""Programs of a connector as shell operations: their results, and their log lines."""

from __future__ import annotations

import logging
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from catchment.contracts import Ended, Shell
from catchment.errors import HomeUnavailable
from connectors.github.git.plain_shell import run
from tasks.shell import run_in_flow
from tests.waiting import until

pytestmark = pytest.mark.full

EITHER = pytest.mark.parametrize("shell", [run, run_in_flow])


def _python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


@EITHER
def test_arguments_are_passed_unchanged(shell: Shell) -> None:
    hostile = ["a b", "$HOME", "`id`", "';exit 9;'", "*", "new\nline", "--flag", "ü\\n", ""]
    ended = shell([*_python("import sys; print(sys.argv[1:])"), *hostile], {}, 20)
    assert ended == Ended(0, f"{hostile}\n")


@EITHER
def test_any_output_and_exit_code_are_returned(shell: Shell) -> None:
    code = r"import os, sys; os.write(1, b'out\xff\n'); os.write(2, b'err\n'); sys.exit(7)"
    assert shell(_python(code), {}, 20) == Ended(7, "out\ufffd\nerr\n")


@EITHER
def test_program_has_no_standard_input(shell: Shell) -> None:
    assert shell(_python("import sys; print(repr(sys.stdin.read()))"), {}, 20) == Ended(0, "''\n")


@EITHER
def test_environment_extends_that_of_the_process(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEPT", "kept")
    code = "import os; print(os.environ['KEPT'], os.environ['ADDED'])"
    assert shell(_python(code), {"ADDED": "a 'quoted' $word"}, 20).output == "kept a 'quoted' $word\n"


@EITHER
def test_program_over_its_time_limit_is_killed_with_descendants(shell: Shell, tmp_path: Path) -> None:
    number = tmp_path / "number"
    inner = f"import os, pathlib, time; pathlib.Path({str(number)!r}).write_text(str(os.getpid())); time.sleep(600)"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
    assert shell(_python(code), {}, 4).code is None
    until(lambda: not psutil.pid_exists(int(number.read_text())))


@EITHER
def test_silent_program_is_killed_and_one_with_progress_is_not(shell: Shell) -> None:
    talking = "import time\nfor _ in range(8): print('on', flush=True); time.sleep(0.4)"
    assert shell(_python(talking), {}, 60, 10) == Ended(0, "on\n" * 8)
    before = time.monotonic()
    assert shell(_python("import time; print('on', flush=True); time.sleep(60)"), {}, 60, 1.0).code is None
    assert time.monotonic() - before < 50


@EITHER
def test_arguments_and_output_are_not_logged(
    shell: Shell, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("prefect"), "propagate", True)
    with caplog.at_level(logging.INFO):
        shell(_python("print('said-it'); raise SystemExit(3)"), {"TOKEN": "secret-value"}, 20)
    for private in ("said-it", "secret-value", "SystemExit", sys.executable):
        assert private not in caplog.text
    assert ("triggered with 1 commands" in caplog.text) == (shell is run_in_flow)


def test_no_room_for_temporary_files_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "away"))
    with pytest.raises(HomeUnavailable, match=r"\(No such file or directory\).* check that .* has space") as raised:
        run_in_flow(_python("pass"), {}, 20)
    assert raised.value.__context__ is None
