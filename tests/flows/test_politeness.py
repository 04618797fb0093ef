"""Limits, blackout windows and breakers in Prefect, and the ETA of a sync."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID, uuid4

import pytest
from prefect.client.schemas.objects import State

from catchment.contracts import Known
from catchment.errors import LedgerUnavailable
from catchment.ledger import Ledger
from catchment.model import Change, Checkpoint
from catchment.pacing import HostLimits
from catchment.pacing.operator_rules import Rule
from catchment.settings import Home
from connectors.local_files import LocalFiles, LocalFilesSettings
from flows.local_files import sync_local_files
from tasks import coalesce, report
from tasks.open_syncs import Session
from tasks.redacted_errors import in_thread
from tests.flows.conftest import Window

pytestmark = pytest.mark.server


@pytest.fixture
def ledger(home: Home) -> Iterator[Ledger]:
    with closing(Ledger.open(home.database_url)) as ledger:
        yield ledger


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "papers"
    folder.mkdir()
    (folder / "a.md").write_text("A")
    return folder


def sync(name: str, folder: Path) -> State:
    state: State = asyncio.run(sync_local_files(name=name, settings=LocalFilesSettings(root=folder), return_state=True))  # type: ignore[call-overload]
    return state


def _session(sync: object) -> Session:
    return cast(Session, SimpleNamespace(sync=sync, call=in_thread))


def artifact(window: Window, key: str) -> dict[str, Any]:
    (found,) = window.ask("artifacts", artifacts={"key": {"any_": [key]}})
    return found


def test_rule_is_shown_with_the_figures_of_a_sync(window: Window, folder: Path, ledger: Ledger) -> None:
    ledger.throttles.put("kind:local_files", Rule(per_hour=500, at_once=1), "ada", "")
    sync("ruled", folder)
    assert "ruled: at once 1, per hour 500" in artifact(window, "ruled-summary")["description"]
    ledger.throttles.put("kind:local_files", Rule(), "ada", "")
    sync("free", folder)
    assert "ruled" not in artifact(window, "free-summary")["description"]


def test_blackout_and_its_end_show_in_the_runs(window: Window, folder: Path, ledger: Ledger) -> None:
    now = datetime.now(UTC)
    around = f"{now - timedelta(hours=1):%H:%M}-{now + timedelta(hours=1):%H:%M} UTC"
    ledger.throttles.put("all", Rule(blackouts=(around,)), "ada", "")
    state = sync("dark", folder)
    assert (state.name, window.run_of("dark")["name"]) == ("Skipped", "dark: skipped")
    assert state.message is not None and state.message.startswith("dark: throttled until")
    ledger.throttles.put("all", Rule(), "ada", "")
    assert sync("dark", folder).name == "Completed"


def test_opened_and_reset_breaker_shows_in_the_runs(window: Window, folder: Path, ledger: Ledger) -> None:
    for _ in range(5):
        ledger.pacing.failed(HostLimits("files.example.org"), "broken", login=False)
    state = sync("broken", folder)
    assert (state.name, window.run_of("broken")["name"]) == ("Skipped", "broken: skipped")
    assert state.message is not None and "repeated failures" in state.message
    ledger.pacing.reset("source:broken", "ada")
    assert sync("broken", folder).name == "Completed"


def test_long_sync_shows_progress_and_eta(window: Window, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "_EVERY_SECONDS", 0.0)
    sync("long", folder)
    shown = artifact(window, "long-progress")
    assert (shown["data"], shown["description"]) == (100.0, "long: done")


async def test_pending_progress_update_does_not_follow_the_final_one(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    begun = asyncio.Event()
    journeys = iter([0.2])

    async def create(*_: Any, **__: Any) -> UUID:
        return uuid4()

    async def update(_artifact: UUID, _share: float, description: str) -> None:
        async def arrive() -> None:
            await asyncio.sleep(next(journeys, 0))
            shown.append(description)

        begun.set()
        # A sent request arrives even if it is no longer awaited.
        await asyncio.shield(asyncio.create_task(arrive()))

    monkeypatch.setattr(report, "_EVERY_SECONDS", 0.0)
    monkeypatch.setattr(report, "acreate_progress_artifact", create)
    monkeypatch.setattr(report, "aupdate_progress_artifact", update)
    source = SimpleNamespace(name="papers")
    progress = SimpleNamespace(share=lambda: 0.5)
    async with report.showing_progress(
        _session(SimpleNamespace(source=source, progress=progress, update_eta=lambda: None))
    ):
        await begun.wait()
    await asyncio.sleep(0.4)
    assert shown == ["papers", "papers: done"]


@pytest.fixture
def deployment(window: Window, monkeypatch: pytest.MonkeyPatch) -> str:
    """The ID of the deployment of these runs."""
    flow = window.client.post("/flows/", json={"name": "again"}).raise_for_status().json()["id"]
    body = {"name": f"papers {uuid4()}", "flow_id": flow}
    made: str = window.client.post("/deployments/", json=body).raise_for_status().json()["id"]
    monkeypatch.setenv("PREFECT__RUNTIME__DEPLOYMENT__ID", made)
    return made


def planned(window: Window, deployment: str) -> list[datetime]:
    runs = window.ask("flow_runs", deployments={"id": {"any_": [deployment]}})
    return sorted(datetime.fromisoformat(run["expected_start_time"]) for run in runs)


def test_listing_that_ended_early_is_continued_at_once(
    window: Window, folder: Path, deployment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, changes = datetime.now(UTC), LocalFiles.changes

    def cut_short(self: LocalFiles, known: Known, *, deep: bool = False) -> Iterator[Change]:
        yield from changes(self, known, deep=deep)
        yield Checkpoint(again=datetime.now(UTC))

    monkeypatch.setattr(LocalFiles, "changes", cut_short)
    assert sync("short", folder).is_completed()
    [start] = planned(window, deployment)
    assert began < start < datetime.now(UTC) + timedelta(seconds=1)


def test_next_run_is_requested_unless_one_starts_by_then(window: Window, deployment: str) -> None:
    noon = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=12)

    def starts(*moments: datetime) -> list[timedelta]:
        for moment in moments:
            asyncio.run(report.schedule_next("papers", moment))
        return [start - noon for start in planned(window, deployment)]

    # Items that are due later in the second of a run get another one.
    second, hour = timedelta(seconds=1), timedelta(hours=1)
    assert starts(*(noon + n * second / 10 for n in (9, 1, 9))) == [second]
    assert starts(noon) == [timedelta(), second]
    assert starts(noon + hour) == [timedelta(), second]
    body = {
        "parameters": {"backfill": 1},
        "state": {"type": "SCHEDULED", "state_details": {"scheduled_time": str(noon - 2 * hour)}},
    }
    window.client.post(f"/deployments/{deployment}/create_flow_run", json=body).raise_for_status()
    assert starts(noon - hour) == [-2 * hour, -hour, timedelta(), second]


def test_backfill_gets_another_run_when_the_last_one_has_ended(
    window: Window, deployment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: set[str] = set()
    for _ in range(3):
        # As after a restore, the number of the backfill and of its latest sync are those of before.
        monkeypatch.setenv("PREFECT__RUNTIME__FLOW_RUN__ID", str(uuid4()))
        for _ in range(2):
            asyncio.run(coalesce.request_backfill("papers", 7, datetime.now().astimezone()))
        runs = window.ask("flow_runs", deployments={"id": {"any_": [deployment]}})
        (new,) = [run for run in runs if run["id"] not in ended]
        assert new["parameters"] == {"backfill": 7}
        state = {"state": {"type": "COMPLETED"}, "force": True}
        window.client.post(f"/flow_runs/{new['id']}/set_state", json=state).raise_for_status()
        ended.add(new["id"])


@pytest.mark.parametrize("is_done", [False, True])
def test_newest_waiting_run_remains_after_the_work_of_the_others(
    window: Window, deployment: str, monkeypatch: pytest.MonkeyPatch, is_done: bool
) -> None:
    start = datetime.now(UTC)

    def run(due: timedelta, **parameters: Any) -> str:
        details = {"scheduled_time": (start + due).isoformat()}
        body = {"parameters": parameters, "state": {"type": "SCHEDULED", "state_details": details}}
        created = window.client.post(f"/deployments/{deployment}/create_flow_run", json=body).raise_for_status()
        return str(created.json()["id"])

    minute = timedelta(minutes=1)
    own = SimpleNamespace(id=run(-4 * minute, deep=False), scheduled_start_time=start - 4 * minute)
    monkeypatch.setattr(coalesce, "flow_run", own)
    older, newer = run(-2 * minute), run(-minute)
    others = {run(-minute, deep=True), run(minute)}
    asyncio.run(coalesce.complete_waiting_runs(start if is_done else None))
    runs = window.ask("flow_runs", deployments={"id": {"any_": [deployment]}})
    completed = {row["id"] for row in runs if row["state"]["name"] == "Coalesced"}
    assert older in completed
    assert (newer in completed) is not is_done
    assert not others & completed


async def test_eta_is_shown_with_the_progress_if_known() -> None:
    noon = datetime.now().astimezone().replace(hour=12, minute=5)
    source = SimpleNamespace(name="papers")
    told: list[Any] = [noon, None, LedgerUnavailable("locked")]

    def update_eta() -> Any:
        if isinstance(said := told.pop(0), Exception):
            raise said
        return said

    opened = _session(SimpleNamespace(source=source, update_eta=update_eta))
    assert [await report.described(opened) for _ in range(3)] == ["papers: done about 12:05", "papers", "papers"]
