"""Another library among the systems: installed on demand into an environment of its own, run as a program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

from tests.hazards.model import Held, Took

_PROGRAMS = Path(__file__).with_name("others")
_ALONE = {"DO_NOT_TRACK": "1", "COCOINDEX_DISABLE_USAGE_TRACKING": "1", "RUNTIME__DLTHUB_TELEMETRY": "false"}
"""What keeps the libraries from reporting their use."""


def names() -> list[str]:
    """The libraries that there is a program for."""
    return sorted(file.stem for file in _PROGRAMS.glob("[!_]*.py"))


class Installed:
    """A library, as a program that is asked folder by folder; it ends when this is closed."""

    def __init__(self, name: str, environments: Path, place: Path) -> None:
        self.name = name
        self._program = _PROGRAMS / f"{name}.py"
        self._place = place
        self._python = _environment(self._program, environments / name)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        command = [self._python, "-W", "ignore", self._program]
        self._process = subprocess.Popen(command, text=True, env=os.environ | _ALONE, **pipes)

    def close(self) -> None:
        """Ask nothing more."""
        self._process.communicate(timeout=60)

    def ingest(self, folder: Path) -> Took:
        """Ask for a folder; one at which it fails or hangs leaves what it held before."""
        self._state(folder).mkdir(exist_ok=True)
        self._process.stdin.write(json.dumps([str(self._state(folder)), str(folder)]) + "\n")
        self._process.stdin.flush()
        told = json.loads(self._process.stdout.readline())
        return Took(told["code"], told["seconds"], told["peak_mb"])

    def holds(self, folder: Path) -> Held:
        """What it said last."""
        file = self._state(folder) / "held.json"
        said = json.loads(file.read_text()) if file.exists() else {"texts": {}, "named": []}
        return Held(said["texts"], frozenset(said["named"]))

    def _state(self, folder: Path) -> Path:
        return self._place / f"{folder.name}-state"

    @property
    def version(self) -> str:
        """The library and its version."""
        library = _needs(self._program)[0].partition("[")[0]
        show = f"import importlib.metadata as m; print(m.version('{library}'))"
        done = subprocess.run([self._python, "-c", show], check=True, capture_output=True, text=True)
        return f"{library} {done.stdout.strip()}"


def _environment(program: Path, place: Path) -> Path:
    """The Python of an environment with what the program's first lines say that it needs."""
    python = place / "bin" / "python"
    if not python.exists():
        needs = _needs(program)
        print(f"installing {' '.join(needs)}", file=sys.stderr)
        venv.create(place, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *needs], check=True)
    return python


def _needs(program: Path) -> list[str]:
    """What a program says that it needs, the library itself first."""
    return next(line for line in program.read_text().splitlines() if line.startswith("Needs: ")).split()[1:]
