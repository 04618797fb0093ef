"""The pulse of a run: until when it may be silent, told in a few bytes that whoever started it can read.

A run that is stuck (in a lock, in a call that never returns) holds its jobs and may look alive in every other way.
"""

from __future__ import annotations

import math
import mmap
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

VARIABLE = "CATCHMENT_PULSE"
"""Names the file in the environment of a run."""
_SIZE = 8


class Pulse:
    """Kept by the run. `patience` is how many seconds may pass from one beat to the next. Threads may share it."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._lock = threading.Lock()
        self._longer: list[float] = []
        self._until = math.inf
        self._page = _page(os.environ.get(VARIABLE))

    def beat(self) -> None:
        """Something has got on."""
        with self._lock:
            self._until = time.monotonic() + max(self._patience, *self._longer, 0.0)
            if self._page is not None:
                self._page[:] = int(self._until * 1e9).to_bytes(_SIZE, "little")

    @contextmanager
    def patient(self, seconds: float) -> Iterator[None]:
        """Do something that may take so long from one beat to the next."""
        with self._lock:
            self._longer.append(seconds)
        self.beat()
        try:
            yield
        finally:
            with self._lock:
                self._longer.remove(seconds)
            self.beat()

    def is_overdue(self) -> bool:
        """Whether the run is stuck; not before its first beat."""
        return time.monotonic() > self._until


@contextmanager
def pulse_file() -> Iterator[Path]:
    """A file for the pulse of one run, which its environment is to name."""
    with tempfile.NamedTemporaryFile(prefix="pulse-") as file:
        file.write(bytes(_SIZE))
        file.flush()
        yield Path(file.name)


def is_overdue(file: Path) -> bool:
    """Whether the run that was given this file is stuck; one that keeps no pulse never is."""
    until = int.from_bytes(file.read_bytes(), "little")
    return 0 < until < time.monotonic_ns()


def _page(path: str | None) -> mmap.mmap | None:
    """The file, shared with whoever reads it; None for a run that nobody looks after."""
    if path is None:
        return None
    handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        return mmap.mmap(handle, _SIZE)
    finally:
        os.close(handle)
