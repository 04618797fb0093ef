"""The timeline of the syncs: its bars from a real ledger, and the SVG that the server makes of them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from catchment.ledger import Ledger, Outcome
from catchment.model import Priority
from catchment.runtime import own_secrets
from catchment.runtime.home import Home
from catchment.runtime.server_report import PlannedRun, ServerReport
from catchment.views.telemetry.timeline import BarKind, timeline
from tests.ledger.world import Clock
from web.__main__ import desk_of
from web.app import application
from web.guard import Guard
from web.readiness import Readiness
from web.warm_library import WarmLibrary

DAY = timedelta(days=1)


class Past:
    """A home with syncs made by the test, from a day ago to now."""

    def __init__(self, home: Home) -> None:
        self.home, self.clock = home, Clock()
        self.clock.now = int(time.time()) - DAY.total_seconds() + 60
        self.ledger = Ledger.open(home, clock=self.clock, monotonic=self.clock.steady)

    def sync(self, source: str, outcome: Outcome | None, pause: float = 60, length: float = 5, **summary: int) -> int:
        """Run a sync of some seconds after a pause. Return its number. Without an outcome, it is still running."""
        self.clock.forward(seconds=pause)
        source_row = self.ledger.sources.put(source, "local_files", Priority.NORMAL)
        sync = self.ledger.syncs.begin(source_row.id, run="r", owner="w", code_version="1", alive=lambda _: False)
        self.clock.forward(seconds=length)
        if outcome:
            self.ledger.syncs.end(sync.id, outcome, summary, "login refused" if outcome == "failed" else None)
        return sync.id

    def bars(self, source: str, span: timedelta = DAY) -> list[tuple[BarKind, int | None, int]]:
        [lane] = timeline(self.ledger, self.home, span, source).lanes
        return [(bar.kind, bar.sync.id if bar.sync else None, bar.count) for bar in lane.bars]


@pytest.fixture
def past(tmp_path: Path) -> Iterator[Past]:
    past = Past(Home(tmp_path / "home").make())
    with closing(past.ledger):
        yield past


@pytest.fixture
def client(past: Past) -> TestClient:
    """A browser that is signed in to the page of the home."""
    library = WarmLibrary(past.home, lambda _reason: None)
    web = application(library, Readiness(library, None), desk_of(past.home), "the token")
    client = TestClient(Guard(web.app, web.check, 8000), base_url="http://127.0.0.1:8000")
    client.get("/signin", params={"key": own_secrets.one_time_key(past.home.signin_keys)})
    return client


def test_sync_is_a_bar_of_what_it_did(past: Past) -> None:
    changed = past.sync("notes", "completed", 600, succeeded=3)
    nothing = past.sync("notes", "completed", 600, unchanged=3)
    failed = past.sync("notes", "failed", 600)
    running = past.sync("notes", None, 600)
    kinds = [BarKind.CHANGED, BarKind.NOTHING, BarKind.FAILED, BarKind.RUNNING]
    numbers = [changed, nothing, failed, running]
    assert sorted(past.bars("notes")) == sorted(zip(kinds, numbers, [1] * 4, strict=True))
    [lane] = timeline(past.ledger, past.home, DAY).lanes
    assert (lane.syncs, lane.failed) == (4, 1)


def test_syncs_before_the_span_are_left_out(past: Past) -> None:
    past.sync("notes", "completed")
    last = past.sync("notes", "completed", 7200)
    assert past.bars("notes", timedelta(hours=1)) == [(BarKind.NOTHING, last, 1)]


def test_syncs_closer_than_a_pixel_are_one_bar(past: Past) -> None:
    past.sync("notes", "completed", pause=0, length=1)
    second = past.sync("notes", "completed", pause=1, length=1)
    assert past.bars("notes", 7 * DAY) == [(BarKind.NOTHING, second, 2)]
    assert len(past.bars("notes", timedelta(minutes=1))) == 2


def test_many_syncs_are_merged_and_none_is_lost(past: Past) -> None:
    for _ in range(250):
        past.sync("notes", "completed", pause=120)
    bars = past.bars("notes")
    assert 50 < len(bars) <= 200
    assert sum(count for *_, count in bars) == 250


def test_limit_is_a_wait_until_the_next_sync(past: Past) -> None:
    past.sync("repo", "yielded")
    end = past.clock.moment
    past.sync("repo", "completed", pause=900, length=0)
    [wait] = [bar for bar in timeline(past.ledger, past.home, DAY).lanes[0].bars if bar.kind is BarKind.WAITING]
    assert (wait.began, wait.ended) == (end, past.clock.moment)


def test_held_source_waits_since_its_decision(past: Past) -> None:
    past.sync("notes", "completed")
    past.ledger.sources.hold("notes", "test", "login refused")
    decision_time = past.clock.moment
    past.clock.forward(hours=2)
    [wait] = [bar for bar in timeline(past.ledger, past.home, DAY).lanes[0].bars if bar.kind is BarKind.WAITING]
    assert (wait.began, wait.ended, wait.why) == (decision_time, None, "held (login refused)")


def test_planned_runs_are_marks_of_an_active_source(past: Past) -> None:
    past.sync("notes", "completed")
    moment = past.clock.moment
    runs = tuple(PlannedRun(moment + timedelta(hours=hours), "schedule") for hours in (1, 2, 9))
    ServerReport(moment, (), {"notes": runs}).write(past.home)
    assert [kind for kind, *_ in past.bars("notes")] == [BarKind.NOTHING, BarKind.PLANNED, BarKind.PLANNED]
    past.ledger.sources.pause("notes", "test", "")
    assert BarKind.PLANNED not in [kind for kind, *_ in past.bars("notes")]


def test_each_bar_links_to_its_sync_with_a_title(past: Past, client: TestClient) -> None:
    failed = past.sync("notes", "failed", 3600)
    bar = re.search(
        rf"<a tabindex=-1 href=/syncs/{failed}><rect x=([\d.]+)% /><title>([^<]+)</title></a>", _svg(client)
    )
    assert bar is not None
    assert 0 < float(bar[1]) < 10
    assert re.fullmatch(r"\d\d:\d\d, 5.0 s: login refused", bar[2])


def test_timeline_of_200_syncs_is_small_and_has_no_style(past: Past, client: TestClient) -> None:
    for number in range(200):
        outcome: Outcome = "failed" if number % 9 == 0 else "completed"
        past.sync(f"source-{number % 5}", outcome, pause=420, length=9, **({"succeeded": 8} if number % 3 else {}))
    svg = _svg(client)
    assert svg.count("<a tabindex") == 200
    assert len(svg) < 20_000
    assert " style=" not in svg


def test_names_and_errors_of_strangers_are_never_markup(past: Past, client: TestClient) -> None:
    past.sync("<b>bold", "completed")
    past.ledger.sources.hold("<b>bold", "test", "</title><script>alert(1)</script>")
    assert "<script>alert" not in _svg(client)
    assert "<b>" not in _svg(client)


@pytest.mark.parametrize(("span", "word"), [("1h", r"\d\d:\d\d"), ("24h", r"\d\d:\d\d"), ("7d", r"[A-Z][a-z]{2} \d\d")])
def test_axis_has_times_of_the_span(past: Past, client: TestClient, span: str, word: str) -> None:
    past.sync("notes", "completed")
    words = re.findall(r'text-anchor="middle">([^<]+)</text>', _svg(client, f"?span={span}"))
    assert 4 <= len(words) <= 10
    assert [label for label in words if not re.fullmatch(word, label)] == ["now"]


def test_unknown_span_is_refused(past: Past, client: TestClient) -> None:
    past.sync("notes", "completed")
    assert client.get("/syncs?span=9y").status_code == 400


def _svg(client: TestClient, query: str = "") -> str:
    response = client.get(f"/syncs{query}")
    assert response.status_code == 200, response.text
    return response.text.partition('id="timeline"')[2].partition("</section>")[0]
