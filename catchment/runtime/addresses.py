"""Decide where the driver of an address connects, and whether that is this machine. No name is resolved.

Each address is read as its driver reads it: with a different parser, the checked host and the connected host could differ.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any
from urllib.parse import unquote

from catchment.errors import BadInput

_PLACE = ("host", "hostaddr", "port", "dbname")
"""The parameters of libpq that determine where to connect. It reads the environment for each that is not set."""
_UNREADABLE = "not an address that PostgreSQL can read; write postgresql://USER@HOST/DATABASE"
PASSWORD_IN_ADDRESS = "the address has a password; store it elsewhere and pass --secret password=REF"
SECRETS = ("password", "sslpassword", "scram_client_key", "scram_server_key", "oauth_client_secret")
"""The parameters of libpq that are secrets."""
_SERVICES = ("PGSERVICE", "PGSERVICEFILE")
_URL = re.compile(
    r"[a-z][a-z0-9+.-]*://([^\s/?#@\\\[\]]*@)?(?P<host>\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(:[0-9]{1,5})?([/?#][^\s\\]*)?",
    re.IGNORECASE,
)
"""Without spaces, backslashes and further @: parsers differ on where a host ends there."""


def is_loopback(host: str) -> bool:
    """Return whether a host means this machine: localhost, or a literal loopback address.

    Not a name below localhost: a system without a rule for such names sends them to a DNS server.
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_of(url: str) -> str | None:
    """Return the host of a URL, without brackets; None if it has none, or if parsers could differ on it."""
    match = _URL.fullmatch(url)
    return match["host"].strip("[]").lower() if match else None


def is_local(url: str) -> bool:
    """Return whether the host of a URL is this machine."""
    host = host_of(url)
    return host is not None and is_loopback(host)


def is_postgresql(address: str) -> bool:
    """Return whether an address has a scheme of PostgreSQL, with or without the name of a driver."""
    scheme, separator, _ = address.partition("://")
    return bool(separator) and scheme.partition("+")[0] in ("postgresql", "postgres")


def postgresql(address: str) -> dict[str, str]:
    """Return the parameters of a connection to PostgreSQL, as libpq reads the address. See `pinned` before connecting.

    Raises BadInput for an invalid address, for `service`, whose file could name any host, and for a parameter that is
    given twice.
    """
    if not is_postgresql(address):
        raise BadInput("not an address; write postgresql://USER@HOST/DATABASE")
    try:
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict
    except ImportError as error:
        raise BadInput(
            "psycopg: not installed, but needed for PostgreSQL; run: pip install 'catchment[postgres]'"
        ) from error
    rest = address.partition("://")[2]
    try:
        parameters = conninfo_to_dict(f"postgresql://{rest}")
    except ProgrammingError:
        # The message may contain part of a password.
        raise BadInput(_UNREADABLE) from None
    if not all(port.isascii() and port.isdecimal() for port in str(parameters.get("port") or "0").split(",") if port):
        # Found only when connecting. It may be part of a password, too.
        raise BadInput(_UNREADABLE)
    names = Counter(_given(rest))
    if names["service"]:
        raise BadInput("service: its file could name any host; write host, port and database into the address")
    if repeated := next((name for name, number in names.items() if number > 1), None):
        raise BadInput(f"{repeated}: given twice in the address; write it once")
    return {name: str(value) for name, value in parameters.items() if value is not None}


def pinned(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters with which libpq connects to the given place, regardless of the variables in the environment.

    Removes the services of libpq from the environment: an unknown one would make the connection fail.
    """
    for name in _SERVICES:
        os.environ.pop(name, None)
    return {**dict.fromkeys(_PLACE, ""), **parameters}


def elsewhere(parameters: Mapping[str, str]) -> list[str]:
    """Return the hosts that a connection to PostgreSQL may try and that are not this machine."""
    addresses, names = (parameters.get(each, "").split(",") for each in ("hostaddr", "host"))
    tried = [address or name for address, name in zip_longest(addresses, names, fillvalue="")]
    # Without a host, and with a path, it is a socket file.
    return [host for host in tried if host and not host.startswith("/") and not is_loopback(host)]


def _given(rest: str) -> Iterator[str]:
    """Yield the parameters of an address without its scheme, from the authority, the path and the query."""
    before, _, query = rest.partition("?")
    authority, _, database = before.partition("/")
    login, at, host = authority.rpartition("@")
    user, _, password = login.partition(":")
    parts = {"user": user if at else "", "password": password, "host": host, "dbname": database}
    yield from (name for name, value in parts.items() if value)
    yield from (unquote(pair.partition("=")[0]) for pair in query.split("&") if pair)
