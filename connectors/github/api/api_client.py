"""An HTTP client for the API of one host: conditional requests (ETags), rate limits, pagination.

The token is sent to this host only, and never appears in messages, logs or pickles.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx

from catchment.content.foreign_json import read_json
from catchment.errors import AccessDenied, LoginFailed, SourceUnavailable, Vanished
from catchment.pacing import Pace, Transfer, read_headers
from catchment.runtime.addresses import is_local
from catchment.runtime.secret_references import resolve
from connectors.github.api.entries import PARSERS, ApiEntry, EntryKind
from connectors.github.api.errors import (
    ConnectionLost,
    OversizedResponse,
    connection_error,
    error_of_status,
    malformed_response,
)
from connectors.github.settings import GitHubSettings
from connectors.tls import authorities

PAGE = 100
"""Entries per page, the API's maximum."""
_CONNECT_SECONDS = 20.0
_RESPONSE_SECONDS = 120.0
"""Time limit of a whole response; a slow trickle would otherwise occupy the host slot forever."""
_MAX_RESPONSE_BYTES = 64_000_000
"""Size limit of a response in bytes: a hundred comments of maximum length, with every character escaped."""
_ENCODINGS = frozenset({"", "identity", "gzip", "deflate"})
"""Accepted content encodings. Nested compression could expand a thousandfold again."""
_REDIRECTS = 5
_REDIRECTED = frozenset({301, 302, 303, 307, 308})
_LINK = re.compile(r'<([^<>]*)>[^,<>]*?\brel="?(\w+)"?')
_NUMBER = re.compile(r"[?&]page=([0-9]{1,9})(?:&|\Z)")
_HEADERS = {
    "Accept": "application/vnd.github+json",
    "X-GitHub-Api-Version": "2022-11-28",
    "User-Agent": "catchment",
}


class ApiResponse(NamedTuple):
    """A response. If the resource still has the sent ETag, `data` is None and `changed` is False.

    `next` is the URL of the next page, `last` the number of the last page, if reported.
    """

    data: Any
    etag: str | None
    next: str | None = None
    last: int | None = None
    changed: bool = True


class ApiClient:
    """A client for one host. Connects on first use; thread-safe. `pace` returns the current pace."""

    def __init__(self, settings: GitHubSettings, pace: Callable[[], Pace], seconds: float) -> None:
        """`seconds`: timeout for each part of a response."""
        self.host = settings.host
        self._api = settings.api
        self._token = settings.token
        self._pace = pace
        self._timeout = httpx.Timeout(seconds, connect=min(_CONNECT_SECONDS, seconds))
        self._opening = threading.Lock()
        self._http: httpx.Client | None = None

    @property
    def has_token(self) -> bool:
        """Whether requests are authenticated."""
        return self._token is not None

    def get(self, path: str, etag: str | None = None) -> ApiResponse:
        """Request a path below the API's base URL, or a URL from an earlier response.

        Follows redirects within the host: a repository was renamed, or an issue transferred. Raises SourceUnavailable,
        LoginFailed or RateLimited for the host, Vanished or AccessDenied for the requested entry.
        """
        address = path if "://" in path else self._api + path
        for _ in range(_REDIRECTS):
            response = self._request_with_retry(self._checked_url(address), etag)
            if isinstance(response, ApiResponse):
                return response
            address = response
        raise SourceUnavailable(f"{self.host}: redirect loop; check for a proxy in between")

    def pages(self, path: str) -> Iterator[list[Any]]:
        """Yield all pages of a listing, following its links."""
        next_url: str | None = path
        while next_url is not None:
            response = self.get(next_url)
            yield self.entries(response)
            next_url = response.next

    def parse(self, kind: EntryKind, repository: str, data: Iterable[Any]) -> list[ApiEntry]:
        """Parse entries of a repository. Raises SourceUnavailable if they are malformed."""
        try:
            return [PARSERS[kind](repository, entry) for entry in data]
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            # Any of these can result from an unexpected shape.
            raise malformed_response(self.host) from None

    def entries(self, response: ApiResponse) -> list[Any]:
        """Return the entries of a page. Raises SourceUnavailable if the response is not a page."""
        if not isinstance(response.data, list) or not all(isinstance(entry, dict) for entry in response.data):
            raise malformed_response(self.host)
        return response.data

    def close(self) -> None:
        """Close the connections; may be called again. The next request reconnects."""
        with self._opening:
            http, self._http = self._http, None
        if http is not None:
            http.close()

    # Requests

    def _checked_url(self, address: str) -> str:
        """Return the URL if it belongs to this host: the token must not be sent elsewhere."""
        try:
            requested, own = urlsplit(address), urlsplit(self._api)
        except ValueError:
            raise malformed_response(self.host) from None
        if (requested.scheme, requested.netloc) != (own.scheme, own.netloc):
            raise SourceUnavailable(f"{self.host}: redirects to another host; correct address")
        return address

    def _request_with_retry(self, address: str, etag: str | None) -> ApiResponse | str:
        """Retry once if the connection was lost: servers close idle connections, and restart."""
        try:
            return self._request(address, etag)
        except ConnectionLost:
            return self._request(address, etag)

    def _request(self, address: str, etag: str | None) -> ApiResponse | str:
        with self._pace().transfer() as transfer:
            status, headers, body = self._exchange(address, {"If-None-Match": etag} if etag else {}, transfer)
            error = None if status in _REDIRECTED else error_of_status(self.host, status, read_headers(headers), body)
            if error is not None and not isinstance(error, (Vanished, AccessDenied)):
                raise error
            data = None if error is not None or status != 200 else self._read(body, headers)
        if error is not None:
            raise error
        if status in _REDIRECTED:
            return self._joined(address, headers.get("location", ""))
        if status == 304:
            return ApiResponse(None, etag, changed=False)
        links = {name: target for target, name in _LINK.findall(headers.get("link", ""))}
        return ApiResponse(data, headers.get("etag"), links.get("next"), _page(links.get("last")))

    def _exchange(
        self, address: str, request_headers: Mapping[str, str], transfer: Transfer
    ) -> tuple[int, Mapping[str, str], bytes]:
        try:
            with self._connection().stream("GET", address, headers=dict(request_headers)) as response:
                transfer.report(read_headers(response.headers))
                if response.status_code == 304 and self.has_token:
                    # GitHub counts a 304 against the limit only for requests without a token.
                    transfer.refund()
                return response.status_code, response.headers, body_of(self.host, response)
        except httpx.HTTPError as error:
            raise connection_error(self.host, error) from None
        except httpx.InvalidURL:
            raise malformed_response(self.host) from None

    def _read(self, body: bytes, headers: Mapping[str, str]) -> Any:
        if "json" not in headers.get("content-type", ""):
            raise malformed_response(self.host)
        try:
            return read_json(body)
        except ValueError:
            raise malformed_response(self.host) from None

    def _joined(self, address: str, location: str) -> str:
        try:
            return str(httpx.URL(address).join(location))
        except httpx.InvalidURL:
            raise malformed_response(self.host) from None

    def _connection(self) -> httpx.Client:
        with self._opening:
            if self._http is None:
                token = {"Authorization": f"Bearer {_token(self._token)}"} if self._token else {}
                own = urlsplit(self._api)
                self._http = httpx.Client(
                    headers={**_HEADERS, **token},
                    timeout=self._timeout,
                    verify=authorities() if own.scheme == "https" else False,
                    # A proxy from the environment cannot reach loopback addresses of this machine.
                    trust_env=not is_local(self._api),
                )
            return self._http


def body_of(host: str, response: httpx.Response) -> bytes:
    """Read the body of a streamed response.

    Raises an error for oversized ones, before reading if the length is announced.
    """
    ends = time.monotonic() + _RESPONSE_SECONDS
    if response.headers.get("content-encoding", "").strip().lower() not in _ENCODINGS:
        raise malformed_response(host)
    length = response.headers.get("content-length", "")
    body = bytearray()
    if not (length.isdecimal() and len(length) < 20 and int(length) > _MAX_RESPONSE_BYTES):
        for part in response.iter_bytes():
            body += part
            if len(body) > _MAX_RESPONSE_BYTES:
                break
            if time.monotonic() > ends:
                raise SourceUnavailable(
                    f"{host}: response not complete within the time limit; the next sync tries again"
                )
        else:
            return bytes(body)
    raise OversizedResponse(f"{host}: response exceeds {_MAX_RESPONSE_BYTES} bytes; check for a proxy in between")


def _token(reference: str) -> str:
    token = resolve(reference)
    if not (token.isascii() and token.isprintable()) or " " in token:
        # httpx's error message would contain the token.
        raise LoginFailed("token: contains invalid characters; correct the referenced secret")
    return token


def _page(address: str | None) -> int | None:
    match = _NUMBER.search(address or "")
    return int(match[1]) if match else None
