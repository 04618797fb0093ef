"""The log files of the server and the worker: bounded in size, readable by their owner only.

If the disk is full, lines are dropped. The process that writes them must never block on a full pipe.
"""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import IO

LOG_BYTES = 5_000_000


def rotate(log: Path) -> None:
    """Rename a log file that exceeds its size, so that the next line starts a new one. One old file is kept."""
    with contextlib.suppress(FileNotFoundError):
        if log.stat().st_size > LOG_BYTES:
            log.replace(log.with_suffix(".log.1"))


class BoundedLog:
    """A log file that keeps its latest lines, and one older file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._lost = 0

    def follow(self, output: IO[bytes]) -> None:
        """Copy the lines of a pipe to the log in a thread, until every writer has closed it."""
        threading.Thread(target=self._pump, args=(output,), daemon=True).start()

    def _pump(self, output: IO[bytes]) -> None:
        with output:
            for line in output:
                self._write(line)

    def _write(self, line: bytes) -> None:
        with self._lock:
            note = b"(%d lines lost: the disk was full)\n" % self._lost if self._lost else b""
            try:
                self._append(note + line)
                self._lost = 0
            except OSError:
                self._lost += 1

    def _append(self, data: bytes) -> None:
        rotate(self._path)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
