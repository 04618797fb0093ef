"""The ports of the Prefect server and of the page, on the loopback interface. A home keeps them from start to start."""

from __future__ import annotations

import socket
from pathlib import Path

from catchment.errors import TryAgain
from catchment.runtime import atomic_files
from catchment.runtime.home import Home

_FIRST = 4200
_FIRST_OF_PAGE = range(4210, 4230)
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


def listen_for_page(home: Home) -> tuple[socket.socket, str]:
    """Listen on the page's port, which is chosen at the first start, so that links to the page last.

    Return the socket, and a line if another program has the port; then it is a free one for this time. Raises TryAgain.
    """
    kept = _number(home.web_port)
    candidates = [kept] if kept is not None else _FIRST_OF_PAGE
    listening = next(filter(None, map(_listening, candidates)), None) or _listening(0)
    if listening is None:
        raise TryAgain("no free port on the loopback interface; stop other programs and try again")
    port = listening.getsockname()[1]
    if kept is None:
        atomic_files.write(home.web_port, f"{port}\n".encode())
    elif port != kept:
        return listening, f"port {kept} of the page: in use by another program; the page is at port {port} for now"
    return listening, ""


def is_free(port: int) -> bool:
    """Whether a server could listen on this port now."""
    listening = _listening(port)
    if listening is not None:
        listening.close()
    return listening is not None


def kept_port(home: Home) -> int | None:
    """The port that this home used before; None before its first start."""
    return _number(_kept(home))


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text())
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
