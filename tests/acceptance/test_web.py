"""Feeds and pages as a user reads them: the OPML of a reader, consent to hosts, and the commands of docs/web.md."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance import document
from tests.acceptance.person import PROJECT, Person, at_terminal
from tests.connectors.web.server import Host, SmallWeb
from tests.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.long]

FEEDS = 12
SUBJECTS = (
    ("The ferry", "The boat across the river stopped for a week, because its engine had to be repaired."),
    ("Sourdough", "Feed the starter twice a day, and bake the loaf in a closed iron pot."),
    ("Keeping bees", "The colony swarmed in May, because its box had become too small."),
    ("Night sky", "Through the small telescope the rings of Saturn were clearly visible."),
    ("Bicycle", "The chain slipped off the worn sprocket on every hill."),
    ("Old violin", "Its maker used spruce for the top and maple for the back."),
)


@pytest.fixture
def web() -> Iterator[SmallWeb]:
    with SmallWeb(FEEDS + 1) as web:
        for number, host in enumerate(web.hosts[:FEEDS]):
            _publish(host, number)
        yield web


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Person]:
    """A user of a feed reader with a running Catchment and the command on the path."""
    with at_terminal(tmp_path) as person:
        yield person


def _publish(host: Host, number: int) -> None:
    """Publish a feed of entries that have only a summary, and their pages."""
    entries = []
    for part in range(2):
        title, text = SUBJECTS[(2 * number + part) % len(SUBJECTS)]
        if number >= len(SUBJECTS) // 2:
            title, text = (
                f"Notes {number}.{part}",
                f"Minutes of meeting {number}.{part} about the roof of the parish hall.",
            )
        page = f"<html><head><title>{title}</title></head><body><article><h1>{title}</h1><p>{text}</p></article></body></html>"
        address = host.put(f"/{part}.html", page)
        entries.append(f"<item><title>{title}</title><link>{address}</link><guid>{address}</guid></item>")
    feed = f"<rss version='2.0'><channel><title>Feed {number}</title>{''.join(entries)}</channel></rss>"
    host.put("/feed.xml", feed, "application/rss+xml")


def _opml(file: Path, hosts: list[Host]) -> Path:
    feeds = "".join(f'<outline type="rss" text="{host.name}" xmlUrl="{host.address("/feed.xml")}"/>' for host in hosts)
    file.write_text(f'<opml version="2.0"><body><outline text="All">{feeds}</outline></body></opml>')
    return file


def test_article_of_a_feed_is_found_by_meaning(reader: Person, web: SmallWeb, tmp_path: Path) -> None:
    opml = _opml(tmp_path / "feeds.opml", web.hosts[:FEEDS])
    refused = reader("add", "web", opml, "--name", "feeds", "--every", "1h")
    refused.refused(5, "no consent to read", web.hosts[0].name, "2 more")
    assert not web.requests
    reader("add", "web", opml, "--name", "feeds", "--every", "1h", "--consent", "--set", "every_seconds=0.05").ok()
    assert reader.sync("feeds")["succeeded"] == 2 * FEEDS
    until(lambda: reader("status", "--json").ok().json["meaning"], lambda found: found["done"] == found["total"] > 0)
    hits = reader("search", "--meaning", "insects need more room", "--json").ok().json
    assert hits[0]["title"] == "Keeping bees"
    assert reader("open", str(hits[0]["document"]), "--print").ok().out.strip() == web.hosts[1].address("/0.html")


def test_new_hosts_in_a_list_ask_for_consent_once(reader: Person, web: SmallWeb, tmp_path: Path) -> None:
    allowed, *others = web.hosts[:FEEDS]
    opml = _opml(tmp_path / "feeds.opml", [allowed])
    reader("add", "web", opml, "--name", "feeds", "--consent", "--set", "every_seconds=0.05").ok()
    _opml(opml, [allowed, *others])
    assert {"succeeded": 2, "skipped": len(others)}.items() <= reader.sync("feeds").items()
    assert not any(host.requests for host in others)
    assert "catchment consent give feeds --allow-host 127.0." in reader("consent", "show", "feeds").ok().out
    reader("consent", "give", "feeds", *(word for host in others for word in ("--allow-host", host.name))).ok()
    # The skipped feeds give way to their entries, and no deletion waits for a decision.
    summary = reader.sync("feeds")
    assert (summary["succeeded"], summary.get("held", 0)) == (2 * len(others), 0)
    assert "Not read without consent" not in reader("sources", "show", "feeds").ok().out
    assert reader.hits("Bicycle", "feeds")[0]["item"] == others[1].address("/0.html")


def test_every_command_of_the_page_about_the_web_works_as_documented(
    reader: Person, web: SmallWeb, tmp_path: Path
) -> None:
    blog, pages = web.hosts[0], web.hosts[1]
    pages.put(
        "/ferry.html", "<html><title>The ferry</title><body><h1>The ferry</h1><p>It runs at noon.</p></body></html>"
    )
    pages.put("/weir.html", "<html><title>Ice</title><body><p>The weir froze in January.</p></body></html>")
    _opml(tmp_path / "feeds.opml", web.hosts[:FEEDS])
    text = (PROJECT / "docs" / "web.md").read_text(encoding="utf-8")
    for name, host in (("https://blog.example.org", blog), ("https://pages.example.org", pages)):
        text = text.replace(name, host.address(""))
    (tmp_path / "web.md").write_text(text, encoding="utf-8")
    assert document.carry_out(tmp_path / "web.md", reader.environment, tmp_path) > 7
