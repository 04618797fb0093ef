"""Another library among the systems: installed on demand into an environment of its own, run as a program for each folder."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import venv
from pathlib import Path

from benchmarks.measure import Peak
from tests.hazards.model import Held, Took

_PROGRAMS = Path(__file__).with_name("others")
_SECONDS = 120


def names() -> list[str]:
    """The libraries that there is a program for."""
    return sorted(file.stem for file in _PROGRAMS.glob("[!_]*.py"))


class Installed:
    """A library, and what it said last of each folder."""

    def __init__(self, name: str, environments: Path, place: Path) -> None:
        self.name = name
        self._program = _PROGRAMS / f"{name}.py"
        self._place = place
        self._python = _environment(self._program, environments / name)
        self._said: dict[Path, Held] = {}

    def ingest(self, folder: Path) -> Took:
        """Run its program; one that fails or hangs leaves what it held before."""
        state = self._place / f"{folder.name}-{self.name}"
        state.mkdir(exist_ok=True)
        begun = time.monotonic()
        command = [self._python, "-W", "ignore", self._program, state, folder]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(command, text=True, cwd=state, **pipes) as process, Peak(process.pid, look=True) as peak:
            try:
                out, _ = process.communicate(timeout=_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                return Took(124, time.monotonic() - begun, peak.mb)
        if process.returncode == 0:
            said = json.loads(out.strip().rpartition("\n")[2])
            self._said[folder] = Held(said["texts"], frozenset(said["named"]))
        return Took(process.returncode, time.monotonic() - begun, peak.mb)

    def holds(self, folder: Path) -> Held:
        """What it said last."""
        return self._said.get(folder, Held({}))


def _environment(program: Path, place: Path) -> Path:
    """The Python of an environment with what the program's first lines say that it needs."""
    python = place / "bin" / "python"
    if not python.exists():
        needs = next(line for line in program.read_text().splitlines() if line.startswith("Needs: "))
        print(f"installing {needs.removeprefix('Needs: ')}", file=sys.stderr)
        venv.create(place, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *needs.split()[1:]], check=True)
    return python
