"""`catchment logs`: the log files of the processes that `catchment up` starts. Each line begins with its time."""

from __future__ import annotations

import re
import sys
import time
from collections import deque
from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from catchment.errors import NotFound
from catchment.runtime.membership import Membership
from console import arguments, render, session

_POLL_SECONDS = 0.3
_LINES = 50
_TIME = re.compile(rb'(?:\{"at": ")?(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)')


class LogFile(StrEnum):
    """A log in the folder `logs` of the home."""

    SERVER = "server"
    WORKER = "worker"
    WEB = "web"


def logs(
    process: Annotated[
        LogFile, typer.Argument(metavar="[PROCESS]", help="server, worker or web. Default: worker.")
    ] = LogFile.WORKER,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for new lines until Ctrl-C.")] = False,
    lines: Annotated[
        int | None,
        typer.Option(
            "--lines",
            "-n",
            metavar="N",
            min=1,
            max=arguments.LARGEST,
            help="Number of last lines to show. Default: 50, or all with --since.",
        ),
    ] = None,
    since: arguments.Since = None,
) -> None:
    """Show the log of the worker, the server or the web process.

    Example: catchment logs worker --since 30m
    """
    file = session.home().logs / f"{process}.log"
    if process is LogFile.SERVER and (membership := Membership.of(session.home())):
        raise NotFound(f"server: runs at {membership.server}; read its log on that machine")
    if not file.exists():
        remedy = "it has reported nothing" if session.running() else "start Catchment with `catchment up --detach`"
        raise NotFound(f"{process}: no log yet; {remedy}")
    content = file.read_bytes()
    older = file.with_suffix(".log.1")
    before = older.read_bytes() if since and older.exists() else b""
    shown = deque(_since(before + content, since), lines if lines or since else _LINES)
    for line in shown:
        _print(line)
    if not shown:
        render.note(f"{process}: no lines since {render.clock(since)}" if since else f"{process}: the log is empty")
    position = len(content)
    while follow:
        sys.stdout.flush()
        time.sleep(_POLL_SECONDS)
        position = _show_from(file, position)


def _since(content: bytes, since: datetime | None) -> Iterator[bytes]:
    """Yield the lines since a time. A line without a time belongs to the one before it."""
    is_shown = since is None
    for line in content.splitlines():
        if since is not None and (match := _TIME.match(line)):
            is_shown = datetime.fromisoformat(match[1].decode()) >= since
        if is_shown:
            yield line


def _show_from(file: Path, position: int) -> int:
    """Print the complete lines after a position. Return the next position."""
    try:
        with file.open("rb") as stream:
            if file.stat().st_size < position:
                position = 0  # the log was rotated
            stream.seek(position)
            for line in stream:
                if not line.endswith(b"\n"):
                    break
                _print(line)
                position += len(line)
    except FileNotFoundError:
        position = 0
    return position


def _print(line: bytes) -> None:
    render.say(render.clean_block(line.decode("utf-8", "replace").rstrip("\r\n")))
