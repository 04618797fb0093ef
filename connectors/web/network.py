"""Connections to allowed hosts only.

The name of a host is resolved here, its addresses are checked, and the connection is made to a checked address. A name that
resolves to another address a moment later has no effect (DNS rebinding).
"""

from __future__ import annotations

import ipaddress
import socket
import threading
import time
from collections.abc import Callable, Iterable
from ssl import SSLContext
from typing import Any

import httpcore

from catchment.errors import Skipped, SkipReason
from connectors.web.address import AllowedHosts

Resolve = Callable[[str, int], list[str]]
_ADDRESSES = 4
"""Addresses of a host that are tried."""
_UNICAST = ipaddress.ip_network("2000::/3")
_MAPPED = (ipaddress.ip_network("::ffff:0:0/96"), ipaddress.ip_network("64:ff9b::/96"))
"""IPv6 addresses that stand for the IPv4 address in their last 32 bits (RFC 4291, 2.5.5.2; RFC 6052)."""
_RELAYED = tuple(
    ipaddress.ip_network(network)
    for network in (
        *("2002::/16", "192.88.99.0/24"),  # 6to4, which contains an IPv4 address, and its relays
        *("2001::/23", "3fff::/20"),  # protocol assignments such as Teredo, and documentation
        *("192.31.196.0/24", "192.175.48.0/24", "2620:4f:8000::/48"),  # AS112: DNS sinks of unknown operators
        "192.52.193.0/24",  # AMT relays
    )
)
"""Addresses that are routed like public ones, and are those of no host (IANA registries of special-purpose addresses)."""


class HostNotAllowed(Skipped):
    """The consent of the source does not include this host, or its name belongs to a private network."""

    def __init__(self, host: str) -> None:
        super().__init__(SkipReason.EXCLUDED)
        self.args = (host,)
        self.host = host

    def __str__(self) -> str:
        return f"{self.host}: not an allowed host; allow it with --allow-host {self.host}"


def is_public(address: str) -> bool:
    """Return whether an IP address belongs to a host in the public internet."""
    ip = ipaddress.ip_address(address)
    if isinstance(ip, ipaddress.IPv6Address):
        if any(ip in network for network in _MAPPED):
            ip = ipaddress.IPv4Address(int(ip) & 0xFFFF_FFFF)
        elif ip not in _UNICAST:
            return False
    return ip.is_global and not ip.is_multicast and not any(ip in network for network in _RELAYED)


def resolved(host: str, port: int) -> list[str]:
    """Return the IP addresses of a host, as the system resolves it. Raises OSError or UnicodeError."""
    return [str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


class CheckedNetwork(httpcore.NetworkBackend):
    """Connections to checked addresses. All exchanges of a thread end at the deadline that it set."""

    def __init__(self, hosts: AllowedHosts, resolve: Resolve = resolved) -> None:
        self._hosts = hosts
        self._resolve = resolve
        self._sockets = httpcore.SyncBackend()
        self._thread = threading.local()

    def set_deadline(self, seconds: float) -> None:
        """Limit everything that this thread does from now on to this time in total."""
        self._thread.ends = time.monotonic() + seconds

    def remaining(self, most: float | None = None) -> float:
        """Return the seconds until the deadline of this thread, or `most`. Raises httpcore.ReadTimeout after it."""
        seconds = float(self._thread.ends) - time.monotonic()
        if seconds <= 0:
            raise httpcore.ReadTimeout
        return seconds if most is None else min(seconds, most)

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect to a host. Raises HostNotAllowed if it has a private address and is not named with its port."""
        failure: Exception = httpcore.ConnectError()
        for address in self._checked(host, port):
            try:
                seconds = self.remaining(timeout)
                stream = self._sockets.connect_tcp(address, port, seconds, local_address, socket_options)
                return _TimedStream(self, stream)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure

    def _checked(self, host: str, port: int) -> list[str]:
        try:
            addresses = list(dict.fromkeys(self._resolve(host, port)))
        except (OSError, UnicodeError):
            raise httpcore.ConnectError from None
        if not self._hosts.names_service(host, port) and not all(map(is_public, addresses)):
            raise HostNotAllowed(f"{host}:{port}")
        return addresses[:_ADDRESSES]


class _TimedStream(httpcore.NetworkStream):
    """A connection that ends its reads and writes at the deadline of the calling thread."""

    def __init__(self, network: CheckedNetwork, stream: httpcore.NetworkStream) -> None:
        self._network = network
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._network.remaining(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._network.remaining(timeout))

    def start_tls(
        self, ssl_context: SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        encrypted = self._stream.start_tls(ssl_context, server_hostname, self._network.remaining(timeout))
        return _TimedStream(self._network, encrypted)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)

    def close(self) -> None:
        self._stream.close()
