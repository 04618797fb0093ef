"""A web of hosts, a clock that tests set, and a source that reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from catchment.errors import RateLimited, SourceUnavailable
from catchment.model import Upsert
from catchment.pacing import HostLimits, Pace
from catchment.pacing.breaker import Breaker
from catchment.pacing.bucket import TOKEN
from catchment.pacing.pace import Transfer
from connectors.contract.memory_ledger import MemoryLedger, MemoryReport
from connectors.web import connector
from connectors.web.connector import WebConnector
from connectors.web.settings import WebSettings
from tests.connectors.web.server import Host, Request, SmallWeb

ENTRY = "<item><guid>{id}</guid>{link}<title>{title}</title>{text}</item>"


@dataclass
class Clock:
    """A clock that stands still until it is moved."""

    now: datetime = datetime(2026, 3, 2, 9, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def wait(self, **length: float) -> None:
        self.now += timedelta(**length)


class Backoff(Pace):
    """A pace that keeps to breakers and long pauses, by a clock of tests, as the one of the ledger does for all sources."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.breakers: dict[str, Breaker] = {}
        self._paused: dict[str, float] = {}

    @contextmanager
    def transfer(self, cost: int = 1, at: HostLimits | None = None) -> Iterator[Transfer]:
        assert at is not None
        now, breaker = self._clock.now.timestamp(), self.breakers.get(at.host, Breaker())
        if (wait := self._paused.get(at.host, now) - now) > 0:
            raise RateLimited(at.host, wait)
        _, until = breaker.ask(int(now * TOKEN), "", lambda _: True)
        if until is not None:
            raise SourceUnavailable("backed off", until / TOKEN - now)
        try:
            yield Transfer(cost)
        except RateLimited as error:
            if (pause := error.retry_after or 0) > 120:
                self._paused[at.host] = now + pause
            raise
        except SourceUnavailable:
            self.breakers[at.host] = breaker.failed(int(now * TOKEN))
            raise
        self.breakers.pop(at.host, None)


@dataclass
class Reader:
    """A web source with its ledger. `folder`: its files on disk."""

    web: SmallWeb
    clock: Clock
    folder: Path
    ledger: MemoryLedger = field(default_factory=MemoryLedger)
    pace: Backoff = field(init=False)

    def __post_init__(self) -> None:
        self.pace = Backoff(self.clock)

    def connector(self, *addresses: str, **settings: object) -> WebConnector:
        options = {"addresses": addresses, "every_seconds": 0.01, **settings}
        source = WebConnector(WebSettings.model_validate(options))
        source.folder = self.folder
        source.pace = self.pace
        return source

    def sync(
        self, source: WebConnector, *, deep: bool = False, cut: int | None = None, fetch: bool = True
    ) -> MemoryReport:
        try:
            return self.ledger.sync(source, deep=deep, cut=cut, fetch=fetch)
        finally:
            source.close()

    def requests_of(self, action: Callable[[], object]) -> list[Request]:
        """Return the requests that an action sends, without those for robots.txt."""
        number = len(self.web.requests)
        action()
        return [request for request in self.web.requests[number:] if request.path != "/robots.txt"]


@pytest.fixture
def small_web() -> Iterator[SmallWeb]:
    with SmallWeb(2) as web:
        yield web


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    fixed_clock = Clock()
    monkeypatch.setattr(connector, "present", fixed_clock)
    return fixed_clock


@pytest.fixture
def reader(small_web: SmallWeb, clock: Clock, tmp_path: Path) -> Reader:
    return Reader(small_web, clock, tmp_path / "kept")


def entry(number: object, link: str = "", *, full: str = "", summary: str = "", title: str = "") -> str:
    """Return an entry of an RSS feed."""
    text = f"<content:encoded><![CDATA[{full}]]></content:encoded>" if full else f"<description>{summary}</description>"
    link_element = f"<link>{link}</link>" if link else ""
    return ENTRY.format(id=number, link=link_element, title=title or f"Entry {number}", text=text)


def rss(*entries: str, title: str = "Blog") -> str:
    """Return an RSS feed."""
    head = '<rss version="2.0" xmlns:content="http://purl.org/rss/1.0/modules/content/">'
    return f"{head}<channel><title>{title}</title>{''.join(entries)}</channel></rss>"


def page(text: str, *links: str) -> str:
    """Return a page with links."""
    anchors = "".join(f'<a href="{link}">link</a>' for link in links)
    return f"<html><body><p>{text}</p>{anchors}</body></html>"


def put_list(host: Host, *addresses: str) -> str:
    """Set the list of addresses of a host, and return its address."""
    return host.put("/list.txt", "".join(f"{address}\n" for address in addresses), "text/plain")


def updated(report: MemoryReport) -> list[str]:
    """Return the locators that a listing reported as present."""
    return [change.item.locator for change in report.changes if isinstance(change, Upsert)]
