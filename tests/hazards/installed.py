"""Another library as a system under test: installed on demand into a separate environment, run as a program."""

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
"""Environment variables that disable the telemetry of the libraries."""


def names() -> list[str]:
    """Return the libraries that have a program."""
    return sorted(file.stem for file in _PROGRAMS.glob("[!_]*.py"))


class Installed:
    """A library, run as a program that handles one folder per request; it exits on `close`."""

    def __init__(self, name: str, environments: Path, place: Path) -> None:
        self.name = name
        self._program = _PROGRAMS / f"{name}.py"
        self._place = place
        self._python = _environment(self._program, environments / name)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        command = [self._python, "-W", "ignore", self._program]
        self._process = subprocess.Popen(command, text=True, env=os.environ | _ALONE, **pipes)

    def close(self) -> None:
        """Stop the program."""
        self._process.communicate(timeout=60)

    def ingest(self, folder: Path) -> Took:
        """Ingest a folder; after a failure or timeout the previous contents remain."""
        self._state(folder).mkdir(exist_ok=True)
        self._process.stdin.write(json.dumps([str(self._state(folder)), str(folder)]) + "\n")
        self._process.stdin.flush()
        report = json.loads(self._process.stdout.readline())
        return Took(report["code"], report["seconds"], report["peak_mb"])

    def holds(self, folder: Path) -> Held:
        """Return the contents from the last response."""
        file = self._state(folder) / "held.json"
        content = json.loads(file.read_text()) if file.exists() else {"texts": {}, "named": []}
        return Held(content["texts"], frozenset(content["named"]))

    def _state(self, folder: Path) -> Path:
        return self._place / f"{folder.name}-state"

    @property
    def version(self) -> str:
        """Return the library and its version."""
        library = _needs(self._program)[0].partition("[")[0]
        show = f"import importlib.metadata as m; print(m.version('{library}'))"
        done = subprocess.run([self._python, "-c", show], check=True, capture_output=True, text=True)
        return f"{library} {done.stdout.strip()}"


def _environment(program: Path, place: Path) -> Path:
    """Create an environment with the requirements named by the program's docstring; return its Python."""
    python = place / "bin" / "python"
    if not python.exists():
        needs = _needs(program)
        print(f"installing {' '.join(needs)}", file=sys.stderr)
        venv.create(place, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *needs], check=True)
    return python


def _needs(program: Path) -> list[str]:
    """Return the requirements of a program, the library itself first."""
    return next(line for line in program.read_text().splitlines() if line.startswith("Needs: ")).split()[1:]
