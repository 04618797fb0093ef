"""Syncs, plans and proofs of a web source with hosts that do not answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

import pytest

from catchment.errors import SourceUnavailable
from catchment.ledger import Ledger
from catchment.model import Priority
from catchment.settings import Home
from catchment.sync.plan import make_plan
from catchment.sync.prove import prove
from catchment.sync.source_sync import open_sync
from catchment.telemetry.incidents import ReasonCode
from catchment.views import sources
from catchment.views.telemetry import conditions
from connectors.web import connector as web_connector
from connectors.web.connector import WebConnector, present
from connectors.web.settings import WebSettings
from tests.connectors.web.conftest import entry, page, put_list, rss
from tests.connectors.web.server import Page, SmallWeb


@pytest.fixture
def ledger(home: Home) -> Iterator[Ledger]:
    with closing(Ledger.open(home.database_url)) as ledger:
        yield ledger


@pytest.fixture
def small_web() -> Iterator[SmallWeb]:
    with SmallWeb(1) as web:
        yield web


def source_of(ledger: Ledger, *addresses: str, **settings: object) -> WebConnector:
    connector = WebConnector(WebSettings.model_validate({"addresses": addresses, "every_seconds": 0.01, **settings}))
    ledger.consents.give(ledger.sources.put("news", "web", Priority.NORMAL).id, connector.scopes(), "ada", None)
    return connector


def sync(home: Home, ledger: Ledger, connector: WebConnector) -> str | None:
    """Sync and return the outcome."""
    with open_sync(home, connector, "news", connector.policy, Priority.NORMAL, ledger=ledger) as opened:
        try:
            opened.discover()
            while (token := opened.claim(100)) is not None:
                opened.normalize(token)
                opened.process(token)
            opened.finish("completed")
        except SourceUnavailable as error:
            opened.finish("failed", error)
            assert opened.discovery.again is not None, "a source without a schedule is synced again"
        return opened.outcome


def problems(home: Home, ledger: Ledger) -> dict[ReasonCode | None, str]:
    return {condition.reason: condition.message for condition in conditions.present(ledger, home)}


def test_dead_feed_is_a_problem_after_three_syncs_and_never_held(
    home: Home, ledger: Ledger, small_web: SmallWeb
) -> None:
    host = small_web.hosts[0]
    connector = source_of(ledger, host.put("/feed", rss(entry(1, full="<p>the heron</p>"))))
    assert sync(home, ledger, connector) == "completed"
    host.always = Page(status=503)
    for number in range(7):
        assert sync(home, ledger, connector) == "failed"
        assert problems(home, ledger) == (
            {ReasonCode.SOURCE_UNREACHABLE: f"{host.name}: HTTP status 503"} if number >= 2 else {}
        )
    assert ledger.sources.get("news").state == "active"
    [away] = sources.standings(ledger, home)[0].away
    assert (away.host, away.problem) == (host.name, "HTTP status 503")
    assert away.until is not None, "its circuit breaker is open"


def test_host_away_for_days_is_a_problem_of_its_own(
    home: Home, ledger: Ledger, small_web: SmallWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, dead = small_web.hosts[0], small_web.dead()
    addresses = put_list(host, host.put("/a", page("a")), dead.address("/b"))
    connector = source_of(ledger, addresses, hosts=[dead.name])
    monkeypatch.setattr(web_connector, "present", lambda: present() - timedelta(days=3))
    assert sync(home, ledger, connector) == "completed"
    [row] = ledger.syncs.recent()
    assert row.summary["away"] == 1
    assert problems(home, ledger) == {
        ReasonCode.HOSTS_AWAY: f"no answer for days from 1 host, such as {dead.name} (cannot connect)"
    }
    monkeypatch.undo()
    put_list(host, host.address("/a"))
    assert sync(home, ledger, connector) == "completed"
    assert (problems(home, ledger), sources.standings(ledger, home)[0].away) == ({}, ())


def test_looks_at_unchanged_pages_are_no_difference(
    home: Home, ledger: Ledger, small_web: SmallWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = small_web.hosts[0]
    host.put("/a", page("a", "/"))
    connector = source_of(ledger, host.put("/", page("front", "/a")), depth=1)
    assert sync(home, ledger, connector) == "completed"
    source = ledger.sources.get("news")
    assert prove(home, ledger, source, connector, connector.policy).holds
    monkeypatch.setattr(web_connector, "present", lambda: present() + timedelta(days=3))
    assert make_plan(home, ledger, source, connector, connector.policy).steps == ()
    assert prove(home, ledger, source, connector, connector.policy).holds
