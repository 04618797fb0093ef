"""The pages over HTTP, from a real library: their content, their live parts, and texts that are never markup."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from catchment.ledger import Ledger
from catchment.runtime.home import Home
from catchment.runtime.process import alive, pid_of
from catchment.runtime.web_process import WebAddress
from tests.ledger.world import Clock, World, delivered, note
from tests.waiting import until
from tests.web.conftest import served, signed_in

HOSTILE = '<script>alert(1)</script> "quoted" [[link]] <img src=x onerror=alert(1)> girder'


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    home = Home(tmp_path_factory.mktemp("pages") / "home").make()
    clock = Clock()
    world = World(home.database_url, clock, Ledger.open(home.database_url, clock=clock, monotonic=clock.steady))
    world.ingest(note("Bridge/Girder.md"), text="The main girder of the bridge is corroded.")
    texts = [HOSTILE, *(f"Orchard number {number} has pears." for number in range(25))]
    world.see(note("<b>bold/<i>Hostile girder.md"), *(note(f"many/{number}.md") for number in range(25)))
    batch = world.claim(len(texts))
    outcomes = [
        replace(delivered(job.id, text, title=job.item.locator), modified=datetime(2026, 1, 26 - number, tzinfo=UTC))
        for number, (job, text) in enumerate(zip(batch.jobs, texts, strict=True))
    ]
    world.ledger.queue.deliver(batch.token, outcomes)
    world.ledger.close()
    return home


@pytest.fixture(scope="module")
def client(home: Home) -> Iterator[httpx.Client]:
    with served(home) as port, signed_in(home, port) as client:
        yield client


def shown(client: httpx.Client, path: str) -> str:
    response = client.get(path)
    assert response.status_code == 200, response.text
    return response.text


def test_first_page_has_the_latest_documents_and_the_sources(client: httpx.Client) -> None:
    page = shown(client, "/")
    assert "Search 27 documents" in page
    assert page.count('class="hit"') == 20
    assert '/search?q=source%3Anotes"' in page
    assert '/search?q=type%3Anote"' in page


def test_earlier_documents_follow_the_latest(client: httpx.Client) -> None:
    link = re.search(r'href="(/\?after=[^"]+)" rel="next">Earlier documents', shown(client, "/"))
    assert link is not None
    page = shown(client, link[1])
    assert page.count('class="hit"') == 6
    assert 'rel="next"' not in page
    assert client.get("/?after=x").status_code == 400


def test_search_says_how_the_query_was_read(client: httpx.Client) -> None:
    page = shown(client, "/search?q=girdr")
    assert "<q>girdr</q> does not occur" in page
    assert "<mark>girder</mark>" in page
    assert "anyway</a>" in page


def test_page_has_one_notice_and_no_total_of_a_sentence(client: httpx.Client) -> None:
    page = shown(client, "/search?q=where are the pears")
    assert "The best 20 results" in page
    assert "no document has all the words" not in page and "1–20</span>" in page
    assert "Nothing to search for: the query has no words" in shown(client, "/search?q=%3F%3F%3F source:notes")


def test_filter_is_offered_and_can_be_removed(client: httpx.Client) -> None:
    assert "/search?q=pears%20source%3Anotes" in shown(client, "/search?q=pears")
    page = shown(client, "/search?q=pears source:notes")
    assert '<a href="/search?q=pears" aria-current="true">' in page
    assert '<a class="tag" href="/search?q=pears">source:notes' in page


def test_filters_of_one_kind_add_up(client: httpx.Client) -> None:
    page = shown(client, "/search?q=girder source:notes type:note")
    assert page.count('aria-current="true"') == 2
    assert "1 result" in shown(client, "/search?q=corroded type:code type:note")
    assert "Nothing found" in shown(client, "/search?q=corroded type:code type:pdf")


def test_line_above_results_explains_only_on_request(client: httpx.Client) -> None:
    line = re.compile(r'<p class="read-as">(.*?)</p>', re.DOTALL)
    assert re.sub(r"\s+", " ", line.findall(shown(client, "/search?q=corroded"))[0]).startswith(
        "1 result · by words only ("
    )
    assert "by words" in line.findall(shown(client, "/search?q=corroded&explain=1"))[0]


def test_results_are_paged(client: httpx.Client) -> None:
    first, second = shown(client, "/search?q=pears"), shown(client, "/search?q=pears&page=2")
    assert (first.count('class="hit"'), second.count('class="hit"')) == (20, 5)
    assert 'page=2" rel="next"' in first
    assert "21–25 of 25" in second
    assert 'rel="next"' not in second


@pytest.mark.parametrize("page", [3, 99])
def test_page_beyond_the_last_links_to_the_last(client: httpx.Client, page: int) -> None:
    beyond = shown(client, f"/search?q=pears&page={page}")
    assert f"There is no page {page}" in beyond and "has 25 results" in beyond
    assert 'href="/search?q=pears&page=2"' in beyond
    assert "Nothing found" not in beyond
    assert "Nothing found" in shown(client, f"/search?q=zxqv&page={page}")


def test_part_of_a_page_is_the_same_as_in_the_page(client: httpx.Client) -> None:
    page = shown(client, "/search?q=girder")
    for name, start in (("found", '<div class="hits" id="found">'), ("facets", '<aside class="facets" id="facets"')):
        part = shown(client, f"/search?q=girder&part={name}")
        assert part.startswith(start) and part in page


@pytest.mark.parametrize("query", ["sorce:notes", "source:nope", "date:never"])
def test_query_with_an_error_is_explained(client: httpx.Client, query: str) -> None:
    assert "This query cannot be read" in shown(client, f"/search?q={query}")


def test_search_without_a_result_says_so(client: httpx.Client) -> None:
    assert "Nothing found for <q>zxqv</q>" in shown(client, "/search?q=zxqv")


@pytest.mark.parametrize("path", ["/", "/search?q=girder", "/search?q=<script>alert(1)</script>", "/documents/2"])
def test_texts_of_strangers_are_never_markup(client: httpx.Client, path: str) -> None:
    page = shown(client, path)
    for markup in ("<script>alert", "<img src=x", "<i>Hostile", "<b>bold"):
        assert markup not in page


def test_document_is_shown_with_its_origin_and_history(client: httpx.Client) -> None:
    page = shown(client, "/documents/1")
    assert "The main girder of the bridge is corroded." in page
    for text in ("Bridge/Girder.md", "in the library as document 1", "succeeded"):
        assert text in page


@pytest.mark.parametrize("path", ["/documents/999", "/conversations/1", "/conversations/999", "/nope", "/documents/x"])
def test_unknown_address_has_a_page(client: httpx.Client, path: str) -> None:
    response = client.get(path)
    assert response.status_code == 404
    assert "<h1>Not found</h1>" in response.text


@pytest.mark.parametrize("path", ["/", "/search?q=pears", "/documents/1", "/trouble", "/sources", "/syncs", "/health"])
def test_page_is_small(client: httpx.Client, path: str) -> None:
    assert len(client.get(path).content) < 60_000


def test_home_without_a_source_says_how_to_begin(tmp_path: Path) -> None:
    home = Home(tmp_path / "home").make()
    with served(home) as port, signed_in(home, port) as client:
        for path in ("/", "/search?q=x", "/trouble", "/sources", "/syncs"):
            assert "Start with a folder or a vault" in shown(client, path)
        assert "Not checked yet" in shown(client, "/health")


def events(client: httpx.Client, view: str, last: str = "") -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the ID and the parts of each event of a page."""
    headers = {"Last-Event-ID": last} if last else {}
    with client.stream("GET", "/events", params={"view": view}, headers=headers) as response:
        name = ""
        for line in response.iter_lines():
            if line.startswith("id: "):
                name = line[4:]
            if line.startswith("data: "):
                yield name, dict(json.loads(line[6:]))


def test_change_is_sent_to_an_open_page(home: Home, client: httpx.Client) -> None:
    stream = events(client, "/sources")
    _, parts = next(stream)
    assert set(parts) == {"tabs", "well", "strip", "sources"}
    assert parts["sources"] in shown(client, "/sources")
    ledger = Ledger.open(home)
    try:
        ledger.sources.hold("notes", "test", "login refused")
        # The frame is read before the page, so that a change between the two is sent in two events.
        while not ("login refused" in parts["sources"] and 'class="badge"' in parts["tabs"]):
            parts |= next(stream)[1]
        assert 'class="badge"' in shown(client, "/count?view=/sources")
    finally:
        ledger.sources.resume("notes", "test")
        ledger.close()


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/syncs?span=1h", {"timeline", "runs"}),
        ("/syncs/1", {"head", "stages", "changes"}),
        ("/health", {"checks", "hosts", "sinks", "backups"}),
        ("/trouble", {"queue"}),
        ("/jobs/1", {"head", "job"}),
    ],
)
def test_live_part_contains_the_element_of_its_name(client: httpx.Client, path: str, names: set[str]) -> None:
    _, parts = next(events(client, path))
    assert set(parts) == {"tabs", "well", "strip", *names}
    page = shown(client, path)
    for name, html in parts.items():
        assert (html.count(f'id="{name}"'), page.count(f'id="{name}"')) == (1, 1)


def test_tab_that_reconnects_misses_nothing(home: Home, client: httpx.Client) -> None:
    known, before = next(events(client, "/sources"))
    ledger = Ledger.open(home)
    try:
        ledger.sources.pause("notes", "test", "for a while")
        _, after = next(events(client, "/sources", known))
        assert "for a while" in after["sources"]
        assert set(after) == set(before)
    finally:
        ledger.sources.resume("notes", "test")
        ledger.close()


def test_process_stops_at_once_with_an_open_stream(home: Home) -> None:
    with served(home) as port, signed_in(home, port) as client:
        stream = events(client, "/health")
        next(stream)
        address = WebAddress.read(home)
        assert address is not None
        os.kill(pid_of(address.process), signal.SIGTERM)
        for _ in stream:
            """Read to the end."""
        until(lambda: not alive(address.process))
    log = (home.logs / "web.log").read_text()
    assert "graceful" not in log
    assert "Traceback" not in log
