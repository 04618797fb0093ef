"""The ports of the Prefect server and of the page, on the loopback interface. A home keeps them from start to start.

The page alone can also listen on another address, for as long as the system runs.
"""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address
from pathlib import Path

from catchment.errors import BadInput, Refused, TryAgain
from catchment.runtime import atomic_files
from catchment.runtime.home import Home

_FIRST = 4200
_FIRST_OF_PAGE = range(4210, 4230)
_WAITING = 128
_LOOPBACK, _ALL = "127.0.0.1", "0.0.0.0"
_LONGEST_NAME, _LAST_PORT = 253, 65_535
_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[1-9]\d{0,4})?")


@dataclass(frozen=True, slots=True)
class Exposure:
    """The page beyond this machine: the IPv4 `address` that it also listens on, and its `host` in browsers, NAME[:PORT]."""

    address: str
    host: str

    @classmethod
    def parse(cls, address: str | None, host: str | None) -> Exposure | None:
        """Return the checked values of both options; None without them. Raises Refused if one is missing, BadInput."""
        if address is None and host is None:
            return None
        if address is None or host is None:
            raise Refused(
                "--listen ADDRESS and --allow-host NAME: needed together; requests for other names are refused"
            )
        try:
            is_loopback = IPv4Address(address).is_loopback
        except AddressValueError:
            raise BadInput("--listen: not an IPv4 address; pass one such as 0.0.0.0") from None
        if is_loopback:
            raise BadInput("--listen: only this machine reaches a loopback address; pass another, such as 0.0.0.0")
        name, _, port = host.partition(":")
        if not _HOST.fullmatch(host.lower()) or len(name) > _LONGEST_NAME or int(port or 0) > _LAST_PORT:
            raise BadInput("--allow-host: not the name of a host; pass one such as nas.lan or nas.lan:4210")
        return cls(address, host.lower())

    def host_at(self, port: int) -> str:
        """Return the host as browsers send it. Without a port it has the page's; browsers omit port 80."""
        return (self.host if ":" in self.host else f"{self.host}:{port}").removesuffix(":80")


def listen(home: Home, port: int | None) -> socket.socket:
    """Listen on the requested port, else on the home's previous port, else on a free one. Stores the port for the next start.

    The supervisor listens and passes the socket to the server. So no other program can take the port between its choice and its
    use, and while the server restarts, clients wait instead of being refused. Raises TryAgain if `wanted` is in use.
    """
    if port is not None:
        listening = _listening(port)
        if listening is None:
            raise TryAgain(f"port {port}: in use by another program; choose another --port, or omit it")
    else:
        listening = _listening(kept_port(home) or _FIRST) or _listening(0)
        if listening is None:
            raise TryAgain("no free port on the loopback interface; stop other programs and try again")
    atomic_files.write(_kept(home), f"{listening.getsockname()[1]}\n".encode())
    return listening


def listen_for_page(home: Home, exposure: Exposure | None = None) -> tuple[list[socket.socket], str]:
    """Listen on the page's port, which is chosen at the first start, so that links to the page last.

    Return the sockets, and a line if another program has the port; then it is a free one for this time. Raises TryAgain.
    """
    saved_port = _number(home.web_port)
    candidates = [saved_port] if saved_port is not None else _FIRST_OF_PAGE
    # The address 0.0.0.0 includes the loopback interface.
    is_all = exposure is not None and exposure.address == _ALL
    first = _ALL if is_all else _LOOPBACK
    listening = next(filter(None, (_listening(each, first) for each in [*candidates, 0])), None)
    if listening is None:
        raise TryAgain("no free port on the loopback interface; stop other programs and try again")
    port = listening.getsockname()[1]
    sockets = [listening]
    if exposure is not None and not is_all:
        if (beyond := _listening(port, exposure.address)) is None:
            listening.close()
            raise TryAgain(
                f"--listen {exposure.address}: not an address of this machine, or port {port} is in use there"
            )
        sockets.append(beyond)
    if saved_port is None:
        atomic_files.write(home.web_port, f"{port}\n".encode())
    elif port != saved_port:
        return sockets, f"port {saved_port} of the page: in use by another program; the page is at port {port} for now"
    return sockets, ""


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


def _listening(port: int, address: str = _LOOPBACK) -> socket.socket | None:
    listener = socket.socket()
    # Otherwise the port is unavailable for a minute after a stop.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address, port))
        listener.listen(_WAITING)
    except (OSError, OverflowError):
        listener.close()
        return None
    return listener
