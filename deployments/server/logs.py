"""The log files of the processes of `up`: bounded in size, readable by their owner only; each line begins with its time.

If the disk is full, lines are dropped. The process that writes them must never block on a full pipe.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import IO

LOG_BYTES = 5_000_000
FORMAT_VARIABLE = "CATCHMENT_LOG_FORMAT"
"""Environment variable with the format of the logs; `up --log-format` sets it."""
_LEVELLED = re.compile(
    r"(?:\d\d:\d\d:\d\d\.\d{3} \| )?(DEBUG|INFO|WARNING|ERROR|CRITICAL)(?:\s*\| (\S+) - |:\s+)(.*)", re.DOTALL
)
"""A line of Prefect or of uvicorn."""


_STAMP = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z ")
_RUNNER_LOST = re.compile(rb"The (runner .*; restarting in \d+ s)")


class LogFormat(StrEnum):
    """Format of the lines in the logs."""

    TEXT = "text"
    JSON = "json"


def log_line(line: bytes, at: datetime, process: str, log_format: LogFormat) -> bytes:
    """Return a line of a process as it is logged: after its time, or as an object with its time, process and level."""
    stamp = f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z"
    if log_format is LogFormat.TEXT:
        return f"{stamp} ".encode() + line
    text = line.decode("utf-8", "replace").rstrip("\r\n")
    match = _LEVELLED.fullmatch(text)
    level, logger, message = match.groups() if match else ("INFO", None, text)
    fields = {"at": stamp, "process": process, "level": level, "logger": logger, "message": message}
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


def message_of(line: str) -> str:
    """Return the message of a logged line; any other line as it is."""
    return str(json.loads(line)["message"]) if line.startswith("{") else _STAMP.sub("", line, count=1)


def rotate(log: Path) -> None:
    """Rename a log file that exceeds its size, so that the next line starts a new one. One old file is kept."""
    with contextlib.suppress(FileNotFoundError):
        if log.stat().st_size > LOG_BYTES:
            log.replace(log.with_suffix(".log.1"))


class BoundedLog:
    """A log file that keeps its latest lines, and one older file. `announce` receives the losses of the runner, too."""

    def __init__(self, path: Path, announce: Callable[[str], None] = lambda _: None) -> None:
        self._path, self._announce = path, announce
        self._lock = threading.Lock()
        self._lost = 0
        self.lines = 0
        """Number of lines that were received, also if the disk had no space for them."""
        self._format = LogFormat(os.environ.get(FORMAT_VARIABLE, LogFormat.TEXT))

    def follow(self, output: IO[bytes]) -> None:
        """Copy the lines of a pipe to the log in a thread, until every writer has closed it."""
        threading.Thread(target=self._pump, args=(output,), daemon=True).start()

    def _pump(self, output: IO[bytes]) -> None:
        with output:
            for line in output:
                self._write(line)
                if loss := _RUNNER_LOST.search(line):
                    self._announce(f"the {loss[1].decode()}")

    def _write(self, line: bytes) -> None:
        with self._lock:
            self.lines += 1
            lines = [b"(%d lines lost: the disk was full)\n" % self._lost] if self._lost else []
            now = datetime.now(UTC)
            try:
                self._append(b"".join(log_line(text, now, self._path.stem, self._format) for text in [*lines, line]))
                self._lost = 0
            except OSError:
                self._lost += 1

    def _append(self, data: bytes) -> None:
        rotate(self._path)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
