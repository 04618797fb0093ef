"""Concurrent runs of one source: a run during another one, and many at once, through the real worker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from catchment.ledger import Ledger
from catchment.model import Priority
from catchment.settings import Home
from catchment.sync.source_sync import open_sync
from connectors.local_files import LocalFiles, LocalFilesSettings
from console import session
from deployments.actions import sources
from deployments.actions.sources import NewSource
from deployments.runs.runs import start_sync, view, wait
from deployments.server.client import api
from deployments.supervisor.supervisor import Running
from tasks import coalesce
from tasks.run_states import COALESCED
from tests.hits import find_hits
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.server


@pytest.fixture
def add(
    server: Running, server_home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], Path]]:
    """Add a source with one note. Returns its folder."""
    monkeypatch.setenv("CATCHMENT_HOME", str(server_home.path))

    def added(name: str) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "a.md").write_text("A")
        sources.add(session.desk(), NewSource("local_files", str(folder), name), "operator")
        return folder

    yield added


def syncs(home: Home, name: str) -> int:
    with closing(Ledger.open(home.database_url)) as ledger:
        return len(ledger.syncs.recent(ledger.sources.get(name).id))


def runs_of(server: Running, name: str) -> list[dict[str, Any]]:
    with api(server) as client:
        query = {"deployments": {"name": {"any_": [name]}}}
        found: list[dict[str, Any]] = client.post("/flow_runs/filter", json=query).raise_for_status().json()
        return found


@pytest.mark.parametrize(
    ("mine", "other", "does"),
    [
        ({}, {}, True),
        ({}, {"deep": False, "changed_only": True}, True),
        ({"changed_only": True}, {"changed_only": True}, False),
        ({"changed_only": True}, {}, False),
        ({"deep": True}, {"changed_only": True}, True),
        ({"deep": True}, {"deep": False}, True),
        ({}, {"deep": True}, False),
        ({}, {"plan": "one"}, False),
        ({"name": "notes"}, {"name": "papers"}, False),
    ],
)
def test_run_covers_runs_that_compare_no_more(mine: dict[str, Any], other: dict[str, Any], does: bool) -> None:
    assert coalesce.covers(mine, other) is does


def test_run_during_another_sync_is_coalesced_into_a_new_one(
    server: Running, server_home: Home, add: Callable[[str], Path]
) -> None:
    folder = add("met")
    connector = LocalFiles(LocalFilesSettings(root=folder))
    with open_sync(server_home, connector, "met", LocalFiles.policy, Priority.NORMAL) as sync:
        sync.discover()
        run = start_sync(server, "local_files", "met")
        (folder / "b.md").write_text("Written when the listing was over")
        with api(server) as client:
            while not (seen := client.get(f"/flow_runs/{run}").raise_for_status().json())["end_time"]:
                time.sleep(0.1)
        assert seen["state"]["name"] == COALESCED.name
        sync.finish("completed")
    assert wait(server, run, timeout=PATIENCE).state_name == "Completed"
    with closing(Ledger.open(server_home.database_url)) as ledger:
        assert len(find_hits(ledger, "Written")) == 1


def test_many_requested_runs_coalesce_into_few_syncs(
    server: Running, server_home: Home, add: Callable[[str], Path]
) -> None:
    connector = LocalFiles(LocalFilesSettings(root=add("asked")))
    with open_sync(server_home, connector, "asked", LocalFiles.policy, Priority.NORMAL) as sync:
        sync.discover()
        runs = [start_sync(server, "local_files", "asked") for _ in range(6)]
        until(lambda: [run["state"]["name"] for run in runs_of(server, "asked")], lambda names: COALESCED.name in names)
        sync.finish("completed")
    assert {wait(server, run, timeout=PATIENCE).state_name for run in runs} == {"Completed"}
    assert {view(server, run).state_type for run in runs} == {"COMPLETED"}
    # One of the syncs is that of the test.
    assert syncs(server_home, "asked") - 1 < len(runs)
    assert COALESCED.name in {run["state"]["name"] for run in runs_of(server, "asked")}
