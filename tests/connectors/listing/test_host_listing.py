"""The base `HostListing` against a host with faults, on loopback."""

from __future__ import annotations

import pickle
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import Field

from catchment.contracts import Guarded, Manifest, Paced
from catchment.errors import (
    AccessDenied,
    ItemError,
    LoginFailed,
    ParseError,
    RateLimited,
    ResourceExhausted,
    SourceUnavailable,
    StillChanging,
    Vanished,
)
from catchment.model import Item
from catchment.pacing import HostLimits, Pace, RateReport, Transfer
from catchment.settings import LimitChanges, SourceSettings
from connectors import listing
from connectors.listing import Entry, HostAddress, HostListing
from tests.connectors.imap.certificates import authority, certificate
from tests.connectors.web.server import Host, Page, SmallWeb


class ShopSettings(SourceSettings):
    """Settings of a shop."""

    identity: ClassVar[tuple[str, ...]] = ("address",)
    address: HostAddress = Field(title="Address", description="Address of the list")


class Shop(HostListing):
    """A list of names and versions at an address, and a page for each name."""

    kind: ClassVar[str] = "shop"
    manifest: ClassVar[Manifest] = Manifest("Shop", "a shop")
    settings: ClassVar[type[SourceSettings]] = ShopSettings

    def headers(self) -> Mapping[str, str]:
        return {"Authorization": "Bearer weir"}

    def entries(self) -> Iterator[Entry]:
        for line in self.ask(self.address).decode().split():
            name, _, version = line.partition("=")
            yield Entry(name, version=version)

    def read(self, entry: Entry) -> bytes:
        return self.ask(f"{self.address}{entry.name}")


class Batches(Shop):
    """A shop that reads several names with one request. `bad`: a name that cannot be parsed."""

    read = HostListing.read

    def __init__(self, settings: Any) -> None:
        super().__init__(settings)
        self.groups: list[str] = []
        self.bad = self.gone = ""

    def read_several(self, entries: Sequence[Entry]) -> Mapping[str, bytes]:
        names = [entry.name for entry in entries]
        self.groups.append("".join(names))
        if self.bad in names:
            raise ParseError("damaged; report it")
        return {name: name.encode() for name in names if name != self.gone}


class RecordedPace(Pace):
    """A pace that records the reports and errors of its transfers."""

    def __init__(self) -> None:
        self.reports: list[RateReport] = []
        self.errors: list[BaseException] = []

    @contextmanager
    def transfer(self, cost: int = 1, at: HostLimits | None = None) -> Iterator[Transfer]:
        transfer = Transfer(cost)
        try:
            yield transfer
        except BaseException as error:
            self.errors.append(error)
            raise
        finally:
            self.reports += transfer.reports


@pytest.fixture
def web() -> Iterator[SmallWeb]:
    with SmallWeb() as web:
        yield web


@pytest.fixture
def host(web: SmallWeb) -> Host:
    """A host with a list of three names, and their pages."""
    host = web.hosts[0]
    host.put("/", "a=1 b=1 c=1")
    for name in "abc":
        host.put(f"/{name}", f"page {name}")
    return host


@pytest.fixture
def shop(host: Host) -> Iterator[Shop]:
    with closing(Shop(ShopSettings(address=host.address()))) as shop:
        shop.pace = RecordedPace()
        yield shop


@pytest.fixture
def batches(host: Host) -> Iterator[Batches]:
    with closing(Batches(ShopSettings(address=host.address()))) as batches:
        yield batches


def items_of(shop: Shop) -> list[Item]:
    return [entry.item for entry in shop._list().values()]


def test_login_goes_with_each_request_to_this_host(shop: Shop, host: Host) -> None:
    assert [shop.fetch(item).data for item in items_of(shop)] == [b"page a", b"page b", b"page c"]
    assert host.paths == ["/", "/a", "/b", "/c"]
    assert {request.headers["authorization"] for request in host.requests} == {"Bearer weir"}
    assert {request.headers["user-agent"] for request in host.requests} == {"catchment"}


def test_engine_paces_the_host_and_asks_for_consent_as_a_whole(shop: Shop, host: Host) -> None:
    assert isinstance(shop, Paced)
    assert not isinstance(shop, Guarded)
    assert shop.limits() == HostLimits(host.name)
    assert host.requests == []


@pytest.mark.parametrize(
    ("status", "headers", "error", "words", "is_of_host"),
    [
        (401, {}, LoginFailed, "login refused; correct it", True),
        (403, {}, AccessDenied, "not permitted; ask for access", False),
        (404, {}, Vanished, "not found; ", False),
        (410, {}, Vanished, "not found; ", False),
        (429, {"Retry-After": "90"}, RateLimited, "rate limit; retry in 90 s", True),
        (429, {}, RateLimited, "rate limit; retry later", True),
        (503, {"Retry-After": "30"}, RateLimited, "rate limit; retry in 30 s", True),
        (503, {}, SourceUnavailable, "HTTP status 503; check the address", True),
        (500, {}, SourceUnavailable, "HTTP status 500; check the address", True),
        (301, {"Location": "http://127.0.1.1:1/"}, SourceUnavailable, "HTTP status 301; check the address", True),
    ],
)
def test_refusals_of_a_host_have_their_errors(
    shop: Shop, host: Host, status: int, headers: dict[str, str], error: type[Exception], words: str, is_of_host: bool
) -> None:
    items = items_of(shop)
    host.always = Page(b"secret text", status=status, headers=headers, etag="")
    with pytest.raises(error, match=words) as raised:
        shop.fetch(items[0])
    assert "secret" not in str(raised.value)
    assert isinstance(shop.pace, RecordedPace)
    assert shop.pace.errors == ([raised.value] if is_of_host else [])
    assert shop.pace.reports[-1].retry_after == (float(headers["Retry-After"]) if "Retry-After" in headers else None)
    host.always = None
    assert shop.fetch(items[0]).data == b"page a"


def test_other_hosts_are_not_asked(shop: Shop, host: Host, web: SmallWeb) -> None:
    other = web.add()
    for address in (
        other.address(),
        other.address().replace("http:", "https:"),
        "file:///etc/passwd",
        "//x/",
        "http://[::1",
    ):
        with pytest.raises(SourceUnavailable, match="refers to another host; correct the address"):
            shop.ask(address)
    assert other.requests == []


def test_answer_above_the_limit_fails_this_item_alone(host: Host) -> None:
    settings = ShopSettings(address=host.address(), limits=LimitChanges(max_mb=0.1))
    host.put("/a", "x" * 100_001)
    with closing(Shop(settings)) as shop:
        first, second, _ = items_of(shop)
        with pytest.raises(ResourceExhausted, match=r"larger than 100,000 bytes; raise limits\.max_mb"):
            shop.fetch(first)
        assert shop.fetch(second).data == b"page b"


@pytest.mark.parametrize(
    "page",
    [
        Page(b"text", headers={"Content-Length": "9"}, etag=""),
        Page(raw=b"no HTTP\r\n\r\n"),
        Page(raw=b""),
        Page(b"text", headers={"Content-Encoding": "gzip"}, etag=""),
    ],
    ids=["cut off", "no HTTP", "nothing", "no gzip"],
)
def test_damaged_answer_is_a_failure_of_the_host(shop: Shop, host: Host, page: Page) -> None:
    host.always = page
    with pytest.raises(SourceUnavailable, match=r"no answer \(\w+\); check address and network"):
        shop.probe()


@pytest.mark.parametrize("page", [Page(b"x" * 9, delay=5), Page(b"x" * 90, trickle=0.05)], ids=["silent", "slow"])
def test_slow_answer_has_an_end(shop: Shop, host: Host, page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "_SILENCE_SECONDS", 0.3)
    monkeypatch.setattr(listing, "_SECONDS", 0.5)
    host.always = page
    with pytest.raises(SourceUnavailable, match=r"no (whole answer in|answer \(ReadTimeout\))"):
        shop.probe()


def test_host_that_is_away_is_named(web: SmallWeb) -> None:
    words = r"^127\.0\.1\.2:\d+: no answer \(ConnectError\); check address"
    with (
        closing(Shop(ShopSettings(address=web.dead().address()))) as shop,
        pytest.raises(SourceUnavailable, match=words),
    ):
        shop.probe()


def test_certificate_of_an_unknown_authority_is_refused(
    web: SmallWeb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signer = authority("Private authority")
    server = certificate(signer, "localhost")
    for name, data in (("ca", signer.pem), ("pem", server.pem), ("key", server.key_pem)):
        (tmp_path / name).write_bytes(data)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "pem", tmp_path / "key")
    secure = web.add(context)
    secure.put("/", "a=1")
    words = r"no answer \(.*certificate.*\); check address"
    with closing(Shop(ShopSettings(address=secure.address()))) as shop, pytest.raises(SourceUnavailable, match=words):
        shop.probe()
    assert secure.requests == []


def test_closed_and_pickled_connectors_connect_again(shop: Shop) -> None:
    assert shop.probe() == "3 entries"
    shop.close()
    shop.close()
    assert shop.probe() == "3 entries"
    with closing(pickle.loads(pickle.dumps(shop))) as copy:
        assert type(copy.pace) is Pace
        assert copy.probe() == "3 entries"


def test_expected_entries_are_read_ahead(batches: Batches) -> None:
    items = items_of(batches)
    batches.expect(items)
    assert [batches.fetch(item).data for item in items] == [b"a", b"b", b"c"]
    assert batches.groups == ["abc"]
    batches.expect(items[1:])
    assert batches.fetch(items[0]).data == b"a"
    assert batches.fetch(items[1]).data == b"b"
    assert batches.groups == ["abc", "a", "bc"]


def test_entry_that_is_gone_or_damaged_fails_alone(batches: Batches) -> None:
    items = items_of(batches)
    batches.bad, batches.gone = "b", "c"
    batches.expect(items)
    assert batches.fetch(items[0]).data == b"a"
    with pytest.raises(ItemError, match="damaged"):
        batches.fetch(items[1])
    with pytest.raises(StillChanging, match="; the next sync"):
        batches.fetch(items[2])


def test_groups_are_bounded(batches: Batches, host: Host) -> None:
    host.put("/", " ".join(f"{number:03}=1" for number in range(120)))
    items = items_of(batches)
    batches.expect(items)
    assert len({batches.fetch(item).data for item in items}) == 120
    assert [len(group) // 3 for group in batches.groups] == [50, 50, 20]
