"""The HTTP client against a real server on loopback."""

from __future__ import annotations

import gzip
import random
import ssl
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment import __version__
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
from catchment.pacing import HostLimits, Pace, Transfer
from connectors.tls import authorities
from connectors.web.address import AllowedHosts
from connectors.web.client import WebClient, decoded
from connectors.web.network import HostNotAllowed
from tests.connectors.imap.certificates import authority, certificate
from tests.connectors.web.server import Host, Page, SmallWeb

LONG = 1_000_000


class RecordedPace(Pace):
    """A pace that records the hosts of all transfers and of the refunded ones."""

    def __init__(self) -> None:
        self.hosts: list[str] = []
        self.refunded: list[str] = []
        self.waits: list[float | None] = []

    @contextmanager
    def transfer(self, cost: int = 1, at: HostLimits | None = None) -> Iterator[Transfer]:
        assert at
        self.hosts.append(at.host)
        transfer = Transfer(cost)
        try:
            yield transfer
        finally:
            self.refunded += [at.host] if transfer.refunded else []
            self.waits += [report.retry_after for report in transfer.reports]


@pytest.fixture
def web() -> Iterator[SmallWeb]:
    with SmallWeb(2) as web:
        yield web


@pytest.fixture
def host(web: SmallWeb) -> Host:
    return web.hosts[0]


@pytest.fixture
def pace() -> RecordedPace:
    return RecordedPace()


@pytest.fixture
def client_of(web: SmallWeb, pace: RecordedPace) -> Iterator[Callable[..., WebClient]]:
    """Make a client. It may request all hosts of the web, unless `allowed` is given."""
    clients: list[WebClient] = []

    def make(*allowed: str, **options: Any) -> WebClient:
        names = allowed or [host.name for host in web.hosts]
        client = WebClient(
            AllowedHosts(names),
            lambda: pace,
            lambda address: HostLimits(address.split("/")[2]),
            resolve=web.resolve,
            **{"seconds": 10.0, "most_bytes": LONG, **options},
        )
        clients.append(client)
        return client

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def client(client_of: Callable[..., WebClient]) -> WebClient:
    return client_of()


# Requests


def test_request_names_the_program_and_carries_nothing_of_others(
    client_of: Callable[..., WebClient], web: SmallWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    first, second = web.hosts
    first.pages["/"] = Page(status=302, headers={"Location": second.address("/b"), "Set-Cookie": "a=b"}, etag="")
    second.put("/b", "text")
    client = client_of(contact="me@example.org")
    assert client.get(first.address()).body == b"text"
    client.get(first.address())
    for request in web.requests:
        assert request.headers["user-agent"] == f"catchment/{__version__} (+me@example.org)"
        assert request.headers.keys() == {"host", "user-agent", "accept", "accept-encoding", "accept-language"}
    assert client_of().get(second.address("/b")).status == 200
    assert web.requests[-1].headers["user-agent"] == f"catchment/{__version__}"


def test_response_has_its_type_charset_and_validators(client: WebClient, host: Host) -> None:
    host.pages["/"] = Page(
        b"x", "Text/HTML; charset=Latin-1; q=1", etag='W/"1"', modified="Sun, 06 Nov 1994 08:49:37 GMT"
    )
    response = client.get(host.address("/#part"))
    assert response[:4] == (200, host.address("/"), 'W/"1"', "Sun, 06 Nov 1994 08:49:37 GMT")
    assert response[4:] == ("text/html", "cp1252", b"x")


@pytest.mark.parametrize(
    "value", ["charset=nonsense", "charset=hex", "charset=", "charset", "charset*=x''%ff", 'charset="', "charset=\xe9"]
)
def test_unusable_charset_and_validators_are_ignored(client: WebClient, host: Host, value: str) -> None:
    host.pages["/"] = Page(b"x", f"text/plain; {value}", etag="\xe9", modified="x" * 2_000)
    response = client.get(host.address())
    assert response[2:6] == (None, None, "text/plain", None)


@pytest.mark.parametrize(
    "page",
    [
        Page(b"a", etag='"strong"'),
        Page(b"a", etag='W/"weak"'),
        Page(b"a", etag="", modified="Sun, 06 Nov 1994 08:49:37 GMT"),
    ],
)
def test_unchanged_page_is_not_sent_again_and_costs_a_request(
    client: WebClient, host: Host, pace: RecordedPace, page: Page
) -> None:
    host.pages["/"] = page
    first = client.get(host.address())
    second = client.get(host.address(), etag=first.etag, modified=first.modified)
    assert (second.status, second.body, second.etag, second.modified) == (304, b"", first.etag, first.modified)
    assert pace.refunded == []


def test_validators_are_sent_to_the_address_that_gave_them_only(client: WebClient, host: Host) -> None:
    host.pages |= {"/latest": Page.moved("/1", 302), "/1": Page.of("one"), "/2": Page.of("two")}
    first = client.get(host.address("/latest"))
    repeated = client.get(host.address("/latest"), etag=first.etag, validated=first.address)
    assert repeated.status == 304
    host.pages["/latest"] = Page.moved("/2", 302)
    client.get(host.address("/latest"), etag=first.etag, validated=first.address)
    assert [request.path for request in host.requests if request.is_conditional] == ["/1"]


# Redirects


@pytest.mark.parametrize("statuses", [(301, 308), (302, 303), (307, 308)])
def test_redirects_are_followed_with_the_limits_of_each_host(
    client: WebClient, web: SmallWeb, pace: RecordedPace, statuses: tuple[int, int]
) -> None:
    first, second = web.hosts
    first.pages["/"] = Page.moved(second.address("/a"), statuses[0])
    second.pages |= {"/a": Page.moved("\xc3\xbc?c#d", statuses[1]), "/%C3%BC?c": Page.of("text")}
    assert client.get(first.address()).address == second.address("/%C3%BC?c")
    assert pace.hosts == [first.name, second.name, second.name]


def test_redirect_to_a_host_without_consent_sends_nothing(
    client_of: Callable[..., WebClient], web: SmallWeb, pace: RecordedPace
) -> None:
    first, second = web.hosts
    client = client_of(first.name)
    for target in (second.address(), "http://169.254.169.254/latest", "http://user@" + first.name, "file:///etc/hosts"):
        first.pages["/"] = Page.moved(target)
        with pytest.raises(HostNotAllowed) as raised:
            client.get(first.address())
        assert raised.value.skip_reason is SkipReason.EXCLUDED
    assert second.requests == []
    assert set(pace.hosts) == {first.name}


def test_redirects_end_after_five(client: WebClient, host: Host) -> None:
    host.make = lambda path: Page.moved(f"{path}x")
    with pytest.raises(FetchFailed, match="loop"):
        client.get(host.address())
    assert len(host.requests) == 6


@pytest.mark.parametrize("headers", [{}, {"Location": "http://[bad"}, {"Location": "http://a:99999/"}])
def test_redirect_without_a_valid_address_fails(client: WebClient, host: Host, headers: dict[str, str]) -> None:
    host.pages["/"] = Page(status=302, headers=headers, etag="")
    with pytest.raises((FetchFailed, HostNotAllowed)):
        client.get(host.address())


# Refusals


@pytest.mark.parametrize(
    ("status", "headers", "error", "retry_after"),
    [
        (401, {}, AccessDenied, None),
        (403, {}, AccessDenied, None),
        (407, {}, AccessDenied, None),
        (451, {}, AccessDenied, None),
        (429, {}, RateLimited, None),
        (429, {"Retry-After": "120"}, RateLimited, 120),
        (503, {"Retry-After": "7"}, RateLimited, 7),
        (503, {}, SourceUnavailable, None),
        (502, {}, SourceUnavailable, None),
        (511, {}, SourceUnavailable, None),
        (500, {}, FetchFailed, None),
        (400, {}, FetchFailed, None),
        (204, {}, FetchFailed, None),
        (304, {}, FetchFailed, None),
        (306, {}, FetchFailed, None),
    ],
)
def test_status_decides_whether_the_host_or_the_page_failed(
    client: WebClient,
    host: Host,
    pace: RecordedPace,
    status: int,
    headers: dict[str, str],
    error: type[CatchmentError],
    retry_after: float | None,
) -> None:
    host.always = Page(b"<p>secret</p>", status=status, headers=headers, etag="")
    with pytest.raises(error) as raised:
        client.get(host.address("/private?token=1"))
    assert getattr(raised.value, "retry_after", None) == retry_after
    assert pace.waits == [retry_after]
    assert not {"secret", "private", "token"} & set(str(raised.value).replace("/", " ").replace("=", " ").split())


def test_time_to_retry_may_be_a_date(client: WebClient, host: Host) -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    dates = {"Date": format_datetime(now), "Retry-After": format_datetime(now + timedelta(hours=1))}
    host.always = Page(status=429, headers=dates, etag="")
    with pytest.raises(RateLimited) as raised:
        client.get(host.address())
    assert raised.value.retry_after == 3_600


@pytest.mark.parametrize("status", [404, 410])
def test_gone_page_is_a_response(client: WebClient, host: Host, status: int) -> None:
    host.always = Page(status=status, etag="")
    assert client.get(host.address()).status == status


def test_request_that_was_never_sent_gives_its_tokens_back(
    client_of: Callable[..., WebClient], web: SmallWeb, pace: RecordedPace
) -> None:
    dead, inner, unknown = web.dead(), web.add_name("inner.example"), f"unknown.example:{web.port}"
    client = client_of(dead.name, "inner.example", unknown)
    with pytest.raises(SourceUnavailable):
        client.get(dead.address())
    with pytest.raises(SourceUnavailable):
        client.get(f"http://{unknown}/")
    with pytest.raises(HostNotAllowed):
        client.get(inner.address())
    assert pace.refunded == pace.hosts == [dead.name, unknown]


def test_lost_connection_is_retried_once(client: WebClient, host: Host, pace: RecordedPace) -> None:
    host.always = Page(raw=b"")
    with pytest.raises(SourceUnavailable):
        client.get(host.address())
    assert len(host.requests) == len(pace.hosts) == 2


# Bounds


@pytest.mark.parametrize(
    ("page", "error"),
    [
        (Page(b"x", delay=60), SourceUnavailable),
        (Page(b"x" * 500, trickle=0.1), TimedOut),
        (Page(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"), FetchFailed),
        (Page(raw=b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc"), FetchFailed),
        (Page(raw=b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"), FetchFailed),
        (Page(raw=b"HTTP/1.1 200 OK\r\nA: " + b"b" * 200_000 + b"\r\n\r\n"), SourceUnavailable),
        (Page(raw=b"HTTP/1.1 200 OK\r\nA: " + b"b" * 500, trickle=0.1), SourceUnavailable),
        (Page(raw=b"garbage\r\n\r\n"), SourceUnavailable),
        (Page(raw=b"HTTP/1.1 101 Other\r\nUpgrade: x\r\n\r\nabc"), SourceUnavailable),
        (Page(b"x", headers={"Content-Encoding": "br"}), FetchFailed),
        (Page(gzip.compress(gzip.compress(b"x")), headers={"Content-Encoding": "gzip, gzip"}), FetchFailed),
        (Page(b"x", headers={"Content-Encoding": "gzip"}), FetchFailed),
        (Page(gzip.compress(b"x" * 99, mtime=0)[:-4], headers={"Content-Encoding": "gzip"}), FetchFailed),
    ],
)
def test_slow_or_damaged_response_fails(
    client_of: Callable[..., WebClient], host: Host, page: Page, error: type[CatchmentError]
) -> None:
    host.always = page
    with pytest.raises(error) as raised:
        client_of(seconds=0.3).get(host.address())
    assert host.name in str(raised.value)
    host.always = Page.of("text")
    assert client_of().get(host.address()).body == b"text"


@pytest.mark.parametrize(
    "page",
    [
        Page(b"x" * (LONG + 1)),
        Page(b"", headers={"Content-Length": str(LONG + 1)}),
        Page(b"", headers={"Content-Length": "9" * 19}),
        Page(gzip.compress(bytes(LONG)) * 200, headers={"Content-Encoding": "gzip"}),
        Page(zlib.compress(bytes(200 * LONG), 1), headers={"Content-Encoding": "deflate"}),
    ],
)
def test_oversized_response_is_skipped_in_little_memory(client: WebClient, host: Host, page: Page) -> None:
    host.always = page
    tracemalloc.start()
    try:
        with pytest.raises(Skipped) as raised:
            client.get(host.address())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert raised.value.skip_reason is SkipReason.TOO_LARGE
    assert peak < 5 * LONG


@pytest.mark.parametrize(
    ("encoding", "data"),
    [
        ("", b"text" * 999),
        ("Identity", b"text" * 999),
        *(
            (name, b"text" * 999)
            for name in ("UTF-8", "none", "binary", "aws-chunked", "identity, identity", " , ", "text/html")
        ),
        *(
            (name, gzip.compress(b"text" * 999, mtime=0))
            for name in ("identity, GZIP", "aws-chunked,gzip", "utf-8, x-gzip")
        ),
        ("gzip", gzip.compress(b"text" * 999, mtime=0)),
        ("x-gzip", gzip.compress(b"text" * 9, mtime=0) + gzip.compress(b"text" * 990, mtime=0)),
        ("gzip", gzip.compress(b"text" * 999, mtime=0) + bytes(9)),
        ("deflate", zlib.compress(b"text" * 999)),
        ("deflate", zlib.compress(b"text" * 999, wbits=-15)),
    ],
)
def test_body_is_decoded_in_any_pieces(encoding: str, data: bytes) -> None:
    chance = random.Random(7)
    for size in (1, 2, 5, 10_000):
        pieces, remaining = [], data
        while remaining:
            number = chance.randint(1, size)
            pieces, remaining = [*pieces, remaining[:number]], remaining[number:]
        assert decoded(pieces, encoding, most=3_996) == b"text" * 999
    with pytest.raises(Skipped):
        decoded([data], encoding, most=3_995)


@given(
    st.lists(st.binary(max_size=40) | st.sampled_from([gzip.compress(b"text"), zlib.compress(b"text")])),
    st.sampled_from(["gzip", "deflate", "", "br", "gzip, gzip"]),
)
def test_any_body_is_decoded_within_its_limit_or_refused(parts: list[bytes], encoding: str) -> None:
    with suppress(Skipped, ValueError, zlib.error):
        assert len(decoded(parts, encoding, most=64)) <= 64


@pytest.mark.parametrize("encoding", ["br", "ZSTD", "identity, br", "gzip, gzip", "br, gzip"])
def test_coding_that_was_not_requested_is_named(client: WebClient, host: Host, encoding: str) -> None:
    host.always = Page(b"x", headers={"Content-Encoding": encoding})
    with pytest.raises(FetchFailed, match=encoding.lower().removeprefix("identity, ")):
        client.get(host.address())


# TLS


def test_certificate_of_an_unknown_authority_is_refused(
    client_of: Callable[..., WebClient], web: SmallWeb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signer = authority("Private authority")
    server = certificate(signer, "tls.example")
    for name, data in (("ca", signer.pem), ("pem", server.pem), ("key", server.key_pem)):
        (tmp_path / name).write_bytes(data)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "pem", tmp_path / "key")
    plain, secure = web.hosts[0], web.add(context)
    secure.pages |= {"/": Page.of("text"), "/down": Page.moved(plain.address("/"))}
    plain.put("/", "plain")
    named_host = web.add_name("tls.example", secure)
    client = client_of(named_host.name)
    with pytest.raises(SourceUnavailable, match="certificate"):
        client.get(named_host.address())
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca"))
    authorities.cache_clear()
    try:
        assert client_of(named_host.name).get(named_host.address()).body == b"text"
        secure.pages["/default"] = Page.moved("http://tls.example/")
        with pytest.raises(HostNotAllowed, match=r"tls\.example:80"):
            client_of(named_host.name, "tls.example").get(named_host.address("/default"))
        assert client_of(named_host.name, plain.name).get(named_host.address("/down")).body == b"plain"
    finally:
        authorities.cache_clear()
