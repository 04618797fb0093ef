"""The page of trends and objectives: charts with their numbers, and the marks of unusual hours."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from starlette.testclient import TestClient

from catchment.ledger import Ledger
from catchment.model import Priority
from catchment.runtime import own_secrets
from catchment.runtime.home import Home
from catchment.telemetry.catalogue import JOBS, QUEUE, SYNC_DURATION
from tests.ledger.world import Clock
from web.__main__ import desk_of
from web.app import application
from web.guard import Guard
from web.readiness import Readiness
from web.warm_library import WarmLibrary

_HOURS = 150


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home with a source `notes` that stored 40 items an hour, and was slow in the last three whole hours."""
    home, clock = Home(tmp_path_factory.mktemp("trends") / "home").make(), Clock()
    clock.now = time.time() // 3_600 * 3_600 - _HOURS * 3_600
    with closing(Ledger.open(home, clock=clock, monotonic=clock.steady)) as ledger:
        source = ledger.sources.put("notes", "local_files", Priority.NORMAL).id
        for hour in range(_HOURS):
            ledger.measures.tally.add(QUEUE, 0, source, times=60, state="pending")
            ledger.measures.tally.add(JOBS, 40, source, outcome="succeeded")
            seconds = 30.0 if hour >= _HOURS - 3 else 2.5
            ledger.measures.tally.add(SYNC_DURATION, seconds, source, times=4, outcome="completed")
            ledger.measures.flush()
            clock.forward(hours=1)
    return home


@pytest.fixture(scope="module")
def client(home: Home) -> Iterator[TestClient]:
    """A browser that is signed in."""
    library = WarmLibrary(home, lambda _reason: None)
    web = application(library, Readiness(library, None), desk_of(home), "the token")
    client = TestClient(Guard(web.app, web.check, 8000), base_url="http://127.0.0.1:8000")
    client.get("/signin", params={"key": own_secrets.one_time_key(home.signin_keys)})
    yield client


def test_each_chart_has_a_name_and_a_table_with_its_numbers(client: TestClient) -> None:
    page = client.get("/health/trends").text
    names = re.findall(r'<svg role="img"><title>([^:<]+): ', page)
    assert names == ["Stored", "Time of a sync", "From save to found", "Backlog", "Failures", "Retries"]
    tables = re.findall(r"<caption class=\"sr\">(?:Stored|Time of a sync):.*?</table>", page, re.DOTALL)
    assert [table.count('<th scope="row">') for table in tables] == [24, 24]
    assert tables[0].count('<td class="n">40') == 23
    assert '<script src="/static/page.js"' in page and "<script>" not in page


def test_unusual_hours_are_marked_in_chart_and_table(client: TestClient) -> None:
    page = client.get("/health/trends").text
    assert re.findall(r'<rect class="off" x="(\d+)"', page) == ["20", "21", "22"]
    assert page.count(", unusual") == 3
    assert "The time of a sync is unusually high. Last hour: 30 s; usually 2.5 s." in page


@pytest.mark.parametrize("query", ["", "?range=30d", "?range=30d&source=notes"])
def test_page_is_small(client: TestClient, query: str) -> None:
    response = client.get(f"/health/trends{query}")
    assert response.status_code == 200
    assert len(response.content) < 30_000


def test_wrong_range_and_source_are_refused(client: TestClient) -> None:
    assert client.get("/health/trends?range=7d").status_code == 400
    assert client.get("/health/trends?source=nope").status_code == 404


def test_objectives_stand_below_in_sentences(client: TestClient) -> None:
    page = client.get("/health/trends").text
    rows = re.findall(r'<th scope="row">([^<]+)</th><td>.*?</svg>(\w[^<]+)</span>', page)
    assert rows == [
        ("99 % of syncs succeed.", "Kept"),
        ("95 % of syncs take at most 300 s.", "Kept"),
        ("Fewer than 1,000 jobs wait in 95 % of 5-minute windows.", "Kept"),
        ("95 % of changes in watched folders are found within 2 s.", "Too little data"),
    ]
    assert "missed it; " in page and "Burn" not in page


def test_health_page_links_to_the_trends(client: TestClient) -> None:
    assert 'href="/health/trends"' in client.get("/health").text
