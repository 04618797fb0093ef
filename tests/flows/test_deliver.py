"""The flow `deliver` on a real server: a sync lets the sinks be supplied, and a sink that is away delays only itself."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from prefect.client.schemas.objects import State

from catchment.ledger import Ledger
from catchment.settings import Home
from deployments.actions import sinks
from flows.deliver import deliver
from tests.flows.conftest import Window, sync
from web.__main__ import desk_of

pytestmark = pytest.mark.server


def _add(home: Home, name: str, place: Path) -> None:
    sinks.add(desk_of(home), "folder", str(place), name, "operator:anna")


def _deliver(name: str) -> State[Any]:
    state: State[Any] = asyncio.run(deliver(name, return_state=True))  # type: ignore[arg-type]  # typed as not awaitable
    return state


def test_sink_receives_what_a_sync_stored(window: Window, home: Home, folder: Path, tmp_path: Path) -> None:
    (folder / "a.md").write_text("# A")
    assert sync("delivered", folder).name == "Completed"
    _add(home, "books", tmp_path / "out")
    state = _deliver("books")
    assert (state.name, state.message) == ("Completed", "1 sent")
    assert window.run_of("books")["name"] == "books: 1 sent"
    assert (tmp_path / "out" / "delivered" / "a.md").exists()
    assert _deliver("books").name == "Skipped"
    assert _deliver("unknown").name == "Skipped"


def test_sink_that_is_away_fails_alone_and_without_its_path(
    window: Window, home: Home, folder: Path, tmp_path: Path
) -> None:
    (folder / "b.md").write_text("# B")
    _add(home, "away", tmp_path / "away")
    _add(home, "near", tmp_path / "near")
    assert sync("delivered-too", folder).name == "Completed"
    (tmp_path / "away").rename(tmp_path / "unplugged")
    state = _deliver("away")
    assert state.name == "Failed"
    assert str(state.message).startswith("away: the folder or its disk is missing")
    assert _deliver("near").name == "Completed"
    run = window.run_of("away")
    assert run["name"] == "away: failed"
    assert str(tmp_path) not in str(run["state"])
    with closing(Ledger.inspect(home)) as ledger:
        assert ledger.outbox.get("away").failures == 1
