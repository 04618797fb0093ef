"""Hazards of the web: hosts that vanish, move, lie about missing pages or never end; feeds and rules that change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.acceptance.person import Person, upright
from tests.connectors.web.conftest import entry, page, put_list, rss
from tests.connectors.web.server import Host, Page, SmallWeb
from tests.hazards.catchment import Watched, held
from tests.hazards.model import Area, Hazard, Truth, Verdict, judge

_PAGES = 12


@dataclass(frozen=True)
class Internet:
    """A user with a running system, and a web of hosts."""

    person: Person
    web: SmallWeb

    def source(self, name: str, host: Host, address: str, *settings: str) -> Pages:
        """Add and sync a source of an address of this host."""
        options = [option for setting in ("every_seconds=0.05", *settings) for option in ("--set", setting)]
        self.person("add", "web", address, "--name", name, "--consent", *options).ok()
        self.person.sync(name)
        return Pages(name, self.person, host)

    def pages(self, name: str) -> Pages:
        """Add a source of twelve pages on a new host."""
        host = self.web.add()
        addresses = [host.put(f"/{number}", page(f"{name}, text {number}")) for number in range(_PAGES)]
        return self.source(name, host, put_list(host, *addresses))


@dataclass(frozen=True)
class Pages(Watched):
    """A source of one host. Pages are known by their path."""

    host: Host

    def look(self) -> int:
        """Sync, and look at all pages, also those that are not due."""
        return self.person("sync", self.name, "--deep", "--wait").code

    def truth(self) -> dict[str, str | None]:
        return {f"/{number}": f"{self.name}, text {number}" for number in range(_PAGES)}

    def seen(self, noted: Verdict, truth: Truth | None = None) -> Verdict:
        """Compare the library with the pages; return the problems, including those noted before."""
        has = held(self.person, self.name, lambda locator, _title: locator.removeprefix(f"http://{self.host.name}"))
        return judge(self.truth() if truth is None else truth, has, noted)


@contextmanager
def internet(folder: Path) -> Iterator[Internet]:
    """Yield a web and a user with a running system."""
    folder.mkdir(parents=True, exist_ok=True)
    with SmallWeb(1) as web, upright(Person(folder / "home")) as person:
        yield Internet(person, web)


def robots_forbids_everything(internet: Internet) -> Verdict:
    pages = internet.pages("robots")
    # The rules that were read count for a day.
    pages.host.put("/robots.txt", "User-agent: *\nDisallow: /\n", "text/plain")
    verdict = Verdict()
    verdict.expect(pages.look() == 0, "the sync failed")
    return pages.seen(verdict)


def a_host_goes_away(internet: Internet) -> Verdict:
    pages = internet.pages("away")
    pages.host.always = Page(status=503)
    verdict = Verdict()
    verdict.expect(pages.look() == 0, "the sync failed")
    before = len(pages.host.requests)
    pages.look()
    verdict.expect(len(pages.host.requests) == before, "the host was asked again at once")
    return pages.seen(verdict)


def missing_pages_answer_with_200(internet: Internet) -> Verdict:
    pages = internet.pages("soft")
    text = page("Sorry, this page does not exist any more")
    for number in range(_PAGES):
        pages.host.change(f"/{number}", text)
    verdict = Verdict()
    verdict.expect(pages.look() == 0, "the sync failed")
    has = held(pages.person, pages.name, lambda locator, _title: locator)
    lost = sum("does not exist" in found for texts in has.texts.values() for found in texts)
    verdict.expect(lost <= 2, f"{lost} pages were replaced by the error page")
    verdict.expect(len(has.texts) == _PAGES, "pages were deleted")
    return verdict


def a_portal_stands_between(internet: Internet) -> Verdict:
    pages = internet.pages("portal")
    pages.host.always = Page.moved("http://portal.example/login", 302)
    verdict = Verdict()
    verdict.expect(pages.look() == 0, "the sync failed")
    return pages.seen(verdict)


def a_calendar_never_ends(internet: Internet) -> Verdict:
    host = internet.web.add()
    host.make = lambda path: None if path == "/robots.txt" else Page.of(page(f"month {path}", f"{path}a", f"{path}b"))
    calendar = internet.source("calendar", host, host.address("/m"), "depth=5", "most_pages=20")
    verdict = Verdict()
    verdict.expect(
        len(held(calendar.person, calendar.name, lambda locator, _title: locator).texts) == 20, "not 20 pages"
    )
    verdict.expect(len(host.requests) <= 23, "pages were requested in vain")
    return verdict


def a_site_moves(internet: Internet) -> Verdict:
    pages = internet.pages("moved")
    host, new = pages.host, internet.web.add()
    for number in range(_PAGES):
        new.pages[f"/{number}"] = host.pages[f"/{number}"]
        host.pages[f"/{number}"] = Page.moved(new.address(f"/{number}"))
    verdict = Verdict()
    verdict.expect(pages.look() == 0, "the sync failed")
    verdict.expect(not new.requests, "a host without consent was asked")
    return pages.seen(verdict)


def a_feed_renumbers_its_entries(internet: Internet) -> Verdict:
    host = internet.web.add()

    def feed(first: int) -> str:
        entries = (entry(n + first, host.address(f"/{n}"), full=f"feed, text {n}", title="x") for n in range(_PAGES))
        return rss(*entries)

    source = internet.source("feed", host, host.put("/feed.xml", feed(0)))
    host.change("/feed.xml", feed(7))
    verdict = Verdict()
    verdict.expect(source.sync() == 0, "the sync failed")
    return source.seen(verdict)


AREA = Area(
    "web",
    internet,
    (
        Hazard("robots.txt forbids everything", "no loss", robots_forbids_everything),
        Hazard("a host goes away", "no loss; left alone", a_host_goes_away),
        Hazard("missing pages answer with 200", "no loss but two pages", missing_pages_answer_with_200),
        Hazard("a login page of the network", "no loss", a_portal_stands_between),
        Hazard("an endless calendar", "ends at most_pages", a_calendar_never_ends),
        Hazard("a site moves to another host", "no loss; not asked without consent", a_site_moves),
        Hazard("a feed renumbers its entries", "the same documents", a_feed_renumbers_its_entries),
    ),
)
