"""`catchment logs`: the log files of the processes that `catchment up` starts."""

from __future__ import annotations

import sys
import time
from collections import deque
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from catchment.errors import NotFound
from console import arguments, render, session

_POLL_SECONDS = 0.3


class LogFile(StrEnum):
    """A log in the folder `logs` of the home."""

    SERVER = "server"
    WORKER = "worker"
    WEB = "web"


def logs(
    process: Annotated[
        LogFile, typer.Argument(metavar="[server|worker|web]", help="Process to show.")
    ] = LogFile.WORKER,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for new lines until Ctrl-C.")] = False,
    lines: Annotated[
        int,
        typer.Option("--lines", "-n", metavar="N", min=1, max=arguments.LARGEST, help="Number of last lines to show."),
    ] = 50,
) -> None:
    """Show the log of the worker, the server or the web process.

    Example: catchment logs worker -f
    """
    file = session.home().logs / f"{process}.log"
    if not file.exists():
        raise NotFound(f"{process}: no log yet; start Catchment with `catchment up --detach`")
    position = _show_last(file, lines)
    while follow:
        sys.stdout.flush()
        time.sleep(_POLL_SECONDS)
        position = _show_from(file, position)


def _show_last(file: Path, number: int) -> int:
    """Print the last lines. Return the position after them."""
    with file.open("rb") as stream:
        for line in deque(stream, number):
            _print(line)
        return stream.tell()


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
