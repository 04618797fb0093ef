"""The port of the Prefect server on the loopback: the same for a home from start to start, where it can be."""

from __future__ import annotations

import socket
from pathlib import Path

from catchment.errors import TryAgain
from catchment.runtime import atomic_files
from catchment.runtime.home import Home

_FIRST = 4200
_WAITING = 128


def listen(home: Home, wanted: int | None) -> socket.socket:
    """Listen on the port asked for; else on the one used before; else on a free one. The port is kept for the next time.

    The supervisor listens and hands the socket to the server: nobody else can take the port between a choice and its use,
    and while a server is started again its callers wait instead of being refused. Raises TryAgain when `wanted` is taken.
    """
    if wanted is not None:
        listening = _listening(wanted)
        if listening is None:
            raise TryAgain(f"port {wanted}: in use by another program; choose another --port, or omit it")
    else:
        listening = _listening(kept_port(home) or _FIRST) or _listening(0)
        if listening is None:
            raise TryAgain("no free port on the loopback interface; stop other programs and try again")
    atomic_files.write(_kept(home), f"{listening.getsockname()[1]}\n".encode())
    return listening


def is_free(port: int) -> bool:
    """Whether a server could listen on this port now."""
    listening = _listening(port)
    if listening is not None:
        listening.close()
    return listening is not None


def kept_port(home: Home) -> int | None:
    """The port that this home had before; None if it had none."""
    try:
        return int(_kept(home).read_text())
    except (FileNotFoundError, ValueError):
        return None


def _kept(home: Home) -> Path:
    return home.path / "port"


def _listening(port: int) -> socket.socket | None:
    found = socket.socket()
    # Without it a port stays taken for a minute after a stop.
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind(("127.0.0.1", port))
        found.listen(_WAITING)
    except (OSError, OverflowError):
        found.close()
        return None
    return found
