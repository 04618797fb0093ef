"""The port of the Prefect server on the loopback: stable for a home where it can be."""

from __future__ import annotations

import socket

from catchment.errors import TryAgain
from catchment.settings import Home
from deployments.server import write_atomically

_FIRST = 4200


def choose_port(home: Home, wanted: int | None) -> int:
    """The port asked for; else the one used before, so that the address stays; else a free one. It is kept."""
    kept = home.path / "port"
    if wanted is not None:
        if not _free(wanted):
            raise TryAgain(f"port {wanted} is taken by another program; choose another with --port, or leave it out")
        chosen = wanted
    else:
        before = int(kept.read_text()) if kept.exists() else _FIRST
        chosen = before if _free(before) else _any_free()
    write_atomically(kept, f"{chosen}\n")
    return chosen


def _free(port: int) -> bool:
    with socket.socket() as probe:
        # As the server does: without it a port stays taken for a minute after a stop.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except (OSError, OverflowError):
            return False
        return True


def _any_free() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
