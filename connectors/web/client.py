"""An HTTP client for pages and feeds of many hosts: polite, bounded, without cookies, scripts and logins.

Each request is one transfer with the limits of its host. `network` decides which addresses a connection may reach.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from email.message import Message
from typing import NamedTuple

import httpcore
import httpx

from catchment import __version__
from catchment.charsets import codec_of
from catchment.errors import (
    AccessDenied,
    CatchmentError,
    FetchFailed,
    RateLimited,
    Skipped,
    SkipReason,
    SourceUnavailable,
    TimedOut,
)
from catchment.pacing import HostLimits, Pace, Transfer, read_headers
from connectors.tls import authorities, certificate_error
from connectors.web.address import MOST_BYTES, AllowedHosts
from connectors.web.network import CheckedNetwork, HostNotAllowed, Resolve, resolved

RESPONSE_SECONDS = 30.0
"""Time limit of a whole response, from the resolution of the name to the last byte."""
_CONNECT_SECONDS = 10.0
_REDIRECTS = 5
_REDIRECTED = frozenset({300, 301, 302, 303, 307, 308})
_RETURNED = frozenset({200, 304, 404, 410})
_DENIED = frozenset({401, 403, 407, 451})
_HOST_FAILED = frozenset({502, 503, 504, 511, *range(520, 531)})
"""Failures of a host and of the proxies before it (52x: Cloudflare), or a login page of the network (511)."""
_POOLS, _IDLE = 32, 8
"""Pools of connections, and idle ones that each keeps. At each request httpcore compares all of a pool with each other."""
_IDLE_SECONDS = 15.0
_CODINGS = frozenset({"gzip", "x-gzip", "deflate"})
_UNREQUESTED = frozenset({"br", "zstd", "compress", "x-compress", "dcb", "dcz", "exi", "pack200-gzip"})
"""Codings that servers may use and this client cannot decode. An unknown name is ignored, as in browsers."""
_VALIDATOR = 1_000
"""Maximum length of an ETag or date; longer ones are ignored."""


_RawResponse = tuple[int, Mapping[str, str], bytes]


class WebResponse(NamedTuple):
    """A response with status 200, 304, 404 or 410, or a substitute for one.

    Attributes:
        address: The address after all redirects.
        etag, modified: The values for the next conditional request to this address.
        media_type: In lower case, without parameters; empty if not stated.
        charset: As stated in the header, by the name of Python's codec; None if it is unknown.
    """

    status: int = 200
    address: str = ""
    etag: str | None = None
    modified: str | None = None
    media_type: str = ""
    charset: str | None = None
    body: bytes = b""


class WebClient:
    """A client for the allowed hosts. Connects on first use; thread-safe.

    Args:
        pace: Returns the current pace.
        limits: Returns the limits of the host of an address. Called before each request, also after a redirect; its
            exceptions end the request.
        contact: An e-mail or web address for complaints, sent with each request.
        resolve: Returns the IP addresses of a host and port.
        refresh: Returns the address to which a page and its `Refresh` header lead at once, or "".
    """

    def __init__(
        self,
        hosts: AllowedHosts,
        pace: Callable[[], Pace],
        limits: Callable[[str], HostLimits],
        *,
        contact: str | None = None,
        seconds: float = RESPONSE_SECONDS,
        most_bytes: int = MOST_BYTES,
        resolve: Resolve = resolved,
        refresh: Callable[[WebResponse, str], str] = lambda *_: "",
    ) -> None:
        self._hosts = hosts
        self._refresh = refresh
        self._pace = pace
        self._limits = limits
        self._seconds = seconds
        self._most_bytes = most_bytes
        self._headers = {
            "User-Agent": f"catchment/{__version__} (+{contact})" if contact else f"catchment/{__version__}",
            "Accept": "text/html,application/xhtml+xml,*/*;q=0.8",
            "Accept-Encoding": "gzip, deflate",
            "Accept-Language": "*",
        }
        self._network = CheckedNetwork(hosts, resolve)
        self._pools = [
            httpcore.ConnectionPool(
                ssl_context=authorities(),
                max_connections=None,
                max_keepalive_connections=_IDLE,
                keepalive_expiry=_IDLE_SECONDS,
                network_backend=self._network,
            )
            for _ in range(_POOLS)
        ]

    def get(
        self,
        address: str,
        etag: str | None = None,
        modified: str | None = None,
        validated: str | None = None,
        *,
        limits: Callable[[str], HostLimits] | None = None,
    ) -> WebResponse:
        """Request an address and follow its redirects.

        The request is conditional if `etag` or `modified` are given. They are from an earlier response with the final
        address `validated` (default: `address`), and are sent to that address only. `limits` replaces that of the client.

        Raises HostNotAllowed before a request to another host, and Skipped for a response above the size limit.
        SourceUnavailable and RateLimited concern the host, AccessDenied, TimedOut and FetchFailed the address.
        """
        try:
            url = httpx.URL(address).copy_with(fragment=None)
        except httpx.InvalidURL:
            raise FetchFailed("invalid address") from None
        conditions = {"If-None-Match": etag, "If-Modified-Since": modified}
        conditional_address = validated or str(url)
        for _ in range(_REDIRECTS + 1):
            validators = (
                {name: value for name, value in conditions.items() if value} if str(url) == conditional_address else {}
            )
            status, headers, body = self._request_with_retry(url, validators, limits or self._limits)
            if status == 304 and not validators:
                raise _damage(_host(url))
            target = headers.get("location", "")
            if status not in _REDIRECTED:
                response = _response(status, url, headers, body)
                target = self._refresh(response, headers.get("refresh", "")) if status == 200 else ""
                if not target:
                    return response
            url = self._redirect_target(url, target)
        raise FetchFailed(f"{_host(url)}: redirects in a loop; check the address in a browser")

    def close(self) -> None:
        """Close the connections. May be called again; the next request reconnects."""
        for pool in self._pools:
            pool.close()

    # Requests

    def _redirect_target(self, url: httpx.URL, location: str) -> httpx.URL:
        """Return the address of a redirect. An unencrypted one after an encrypted one needs consent to exactly that service."""
        try:
            target = url.join(location).copy_with(fragment=None) if location else None
        except httpx.InvalidURL:
            target = None
        if target is None:
            raise FetchFailed(f"{_host(url)}: redirects to an invalid address")
        is_downgrade = url.scheme == "https" and target.scheme == "http"
        if is_downgrade and not self._hosts.names_service(target.raw_host.decode("ascii"), target.port or 80):
            raise HostNotAllowed(f"{target.host}:{target.port or 80}")
        return target

    def _request_with_retry(
        self, url: httpx.URL, conditions: Mapping[str, str], limits: Callable[[str], HostLimits]
    ) -> _RawResponse:
        """Retry once if the connection was lost: servers close idle connections."""
        try:
            return self._request(url, conditions, limits)
        except _ConnectionLost:
            return self._request(url, conditions, limits)

    def _request(
        self, url: httpx.URL, conditions: Mapping[str, str], limits: Callable[[str], HostLimits]
    ) -> _RawResponse:
        if not self._hosts.host_for(str(url)):
            raise HostNotAllowed(_host(url))
        with self._pace().transfer(at=limits(str(url))) as transfer:
            status, headers, body = self._exchange(url, conditions, transfer)
            if error := _error_of_status(_host(url), status, headers):
                raise error
        return status, headers, body

    def _exchange(self, url: httpx.URL, conditions: Mapping[str, str], transfer: Transfer) -> _RawResponse:
        host = _host(url)
        self._network.set_deadline(self._seconds)
        has_response = False
        try:
            with self._pools[hash(url.netloc) % _POOLS].stream(
                "GET",
                httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
                headers=[("Host", host), *self._headers.items(), *conditions.items()],
                extensions={"timeout": {"connect": _CONNECT_SECONDS}},
            ) as response:
                has_response = True
                headers = httpx.Headers(response.headers)
                transfer.report(read_headers(headers))
                return response.status, headers, self._body(host, headers, response.iter_stream())
        except (HostNotAllowed, httpcore.ConnectError, httpcore.ConnectTimeout) as error:
            # No request was sent.
            transfer.refund()
            if isinstance(error, HostNotAllowed):
                raise
            problem = "cannot connect; check address and network"
            if reason := certificate_error(error):
                problem = f"invalid certificate ({reason}); check the address, or set SSL_CERT_FILE"
            raise SourceUnavailable(f"{host}: {problem}") from None
        except httpcore.TimeoutException:
            problem = f"{host}: no complete response within {self._seconds:.0f} s; try again later"
            raise (TimedOut if has_response else HostSilent)(problem) from None
        except (httpcore.NetworkError, httpcore.ProtocolError):
            # After a damaged body, the other pages of the host may still be intact.
            raise (_damage(host) if has_response else _ConnectionLost(f"{host}: closed the connection")) from None

    def _body(self, host: str, headers: Mapping[str, str], parts: Iterable[bytes]) -> bytes:
        length = headers.get("content-length", "")
        if length.isdecimal() and (len(length) > 18 or int(length) > self._most_bytes):
            raise Skipped(SkipReason.TOO_LARGE)
        try:
            return decoded(parts, headers.get("content-encoding", ""), self._most_bytes)
        except UnrequestedCoding as error:
            raise FetchFailed(f"{host}: {error}") from None
        except (zlib.error, ValueError):
            raise _damage(host) from None


def decoded(parts: Iterable[bytes], encoding: str, most: int) -> bytes:
    """Decode a body (gzip, deflate) while never holding more than `most` bytes of it.

    Names that are no coding of HTTP are ignored, as browsers do.

    Raises Skipped if it is longer, before or after decoding; zlib.error or ValueError if it is damaged or truncated;
    UnrequestedCoding if it is encoded otherwise. Nested encodings are refused: they could expand a thousandfold again.
    """
    names = [name for part in encoding.lower().split(",") if (name := part.strip()) in _CODINGS | _UNREQUESTED]
    if len(names) > 1 or (names and names[0] in _UNREQUESTED):
        raise UnrequestedCoding(", ".join(names))
    is_plain, decoder = not names, None
    body, received = bytearray(), 0
    for data in parts:
        received += len(data)
        part = data
        while part and len(body) <= most and received <= most:
            if is_plain:
                body += part
                break
            if decoder is None:
                # Some servers send deflate without the header of zlib.
                is_raw = names[0] == "deflate" and part[0] & 15 != 8
                decoder = zlib.decompressobj(-zlib.MAX_WBITS if is_raw else zlib.MAX_WBITS | 32)
            elif decoder.eof:
                if part[:1] != b"\x1f":
                    break
                decoder = zlib.decompressobj(zlib.MAX_WBITS | 32)
            body += decoder.decompress(part, most + 1 - len(body))
            part = decoder.unused_data if decoder.eof else decoder.unconsumed_tail
        if len(body) > most or received > most:
            raise Skipped(SkipReason.TOO_LARGE)
    if decoder is not None and not decoder.eof:
        raise ValueError
    return bytes(body)


class UnrequestedCoding(ValueError):
    """The body has a Content-Encoding that was not requested."""

    def __str__(self) -> str:
        return f"answers in the encoding {self.args[0]}, which was not requested; it is requested again later"


class HostSilent(SourceUnavailable):
    """The host sent no data within the time limit of a response."""


class _ConnectionLost(SourceUnavailable):
    """The connection was closed before a response; a retry over a new one may succeed at once."""


def _host(url: httpx.URL) -> str:
    return url.netloc.decode("ascii")


def _response(status: int, url: httpx.URL, headers: Mapping[str, str], body: bytes) -> WebResponse:
    content_type = Message()
    content_type["content-type"] = headers.get("content-type", "")
    return WebResponse(
        status,
        str(url),
        _validator(headers.get("etag")),
        _validator(headers.get("last-modified")),
        content_type.get_content_type() if headers.get("content-type") else "",
        codec_of(content_type.get_content_charset() or ""),
        body,
    )


def _validator(value: str | None) -> str | None:
    return value if value and len(value) <= _VALIDATOR and value.isascii() and value.isprintable() else None


def _error_of_status(host: str, status: int, headers: Mapping[str, str]) -> CatchmentError | None:
    retry_after = read_headers(headers).retry_after
    if status == 429 or (status == 503 and retry_after is not None):
        return RateLimited(host, retry_after)
    if status in _HOST_FAILED:
        return SourceUnavailable(f"{host}: HTTP status {status}; it is requested again later")
    if status in _DENIED:
        return AccessDenied(f"{host}: HTTP status {status}: the page needs a login, or is not for programs")
    if status not in _RETURNED | _REDIRECTED:
        return FetchFailed(f"{host}: HTTP status {status}; check the address in a browser")
    return None


def _damage(host: str) -> FetchFailed:
    return FetchFailed(f"{host}: the response is damaged; it is requested again later")
