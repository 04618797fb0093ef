"""A workshop that executes tasks on a faulty disk, and their results."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.disk import BadDisk, Fault
from tests.waiting import PATIENCE

_PROJECT = Path(__file__).parents[2]

Texts = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Came:
    """The result of a task, or its error."""

    done: Any = None
    error: str = ""
    message: str = ""
    where: str = ""


@dataclass(frozen=True, slots=True)
class Said:
    """The exit code and output of a command."""

    code: int
    out: str
    err: str


class Workshop:
    """A process on a disk that injects faults on order, and a place with a home and its source."""

    def __init__(self, folder: Path) -> None:
        self.place = folder / "place"
        self.disk = BadDisk.make(folder)
        kept = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.works"],
            env={**kept, "LANG": "C.UTF-8", **self.disk.variables},
            cwd=_PROJECT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    @property
    def home(self) -> Path:
        return self.place / "home"

    @property
    def papers(self) -> Path:
        return self.place.parent / "papers"

    def do(self, *works: str | list[str], fault: Fault | None = None) -> list[Came]:
        """Execute tasks or commands in a process with this fault."""
        self.disk.order(self.place, fault or Fault())
        assert self._process.stdin
        print(json.dumps({"works": works, "home": str(self.home)}), file=self._process.stdin, flush=True)
        said = json.loads(self._answer())
        self.disk.heal()
        assert isinstance(said, list), said
        return [Came(**one) for one in said]

    def well(self, *works: str) -> Any:
        """Execute tasks on a disk without faults; return the last result."""
        came = self.do(*works)
        assert not any(one.error for one in came), came
        return came[-1].done

    def texts(self) -> Texts:
        """Return the texts in the library; see `texts_of`."""
        return texts_of(self.do("look")[0])

    def command(self, *words: str, fault: Fault | None = None) -> Said:
        """Run a command with this fault."""
        (came,) = self.do(list(words), fault=fault)
        return Said(**came.done)

    def save(self, folder: Path) -> None:
        """Save the current state of the place."""
        shutil.copytree(self.place, folder, symlinks=True)

    def begin_from(self, folder: Path) -> None:
        """Reset the place to a saved state."""
        shutil.rmtree(self.place, ignore_errors=True)
        shutil.copytree(folder, self.place, symlinks=True)

    def close(self) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait(PATIENCE)
        self._process.stdout.close()

    def _answer(self) -> str:
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line, "the process of the works has ended"
        return line


def texts_of(looked: Came) -> Texts:
    """Check that every invariant holds and that a search finds each text once; return the texts in the library."""
    assert not looked.error, looked
    assert looked.done["broken"] == []
    found = dict(map(tuple, looked.done["documents"]))
    assert len(found) == len(looked.done["documents"]), "an item is there twice"
    assert looked.done["found"] == sorted(found)
    return found
