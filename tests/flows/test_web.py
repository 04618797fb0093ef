"""A web source as a flow: metered hosts, a dead one among them, responses on disk, and the next run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing

import pytest
from prefect.client.schemas.objects import State

from catchment.ledger import Ledger
from catchment.settings import Home
from connectors.web.settings import WebSettings
from flows.web import sync_web
from tests.connectors.web.conftest import entry, page, put_list, rss
from tests.connectors.web.server import Page, SmallWeb
from tests.flows.conftest import Window

pytestmark = pytest.mark.server


@pytest.fixture
def ledger(home: Home) -> Iterator[Ledger]:
    with closing(Ledger.open(home.database_url)) as ledger:
        yield ledger


def _sync(name: str, settings: WebSettings, *, deep: bool = False) -> State:
    state: State = asyncio.run(sync_web(name=name, settings=settings, deep=deep, return_state=True))  # type: ignore[call-overload]
    return state


def test_dead_host_leaves_a_sync_completed_and_unchanged_pages_cost_no_job(window: Window, ledger: Ledger) -> None:
    with SmallWeb(2) as web:
        host, feeds, dead = *web.hosts, web.dead()
        pages = [host.put(f"/{number}", page(f"the heron and text {number}")) for number in range(6)]
        lists = put_list(host, *pages, *(dead.address(f"/{number}") for number in range(9)))
        feed = feeds.put("/feed", rss(entry(1, full="<p>the kingfisher</p>", title="A bird")))
        settings = WebSettings(addresses=(lists, feed), hosts=(dead.name,), every_seconds=0.05)
        assert _sync("birds", settings).name == "Skipped"
        assert web.requests == []
        source = ledger.sources.get("birds")
        ledger.consents.give(source.id, settings.allowed.names, "ada", None)
        assert _sync("birds", settings).name == "Completed"
        assert len(ledger.library.names(source.id)) == 7
        asked = len(web.requests)
        assert _sync("birds", settings).name == "Completed"
        assert sorted((request.path, request.status) for request in web.requests[asked:]) == [
            ("/feed", 304),
            ("/list.txt", 304),
        ]
        assert _sync("birds", settings, deep=True).name == "Completed"
        assert [row.key for row in ledger.pacing.breakers()] == [f"host:{dead.name}"]
        assert ledger.syncs.recent()[0].summary["away"] == 1
        host.always = feeds.always = Page(status=503)
        state = _sync("birds", settings)
        assert (state.name, ledger.syncs.recent()[0].cause) == ("Failed", "source.unreachable")
