"""The command `prefect deploy`: forked by the worker, which has imported what it needs, or in a new process.

The worker is asked by a line of JSON over a socket of the home: the file, and the names in it that are deployed (none: all).
It answers with the exit code and what the command said, or not at all: then a new process does it.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from catchment.errors import TryAgain
from catchment.home import Home
from deployments.environment import child_environment
from deployments.server import Running

_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Said:
    """How the command ended, and what it said."""

    code: int
    output: str
    errors: str


def run(home: Home, running: Running, file: Path, names: Collection[str]) -> Said:
    """Deploy these of a file, or all when there are no names. Raises TryAgain when that takes too long."""
    try:
        return _forked(home, file, names) or _alone(home, running, file, names)
    except (TimeoutError, subprocess.TimeoutExpired):
        raise TryAgain(f"deploying {file.name} took longer than {_SECONDS} s; try again") from None


def words(file: Path, names: Collection[str]) -> tuple[str, ...]:
    """The command, beginning with the module that it is."""
    which = [part for name in names for part in ("--name", name)] or ["--all"]
    return ("prefect", "--no-prompt", "deploy", *which, "--prefect-file", str(file))


def surroundings(file: Path) -> dict[str, str]:
    """What it finds in its environment besides Prefect's settings."""
    # `{{ $PWD }}` in the file is the folder of the file, as it is for a person who deploys from there.
    return {"PWD": str(file.parent)}


def place(home: Home) -> Path:
    """The socket at which a worker is asked."""
    return home.run / "deploy"


def _forked(home: Home, file: Path, names: Collection[str]) -> Said | None:
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(_SECONDS)
        try:
            line.connect(str(place(home)))
            line.sendall(json.dumps([str(file), list(names)]).encode() + b"\n")
            with line.makefile() as answers:
                answer = answers.read()
        except TimeoutError:
            raise
        except OSError:
            return None
    return Said(**json.loads(answer)) if answer else None


def _alone(home: Home, running: Running, file: Path, names: Collection[str]) -> Said:
    done = subprocess.run(
        [sys.executable, "-P", "-m", *words(file, names)],
        env=child_environment(home, port=running.port, auth=running.login) | surroundings(file),
        cwd=file.parent,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    return Said(done.returncode, done.stdout, done.stderr)
