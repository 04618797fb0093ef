"""The port of the Prefect server on the loopback interface. A home keeps its port from start to start, if it is free."""

from __future__ import annotations

import socket
from pathlib import Path

from catchment.errors import TryAgain
from catchment.runtime import atomic_files
from catchment.runtime.home import Home

_FIRST = 4200
_WAITING = 128


def listen(home: Home, wanted: int | None) -> socket.socket:
    """Listen on the requested port, else on the home's previous port, else on a free one. Stores the port for the next start.

    The supervisor listens and passes the socket to the server. So no other program can take the port between its choice and its
    use, and while the server restarts, clients wait instead of being refused. Raises TryAgain if `wanted` is in use.
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
    """The port that this home used before; None before its first start."""
    try:
        return int(_kept(home).read_text())
    except (FileNotFoundError, ValueError):
        return None


def _kept(home: Home) -> Path:
    return home.path / "port"


def _listening(port: int) -> socket.socket | None:
    found = socket.socket()
    # Otherwise the port is unavailable for a minute after a stop.
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind(("127.0.0.1", port))
        found.listen(_WAITING)
    except (OSError, OverflowError):
        found.close()
        return None
    return found
