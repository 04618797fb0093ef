"""The API of a host over HTTP: one question at a time, with what is known already (ETags), and what the answer means.

The token is sent to this host and no other, and is in no message, no log and no pickle.
"""

from __future__ import annotations

import re
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx
import orjson

from catchment.errors import AccessDenied, LoginFailed, SourceUnavailable, Vanished
from catchment.pacing import Pace, Transfer, read_headers
from catchment.runtime.secret_references import resolve
from connectors.github.api.errors import AnswerTooLarge, LostError, lost, meaning, unreadable
from connectors.github.api.render import READ, Kind, Said
from connectors.github.settings import GitHubSettings
from connectors.loopback import is_loopback

PAGE = 100
"""Entries of a page: the most that the API gives."""
_CONNECT_SECONDS = 20.0
_ANSWER_SECONDS = 120.0
"""How long a whole answer may take; one that trickles would hold the host's place for ever."""
_LONGEST = 64_000_000
"""Bytes of an answer: a hundred comments of the longest kind, every letter escaped."""
_ENCODINGS = frozenset({"", "identity", "gzip", "deflate"})
"""Ways to compress an answer that are read: a second one within the first would grow a thousand times once more."""
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
    """What the host said. `data` is None and `changed` False where nothing is different from what the ETag stands for.

    `next` is the address of the next page; `last` the number of the last, where the host tells.
    """

    data: Any
    etag: str | None
    next: str | None = None
    last: int | None = None
    changed: bool = True


class ApiClient:
    """Asks a host. Connects on first use; safe for threads. `pace` gives the pace that holds at the moment."""

    def __init__(self, settings: GitHubSettings, pace: Callable[[], Pace], seconds: float) -> None:
        """`seconds`: how long a part of an answer may take."""
        self.host = settings.host
        self._api = settings.api
        self._token = settings.token
        self._pace = pace
        self._timeout = httpx.Timeout(seconds, connect=min(_CONNECT_SECONDS, seconds))
        self._opening = threading.Lock()
        self._http: httpx.Client | None = None

    @property
    def has_token(self) -> bool:
        """Whether it asks as somebody."""
        return self._token is not None

    def get(self, path: str, etag: str | None = None) -> ApiResponse:
        """The answer to a question: a path below the API's address, or an address that an answer gave.

        Raises SourceUnavailable, LoginFailed and RateLimited for the host, Vanished and AccessDenied for this one thing.
        A redirect within the host is followed: a repository was renamed, an issue transferred.
        """
        address = path if "://" in path else self._api + path
        for _ in range(_REDIRECTS):
            answer = self._patiently(self._within(address), etag)
            if isinstance(answer, ApiResponse):
                return answer
            address = answer
        raise SourceUnavailable(f"{self.host} redirects in a circle; see whether a proxy stands between")

    def pages(self, path: str) -> Iterator[list[Any]]:
        """All pages of a listing, along the links between them."""
        following: str | None = path
        while following is not None:
            answer = self.get(following)
            yield self.entries(answer)
            following = answer.next

    def said(self, kind: Kind, repository: str, told: Iterable[Any]) -> list[Said]:
        """What entries tell of a repository. Raises SourceUnavailable where they tell nothing that makes sense."""
        try:
            return [READ[kind](repository, one) for one in told]
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            # Each is what reading an entry of another shape comes to.
            raise unreadable(self.host) from None

    def entries(self, answer: ApiResponse) -> list[Any]:
        """The entries of an answer that is a page. Raises SourceUnavailable where it is none."""
        if not isinstance(answer.data, list) or not all(isinstance(entry, dict) for entry in answer.data):
            raise unreadable(self.host)
        return answer.data

    def close(self) -> None:
        """Give up the connections; may be called again, and the next question connects anew."""
        with self._opening:
            http, self._http = self._http, None
        if http is not None:
            http.close()

    # One exchange

    def _within(self, address: str) -> str:
        """The address, if it is one of this host: no other is ever sent the token."""
        try:
            asked, own = urlsplit(address), urlsplit(self._api)
        except ValueError:
            raise unreadable(self.host) from None
        if (asked.scheme, asked.netloc) != (own.scheme, own.netloc):
            raise SourceUnavailable(f"{self.host} leads to another host, which is not asked; correct address")
        return address

    def _patiently(self, address: str, etag: str | None) -> ApiResponse | str:
        """Asked a second time when the connection was lost: a server closes one that was idle, and restarts."""
        try:
            return self._ask(address, etag)
        except LostError:
            return self._ask(address, etag)

    def _ask(self, address: str, etag: str | None) -> ApiResponse | str:
        with self._pace().transfer() as transfer:
            status, headers, body = self._exchange(address, {"If-None-Match": etag} if etag else {}, transfer)
            error = None if status in _REDIRECTED else meaning(self.host, status, read_headers(headers), body)
            if error is not None and not isinstance(error, (Vanished, AccessDenied)):
                raise error
            data = None if error is not None or status != 200 else self._read(body, headers)
        if error is not None:
            raise error
        if status in _REDIRECTED:
            return self._joined(address, headers.get("location", ""))
        if status == 304:
            return ApiResponse(None, etag, changed=False)
        links = {name: found for found, name in _LINK.findall(headers.get("link", ""))}
        return ApiResponse(data, headers.get("etag"), links.get("next"), _page(links.get("last")))

    def _exchange(
        self, address: str, asked: Mapping[str, str], transfer: Transfer
    ) -> tuple[int, Mapping[str, str], bytes]:
        try:
            with self._connection().stream("GET", address, headers=dict(asked)) as response:
                transfer.told(read_headers(response.headers))
                if response.status_code == 304 and self.has_token:
                    # GitHub counts it for whoever asks as nobody.
                    transfer.refund()
                return response.status_code, response.headers, body_of(self.host, response)
        except httpx.HTTPError as error:
            raise lost(self.host, error) from None
        except httpx.InvalidURL:
            raise unreadable(self.host) from None

    def _read(self, body: bytes, headers: Mapping[str, str]) -> Any:
        if "json" not in headers.get("content-type", ""):
            raise unreadable(self.host)
        try:
            return orjson.loads(body)
        except orjson.JSONDecodeError:
            raise unreadable(self.host) from None

    def _joined(self, address: str, location: str) -> str:
        try:
            return str(httpx.URL(address).join(location))
        except httpx.InvalidURL:
            raise unreadable(self.host) from None

    def _connection(self) -> httpx.Client:
        with self._opening:
            if self._http is None:
                token = {"Authorization": f"Bearer {_token(self._token)}"} if self._token else {}
                own = urlsplit(self._api)
                self._http = httpx.Client(
                    headers={**_HEADERS, **token},
                    timeout=self._timeout,
                    verify=authorities() if own.scheme == "https" else False,
                    # A proxy of the environment knows nothing of this machine's own addresses.
                    trust_env=not is_loopback(own.hostname or ""),
                )
            return self._http


def body_of(host: str, response: httpx.Response) -> bytes:
    """The body of a response that is being streamed. Raises AnswerTooLarge, before it is read where its length is given."""
    ends = time.monotonic() + _ANSWER_SECONDS
    if response.headers.get("content-encoding", "").strip().lower() not in _ENCODINGS:
        raise unreadable(host)
    length = response.headers.get("content-length", "")
    body = bytearray()
    if not (length.isdecimal() and len(length) < 20 and int(length) > _LONGEST):
        for part in response.iter_bytes():
            body += part
            if len(body) > _LONGEST:
                break
            if time.monotonic() > ends:
                raise SourceUnavailable(f"{host} answers without an end; the next sync asks again")
        else:
            return bytes(body)
    raise AnswerTooLarge(f"{host}: an answer exceeds {_LONGEST} bytes; see whether a proxy stands between")


@lru_cache(maxsize=1)
def authorities() -> ssl.SSLContext:
    """Those of the system, which knows a company's own, and those that the library brings; reading them takes 30 ms."""
    context = httpx.create_ssl_context()
    context.load_default_certs()
    return context


def _token(reference: str) -> str:
    token = resolve(reference)
    if not (token.isascii() and token.isprintable()) or " " in token:
        # The library's own error would show it.
        raise LoginFailed("the token has letters that no token has; correct what its reference leads to")
    return token


def _page(address: str | None) -> int | None:
    found = _NUMBER.search(address or "")
    return int(found[1]) if found else None
