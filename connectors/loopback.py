"""Recognise loopback hosts, where unencrypted connections and direct ones (without a proxy) are safe."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Return whether a host name or address means this machine. Nothing is resolved."""
    try:
        return host.lower() == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
