"""One spelling for each web address, its host, and which hosts are allowed.

Follows the URL standard of browsers where feeds and pages need it; a dubious address is invalid instead of repaired.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from urllib.parse import quote, urljoin, urlsplit, urlunsplit

import idna

from catchment.errors import BadInput

MOST_BYTES = 20_000_000
"""Size of a response or a file with addresses at most."""
MOST_CHARACTERS = 2_000
"""Length of the longest valid address."""
_MOST_HOST = 253
_PORTS = {"http": "80", "https": "443"}
_AUTHORITY = re.compile(r"(\[[0-9a-f:.]+\]|[^\[\]:/@\\]+)(?::([0-9]{0,5}))?", re.IGNORECASE)
_HOST = re.compile(r"[a-z0-9_][a-z0-9_-]{0,62}(\.[a-z0-9_][a-z0-9_-]{0,62})*")
_NUMBER = re.compile(r"\d+|0x[0-9a-f]*")
_CONTROL = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})?")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_IN_PATH = "%/:@!$&'(*)+,;=-._~"
_IN_QUERY = _IN_PATH + "?"
_TRACKING = re.compile(
    r"utm_\w*|(fb|g|d|y|ms|tw|tt|irc)clid|wbraid|gbraid|gclsrc|mc_[ce]id|_hsenc|_hsmi|mkt_tok|igshid|igsh|_gl|_ga"
    r"|(pk|mtm|piwik|matomo)_\w+|vero_(id|conv)|oly_(anon|enc)_id|wt_mc|at_(medium|campaign)|yclid|srsltid",
    re.IGNORECASE,
)
"""Names of query parameters that describe the visit and not the page."""


def normalized(text: str, base: str = "") -> str:
    """Return the one spelling of an address, which may be relative to `base`. Idempotent.

    Raises BadInput if it is not an http(s) address, contains a login or control characters, or is too long.
    """
    text = re.sub(r"[\t\n\r]", "", text.strip(" \t\n\r\f\v\u00a0\ufeff"))
    if _CONTROL.search(text):
        raise _invalid("contains control characters")
    try:
        parts = urlsplit(urljoin(base, text) if base else text)
    except ValueError as error:
        raise _invalid("has an invalid host") from error
    if parts.scheme not in _PORTS:
        raise _invalid("does not begin with http:// or https://")
    host = _host(parts.scheme, parts.netloc)
    query = "&".join(pair for pair in parts.query.split("&") if not _TRACKING.fullmatch(pair.partition("=")[0]))
    path = _without_dots(_encoded(parts.path, _IN_PATH))
    address = urlunsplit((parts.scheme, host, path, _encoded(query, _IN_QUERY), ""))
    if len(address) > MOST_CHARACTERS:
        raise _invalid(f"is longer than {MOST_CHARACTERS:,} characters")
    return address


def host_of(address: str) -> str:
    """Return the host of a normalized address; with the port if it is not the scheme's default."""
    return urlsplit(address).netloc


def name_of(host: str) -> str:
    """Return the name by which a host is allowed: without a leading `www.`."""
    return host.removeprefix("www.") if host.count(".") > 1 else host


class AllowedHosts:
    """The hosts that a source may request.

    `example.org` allows http and https on their default ports and `www.example.org`, at public addresses. `nas.local:8080`
    (with a port) allows exactly that service, at private and loopback addresses too.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = frozenset(map(str.lower, names))

    def host_for(self, address: str) -> str | None:
        """Return the name that allows an http(s) address, or None."""
        try:
            scheme, authority = urlsplit(address)[:2]
            host, port = _host(scheme, authority), _PORTS[scheme]
        except (ValueError, KeyError, BadInput):
            return None
        has_port = host.rpartition(":")[2].isdecimal()
        names = (host,) if has_port else (f"{host}:{port}", name_of(host))
        return next((name for name in names if name in self.names), None)

    def names_service(self, host: str, port: int) -> bool:
        """Return whether the host is named with this port."""
        return (f"[{host}]:{port}" if ":" in host else f"{host}:{port}") in self.names


def _invalid(problem: str) -> BadInput:
    return BadInput(f"the address {problem}; give one such as https://example.org/page")


def _host(scheme: str, authority: str) -> str:
    if "@" in authority:
        raise _invalid("contains a login")
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        raise _invalid("has an invalid host")
    port = (match[2] or "").lstrip("0")
    if match[2] and not 0 < int(match[2]) < 65536:
        raise _invalid("has an invalid port")
    try:
        host = f"[{ipaddress.IPv6Address(match[1][1:-1])}]" if match[1].startswith("[") else _name(match[1])
    except ValueError as error:
        raise _invalid("has an invalid host") from error
    return f"{host}:{port}" if port and port != _PORTS[scheme] else host


def _name(host: str) -> str:
    """Return a name as DNS spells it, or an IPv4 address. Raises ValueError."""
    name = host.lower().removesuffix(".")
    if len(name) <= _MOST_HOST and (not name.isascii() or "xn--" in name):
        name = idna.encode(host, uts46=True).decode("ascii").removesuffix(".")
    if len(name) > _MOST_HOST or not _HOST.fullmatch(name):
        raise ValueError(name)
    # The resolver takes 2130706433, 0x7f.1 and 127.1 for 127.0.0.1.
    return str(ipaddress.IPv4Address(name)) if _NUMBER.fullmatch(name.rpartition(".")[2]) else name


def _encoded(text: str, safe: str) -> str:
    """Encode the characters that need it, decode all others, and write escapes in upper case."""
    return quote(_ESCAPE.sub(_escape, text), safe=safe)


def _escape(match: re.Match[str]) -> str:
    if match[1] is None:
        return "%25"
    character = chr(int(match[1], 16))
    return character if character in _UNRESERVED else f"%{match[1].upper()}"


def _without_dots(path: str) -> str:
    """Resolve `.` and `..` (RFC 3986, section 5.2.4)."""
    segments: list[str] = []
    names = path.split("/")[1:]
    for name in names:
        if name == "..":
            del segments[-1:]
        elif name != ".":
            segments.append(name)
    if names and names[-1] in (".", ".."):
        segments.append("")
    return "/" + "/".join(segments)
