"""`/metrics`: access to it, its content, and the figures that the web process stores each minute."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from functools import cache, partial
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from catchment.ledger import Ledger
from catchment.runtime.home import Home
from catchment.telemetry import catalogue
from tests.waiting import until
from tests.web.conftest import fill
from web.__main__ import desk_of
from web.app import application
from web.guard import Guard
from web.observer import Metrics
from web.readiness import Readiness
from web.warm_library import SearchRequest, WarmLibrary


@pytest.fixture
def library(tmp_path: Path) -> WarmLibrary:
    """The library of a home with three notes."""
    home = Home(tmp_path / "home").make()
    fill(home)
    return WarmLibrary(home, lambda _reason: None)


@pytest.fixture
def metrics(library: WarmLibrary) -> Iterator[Metrics]:
    opened = cache(partial(Ledger.inspect, library.home))
    yield Metrics(library, opened)
    opened().close()


def client_of(library: WarmLibrary, metrics: Metrics) -> TestClient:
    web = application(library, Readiness(library, None), desk_of(library.home), "the token", metrics=metrics)
    return TestClient(Guard(web.app, web.check, 8000), base_url="http://127.0.0.1:8000")


def scraped(library: WarmLibrary, client: TestClient) -> list[str]:
    token = (library.home.path / "metrics-token").read_text().strip()
    response = client.get("/metrics", headers={"Authorization": f"Bearer {token}"})
    assert (response.status_code, response.headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    return response.text.splitlines()


def test_metrics_need_their_own_token(library: WarmLibrary, metrics: Metrics) -> None:
    client = client_of(library, metrics)
    assert client.get("/metrics").status_code == 401
    assert client.get("/metrics", headers={"Authorization": "Bearer the token"}).status_code == 401
    lines = scraped(library, client)
    assert 'catchment_jobs_total{connector="obsidian",outcome="succeeded"} 3.0' in lines
    token = (library.home.path / "metrics-token").read_text().strip()
    assert client.get("/api/v1/health", headers={"Authorization": f"Bearer {token}"}).status_code == 401
    assert (library.home.path / "metrics-token").stat().st_mode & 0o777 == 0o600


def test_metrics_are_open_to_this_machine_on_request(
    library: WarmLibrary, metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CATCHMENT_METRICS", "open")
    client = client_of(library, metrics)
    assert client.get("/metrics").status_code == 200
    assert client.get("/metrics", headers={"Host": "evil.example"}).status_code == 421


def test_metrics_are_read_at_most_every_five_seconds(
    library: WarmLibrary, metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_000.0]
    monkeypatch.setattr("web.observer.time.monotonic", lambda: now[0])
    client = client_of(library, metrics)
    before = scraped(library, client)
    with closing(Ledger.inspect(library.home)) as ledger:
        ledger.sources.pause("notes", "ada", "")
    paused = 'catchment_sources{connector="obsidian",state="paused"} 1.0'
    now[0] += 4
    assert scraped(library, client) == before
    now[0] += 2
    assert paused in set(scraped(library, client)) - set(before)


def test_no_source_or_item_is_named(library: WarmLibrary, metrics: Metrics) -> None:
    text = "\n".join(scraped(library, client_of(library, metrics)))
    assert not [word for word in ("notes", "Girder", str(library.home.path)) if word in text]


def test_process_stores_its_searches_and_the_gauges_each_minute(library: WarmLibrary, metrics: Metrics) -> None:
    library.search(SearchRequest("girder"))
    metrics.sample()
    metrics.sample()
    metrics.roll()
    with closing(Ledger.inspect(library.home)) as ledger:
        totals = {key[0]: figure for key, figure in ledger.measures.totals().items()}
        since = ledger.now() - timedelta(hours=1)
        queue = ledger.measures.points(catalogue.QUEUE, since, timedelta(hours=2), apart=True)
    assert totals[catalogue.SEARCH.name].n == 1
    assert {point.labels: (point.figure.n, point.figure.total) for point in queue} == {
        ("pending",): (2, 0),
        ("running",): (2, 0),
        ("retrying",): (2, 0),
    }


def test_running_process_samples_by_itself(library: WarmLibrary, metrics: Metrics) -> None:
    with client_of(library, metrics), closing(Ledger.inspect(library.home)) as ledger:
        since = ledger.now() - timedelta(hours=1)
        assert until(lambda: ledger.measures.points(catalogue.QUEUE, since, timedelta(hours=2)))


def test_home_without_a_library_has_no_metrics_yet(tmp_path: Path) -> None:
    library = WarmLibrary(Home(tmp_path / "home").make(), lambda _reason: None)
    client = client_of(library, Metrics(library, partial(Ledger.inspect, library.home)))
    token = (library.home.path / "metrics-token").read_text().strip()
    assert client.get("/metrics", headers={"Authorization": f"Bearer {token}"}).status_code == 404
