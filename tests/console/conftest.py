"""The command line as tests drive it: in this process where that is enough, as a process of its own where it is not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from console.main import main


@dataclass(frozen=True)
class Said:
    """What one command line did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Cli = Callable[..., Said]


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home that does not exist yet, and no colours or widths from outside."""
    folder = tmp_path / "state"
    monkeypatch.setenv("CATCHMENT_HOME", str(folder))
    for name in ("CATCHMENT_DATABASE_URL", "COLUMNS", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def cli(state: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Cli]:
    """Run a command line in this process."""

    def run(*arguments: str) -> Said:
        capsys.readouterr()
        code = main(arguments)
        out, err = capsys.readouterr()
        return Said(code, out, err)

    yield run


@pytest.fixture
def process(state: Path) -> Cli:
    """Run a command line as a process of its own, as a shell does."""

    def run(*arguments: str, **environment: str) -> Said:
        done = subprocess.run(
            [sys.executable, "-m", "console", *arguments],
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return Said(done.returncode, done.stdout, done.stderr)

    return run
