"""The log files of the server and the worker: bounded in size, readable by their owner alone.

A disk that takes no line loses lines, never the process that says them: it would wait for somebody to listen.
"""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import IO

LOG_BYTES = 5_000_000


def put_aside_when_long(log: Path) -> None:
    """Begin a log file anew when it has become long, and keep what it was beside it."""
    with contextlib.suppress(FileNotFoundError):
        if log.stat().st_size > LOG_BYTES:
            log.replace(log.with_suffix(".log.1"))


class BoundedLog:
    """A log file that keeps its latest lines, and the file before it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._lost = 0

    def follow(self, output: IO[bytes]) -> None:
        """Write down whatever comes out of a pipe, until all who could say something are gone."""
        threading.Thread(target=self._pump, args=(output,), daemon=True).start()

    def _pump(self, output: IO[bytes]) -> None:
        with output:
            for line in output:
                self._write(line)

    def _write(self, line: bytes) -> None:
        with self._lock:
            told = b"(%d lines are lost: the disk did not take them)\n" % self._lost if self._lost else b""
            try:
                self._append(told + line)
                self._lost = 0
            except OSError:
                self._lost += 1

    def _append(self, data: bytes) -> None:
        put_aside_when_long(self._path)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
