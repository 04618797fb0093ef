"""Who is at the other end of a connection, so that a stolen cookie is of no use.

Browsers send a cookie to every port of 127.0.0.1. A server of another user of this machine can therefore collect the session
of a person who opens a link to it; it cannot connect to us as that person.
"""

from __future__ import annotations

import socket
import struct
from contextlib import suppress
from ipaddress import ip_address

Address = tuple[str, int]

_FAMILY, _PROTOCOL, _REQUEST, _BY_FAMILY = 16, 4, 1, 20
"""AF_NETLINK, NETLINK_SOCK_DIAG, NLM_F_REQUEST and SOCK_DIAG_BY_FAMILY of Linux; see sock_diag(7)."""
_HEADER, _QUERY, _SOCKET = struct.Struct("=IHHII"), struct.Struct("=BBBxI"), struct.Struct("!HH4s12x4s12x")
_ANY_INTERFACE = struct.pack("=I8s", 0, b"\xff" * 8)
_ALL_STATES = 0xFFFFFFFF
_OWNER = struct.Struct("=II")
_OWNER_AT = _HEADER.size + 4 + _SOCKET.size + len(_ANY_INTERFACE) + 12
_ANSWER_BYTES = 4096


def peer_of(connection: socket.socket) -> str:
    """Return the user of this machine at the other end of an accepted IPv4 connection, or "elsewhere".

    Where the system does not name the users of sockets, as on macOS, all of this machine are one.
    """
    local, remote = connection.getsockname(), connection.getpeername()
    with suppress(OSError):
        if (user := _user(remote, local)) is not None:
            return f"user {user}"
        # A kernel without this service does not find our socket either.
        if ip_address(remote[0]).is_loopback and _user(local, remote) is not None:
            return "nobody"
    return "this machine" if ip_address(remote[0]).is_loopback else "elsewhere"


def _user(source: Address, destination: Address) -> int | None:
    """Return the user ID of the process that has the socket of these addresses; None if there is none. Raises OSError."""
    ports, hosts = (source[1], destination[1]), (socket.inet_aton(source[0]), socket.inet_aton(destination[0]))
    query = _QUERY.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, _ALL_STATES) + _SOCKET.pack(*ports, *hosts)
    size = _HEADER.size + len(query) + len(_ANY_INTERFACE)
    with socket.socket(_FAMILY, socket.SOCK_RAW, _PROTOCOL) as kernel:
        kernel.send(_HEADER.pack(size, _BY_FAMILY, _REQUEST, 1, 0) + query + _ANY_INTERFACE)
        answer = kernel.recv(_ANSWER_BYTES)
    if _HEADER.unpack_from(answer)[1] != _BY_FAMILY:
        return None
    user, inode = _OWNER.unpack_from(answer, _OWNER_AT)
    # Without an inode no process has the socket any more, and the kernel names root.
    return int(user) if inode else None
