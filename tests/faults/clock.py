"""Control the system clock of other processes with a preloaded C library, compiled at test time."""

from __future__ import annotations

import mmap
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

_SOURCE = Path(__file__).with_name("clock.c")
_BYTES = 8


@dataclass(frozen=True, slots=True)
class WallClock:
    """The clock of all processes started with `variables`, and of their children."""

    variables: dict[str, str]
    _file: mmap.mmap

    @classmethod
    def make(cls, folder: Path) -> WallClock:
        """Return a clock that shows the real time. Needs a C compiler."""
        compiler = shutil.which("cc")
        assert compiler, "the clock is a small library in C; install gcc and libc6-dev"
        library, file = folder / "clock.so", folder / "clock"
        subprocess.run([compiler, "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", library, _SOURCE], check=True)
        file.write_bytes(bytes(_BYTES))
        handle = os.open(file, os.O_RDWR)
        try:
            shared = mmap.mmap(handle, _BYTES)
        finally:
            os.close(handle)
        return cls({"LD_PRELOAD": str(library), "WALL_CLOCK_FILE": str(file)}, shared)

    def set(self, hours: float) -> None:
        """Run `hours` ahead of the system clock from now on; behind it if negative."""
        self._file[:] = int(hours * 3_600e9).to_bytes(_BYTES, "little", signed=True)
