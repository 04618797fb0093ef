"""Identify the user at the other end of a connection, so that a stolen cookie is useless.

Browsers send a cookie to every port of 127.0.0.1. A server of another user of this machine can therefore collect the cookie
of a person that opens a link to it. It cannot connect to us as that person.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from ipaddress import ip_address

from catchment.runtime.system.linux import user_of_socket


def peer_of(connection: socket.socket) -> str:
    """Return the user of this machine at the other end of an accepted IPv4 connection, or "elsewhere".

    If the system does not name the users of sockets, as on macOS, all users of this machine are "this machine".
    """
    local, remote = connection.getsockname(), connection.getpeername()
    with suppress(OSError):
        if (user := user_of_socket(remote, local)) is not None:
            return f"user {user}"
        # A kernel without this service does not find our socket either.
        if ip_address(remote[0]).is_loopback and user_of_socket(local, remote) is not None:
            return "nobody"
    return "this machine" if ip_address(remote[0]).is_loopback else "elsewhere"
