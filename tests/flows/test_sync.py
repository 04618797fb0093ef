"""A sync as Prefect shows it: names, subflows, states and caching, without private data."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from prefect.client.schemas.objects import State, StateType

from catchment.content.parsing import CODE
from catchment.errors import LedgerUnavailable, Reason
from catchment.ledger import BackfillSelection, BackfillState, Ledger
from catchment.ledger.jobs.queue import Queue
from catchment.model import JobState, Priority, ReplayStage
from catchment.settings import Home
from catchment.sync.preflight import StartedSync, begin
from catchment.sync.progress import Trouble
from catchment.sync.source_sync import HELD_AFTER, SourceSync, open_sync
from connectors.local_files import LocalFiles, LocalFilesSettings
from flows.local_files import sync_local_files
from tasks.activity import stop
from tests.flows.conftest import Window, backfill, sync
from tests.hits import find_hits

pytestmark = pytest.mark.server


def _items(window: Window, run: dict[str, Any], tasks: int) -> list[dict[str, Any]]:
    """Return the task runs of failing items, of a run with this many tasks."""
    return [task for task in window.tasks(run["id"], tasks) if task["name"].startswith("item ")]


def test_run_is_named_after_its_result_and_has_subflows(window: Window, folder: Path) -> None:
    for n in range(3):
        (folder / f"note {n}.md").write_text(f"# Note {n}")
    assert sync("parts", folder).name == "Completed"
    run = window.run_of("parts")
    assert run["name"] == "parts: 3 added or updated"
    names = [task["name"] for task in window.tasks(run["id"], 2)]
    assert names == ["read and parse batch 1", "extract and deliver batch 1"]
    subflows = window.ask("flow_runs", flow_runs={"parent_flow_run_id": {"any_": [run["id"]]}})
    assert sorted(subflow["name"] for subflow in subflows) == ["extract slice 1", "normalize slice 1"]
    (artifact,) = window.ask("artifacts", artifacts={"key": {"any_": ["parts-summary"]}})
    assert '"succeeded"' in artifact["data"]
    how = r"parts: 3 added or updated; sync \d+ took \d+\.\d s(, \d+ items a second)?, waited \d+\.\d s"
    assert re.fullmatch(how, artifact["description"])


def test_sync_without_changes_keeps_the_summary_and_has_no_task_run(window: Window, folder: Path) -> None:
    (folder / "a.md").write_text("A")
    sync("idle", folder)
    before = window.artifacts("idle")
    sync("idle", folder)
    run = window.run_of("idle")
    assert run["name"] == "idle: nothing to do"
    assert window.tasks(run["id"], 0) == []
    assert window.artifacts("idle") == before
    # A slow machine shows progress, too.
    assert {*before} - {"idle-progress"} == {"idle-summary"}


def test_damaged_file_is_quarantined_in_its_own_task_run(window: Window, folder: Path, home: Home) -> None:
    home.web_port.write_text("4210\n")
    (folder / "good.md").write_text("Good")
    (folder / "bad.pdf").write_bytes(b"%PDF-1.7\nthis is no PDF")
    assert sync("damaged", folder).name == "Completed"
    run = window.run_of("damaged")
    assert run["name"] == "damaged: 1 added or updated, 1 quarantined"
    with closing(Ledger.inspect(home.database_url)) as ledger:
        [entry] = ledger.quarantine.list()
    (item,) = _items(window, run, 3)
    assert item["name"] == f"item {entry.job}: parse_error"
    assert (item["state"]["name"], item["state"]["type"]) == ("Quarantined", "FAILED")
    assert "(attempt 1). What helps: open it in its own program" in item["state"]["message"]
    assert item["state"]["message"].endswith(f". See http://127.0.0.1:4210/jobs/{entry.job} for details.")


def test_failing_items_beyond_three_of_a_reason_share_a_run_that_is_not_red(
    window: Window, folder: Path, home: Home
) -> None:
    for n in range(5):
        (folder / f"bad {n}.pdf").write_bytes(b"%PDF-1.7\nthis is no PDF")
    assert sync("many", folder).is_completed()
    run = window.run_of("many")
    assert run["name"] == "many: 5 quarantined"
    assert [item["name"].partition(": ")[2] for item in _items(window, run, 6)] == ["parse_error"] * 3
    (others,) = [task for task in window.tasks(run["id"], 6) if task["name"] == "other failing items"]
    assert (others["state"]["type"], others["state"]["message"]) == ("COMPLETED", "2 quarantined.")
    listed = window.artifacts("many")["many-quarantine"]
    assert listed["description"] == "many: 5 in quarantine"
    with closing(Ledger.inspect(home.database_url)) as ledger:
        assert all(f"| {entry.job} | {entry.reason} |" in listed["data"] for entry in ledger.quarantine.list())


def test_other_failing_items_are_attempted_as_the_policy_says(
    window: Window, folder: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.sync._SHOWN_OF_EACH_REASON", 1)
    for n in range(3):
        (folder / f"{n}.md").write_text("word " * 2_000_000)
    retry = {"backoff": "immediate", "attempts": 3}
    assert sync("tried", folder, limits={"stall_seconds": 0.01}, retry=retry).is_completed()
    with closing(Ledger.inspect(home.database_url)) as ledger:
        assert [entry.attempts for entry in ledger.quarantine.list()] == [3, 3, 3]
    (item,) = _items(window, window.run_of("tried"), 4)
    assert item["run_count"] == 2


def test_quarantine_is_empty_again_when_its_items_are_repaired(window: Window, folder: Path) -> None:
    bad = folder / "bad.pdf"
    bad.write_bytes(b"%PDF-1.7\nthis is no PDF")
    sync("repaired", folder)
    assert "parse_error" in window.artifacts("repaired")["repaired-quarantine"]["data"]
    bad.unlink()
    (folder / "good.md").write_text("Good")
    sync("repaired", folder)
    shown = window.artifacts("repaired")["repaired-quarantine"]
    assert (shown["data"], shown["description"]) == ("Nothing is in quarantine.", "repaired: nothing in quarantine")


def test_item_is_retried_in_its_task_run_by_policy(window: Window, folder: Path) -> None:
    (folder / "big.md").write_text("word " * 2_000_000)
    limits = {"stall_seconds": 0.01}
    state = sync("slow", folder, limits=limits, retry={"backoff": "immediate", "attempts": 3})
    assert state.name == "Completed"
    run = window.run_of("slow")
    (item,) = _items(window, run, 3)
    assert (item["state"]["name"], item["run_count"]) == ("Quarantined", 2)
    assert "(attempt 3)" in item["state"]["message"]
    assert not [line for line in window.logs([run["id"]], "attempt 3") if "Traceback" in line or "NoneType" in line]


@pytest.mark.parametrize("shown", [3, 0])
def test_source_lost_during_a_retry_fails_the_sync_not_the_item(
    window: Window, folder: Path, home: Home, monkeypatch: pytest.MonkeyPatch, shown: int
) -> None:
    monkeypatch.setattr("flows.sync._SHOWN_OF_EACH_REASON", shown)
    for name in ("big", "huge"):
        (folder / f"{name}.md").write_text("word " * 2_000_000)
    elsewhere = folder.with_name("unplugged")
    process_alone = SourceSync.process_alone

    def unplugged(sync: SourceSync, job: int) -> Trouble | None:
        if folder.exists():
            folder.rename(elsewhere)
        return process_alone(sync, job)

    with monkeypatch.context() as patch:
        patch.setattr(SourceSync, "process_alone", unplugged)
        patch.setattr("tasks.sync_tasks._ITEMS_AT_ONCE", 1)
        limits = {"stall_seconds": 0.01}
        state = sync("gone-meanwhile", folder, limits=limits, retry={"backoff": "immediate", "attempts": 5})
    assert state.name == "Failed"
    assert str(state.message).startswith("A source cannot be reached or read. No document is deleted meanwhile.")
    run = window.run_of("gone-meanwhile")
    assert run["name"] == "gone-meanwhile: failed (source.unreachable)"
    (item,) = [task for task in window.tasks(run["id"], 3) if "item" in task["name"]]
    assert (item["state"]["type"], item["run_count"]) == ("FAILED", 1)
    assert item["state"]["message"] == "A source cannot be reached or read (SourceUnavailable)"
    assert "Traceback" not in repr(window.logs([run["id"]], "A source cannot be"))
    elsewhere.rename(folder)
    assert sync("gone-meanwhile", folder, retry={"backoff": "immediate", "attempts": 5}).name == "Completed"
    with closing(Ledger.open(home.database_url)) as ledger:
        assert ledger.queue.counts()["gone-meanwhile"][JobState.SUCCEEDED] == 2


def test_deferred_item_is_not_reported_as_done(
    window: Window, folder: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "big.md").write_text("word " * 2_000_000)
    retry = {"backoff": "fixed", "initial": 60, "attempts": 3}
    sync("used-up", folder, limits={"stall_seconds": 0.01}, retry=retry)
    with closing(Ledger.open(home.database_url)) as ledger:
        (job,) = ledger.queue.jobs()
    # As if the item were due and the host's rate limit used up: an item that is not due cannot be claimed either.
    monkeypatch.setattr(SourceSync, "jobs_to_process_alone", lambda *_: {job.job: Reason.TIMEOUT})
    assert sync("used-up", folder, retry=retry).is_completed()
    (item,) = _items(window, window.run_of("used-up"), 1)
    assert (item["state"]["name"], item["state"]["type"], item["run_count"]) == ("Retrying later", "COMPLETED", 1)


@pytest.mark.parametrize("step", ["jobs_to_process_alone", "finish"])
def test_busy_ledger_between_steps_is_the_error_of_the_sync(
    window: Window, folder: Path, home: Home, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    original = getattr(SourceSync, step)

    def busy(sync: SourceSync, *arguments: Any) -> Any:
        if arguments[0] == "crashed":
            return original(sync, *arguments)
        raise LedgerUnavailable("The ledger is locked by another process") from ValueError("XYZZY".lower())

    monkeypatch.setattr(SourceSync, step, busy)
    assert sync("busy", folder).is_crashed()
    assert "xyzzy" not in repr(window.logs([window.run_of("busy")["id"]], "LedgerUnavailable"))
    with closing(Ledger.open(home.database_url)) as ledger:
        last = ledger.syncs.last(ledger.sources.get("busy").id)
    assert last is not None
    assert (last.outcome, last.error) == ("crashed", "The ledger is locked by another process")


def test_busy_ledger_before_a_sync_is_reported(window: Window, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(*_: object, **__: object) -> None:
        raise LedgerUnavailable("The ledger is locked by another process") from ValueError("XYZZY".lower())

    monkeypatch.setattr("catchment.sync.source_sync.begin", busy)
    assert sync("busy-before", folder).is_crashed()
    run = window.run_of("busy-before")["id"]
    assert "xyzzy" not in repr(window.logs([run], "The ledger is locked by another process"))


def test_step_completed_before_a_failure_is_cached(
    window: Window, folder: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("catchment.sync.batch._WORTH_STORING_SECONDS", 0)
    (folder / "a.md").write_text("A")
    with monkeypatch.context() as patch:
        patch.setattr(Queue, "deliver", _disk_full)
        assert sync("again", folder).name == "Crashed"
    assert sync("again", folder).name == "Completed"
    tasks = window.tasks(window.run_of("again")["id"], 2)
    assert [task["state"]["name"] for task in tasks] == ["Cached", "Completed"]
    ledger = Ledger.open(home.database_url)
    assert len(find_hits(ledger, "A")) == 1
    assert ledger.check() == []


@pytest.mark.parametrize(("worth_storing", "again"), [(0, "Cached"), (9, "Completed")])
def test_killed_sync_continues_with_what_was_stored(
    window: Window, folder: Path, home: Home, worth_storing: int, again: str
) -> None:
    (folder / "a.md").write_text("A")
    killing = (
        "import os, sys; from tests.flows import test_sync as flows; from catchment.ledger.jobs.queue import Queue\n"
        f"from catchment.sync import batch; batch._WORTH_STORING_SECONDS = {worth_storing}\n"
        "Queue.deliver = lambda *_: os.kill(os.getpid(), 9); flows.sync('killed', flows.Path(sys.argv[1]))"
    )
    address = {"PREFECT_API_URL": window.url, "PREFECT_API_AUTH_STRING": window.login}
    environment = {**os.environ, **address, "PREFECT_HOME": str(home.prefect)}
    died = subprocess.run([sys.executable, "-c", killing, folder], env=environment, check=False)
    assert died.returncode == -signal.SIGKILL
    assert sync("killed", folder).is_completed()
    tasks = window.tasks(window.run_of("killed")["id"], 2)
    assert [task["state"]["name"] for task in tasks] == [again, "Completed"]


def test_step_that_waited_for_the_ledger_shows_its_attempts(
    window: Window, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a.md").write_text("A")
    process = SourceSync.process
    attempts: list[int] = []

    def busy_once(sync: SourceSync, token: int) -> dict[str, int]:
        attempts.append(token)
        if len(attempts) == 1:
            raise LedgerUnavailable("The ledger is locked by another process")
        return process(sync, token)

    monkeypatch.setattr(SourceSync, "process", busy_once)
    assert sync("busy-once", folder).is_completed()
    tasks = window.tasks(window.run_of("busy-once")["id"], 2)
    assert [(task["state"]["name"], task["run_count"]) for task in tasks] == [
        ("Completed", 1),
        ("Completed", 2),
    ]


def _disk_full(*_arguments: object) -> None:
    raise LedgerUnavailable("the disk is full; make room and sync again")


def test_failed_subflow_start_leaves_its_jobs_to_the_next_sync(
    window: Window, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a.md").write_text("A")

    async def broken(*_: int, **__: bool) -> None:
        raise ConnectionError

    with monkeypatch.context() as patched:
        patched.setattr("flows.slices.normalize", broken)
        assert sync("stuck", folder).is_crashed()
    assert sync("stuck", folder).is_completed()
    assert window.run_of("stuck")["name"] == "stuck: 1 added or updated"


def test_slices_are_numbered_without_gaps(window: Window, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.slices.BATCH", 2)
    monkeypatch.setattr("flows.slices._BATCHES_PER_SLICE", 2)
    monkeypatch.setattr("flows.sync.BATCH", 1)
    for n in range(10):
        (folder / f"{n}.md").write_text(f"Note {n}")
    assert sync("sliced", folder).is_completed()
    run = window.run_of("sliced")
    assert run["name"] == "sliced: 10 added or updated"
    subflows = window.ask("flow_runs", flow_runs={"parent_flow_run_id": {"any_": [run["id"]]}})
    numbers = sorted(subflow["name"] for subflow in subflows)
    assert numbers == [f"{step} slice {number}" for step in ("extract", "normalize") for number in (1, 2, 3)]
    assert all(set(subflow["parameters"]) <= {"sync", "number", "first"} for subflow in subflows)


def test_stopped_sync_ends_cancelled_and_the_next_continues(
    window: Window, folder: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.slices.BATCH", 2)
    for n in range(6):
        (folder / f"{n}.md").write_text(f"Note {n}")
    stopped: list[bool] = []
    loop: list[asyncio.AbstractEventLoop] = []
    process = SourceSync.process

    def process_and_stop(sync: SourceSync, token: int) -> dict[str, int]:
        done = process(sync, token)
        if not stopped:
            [running] = window.ask("flow_runs", flow_runs={"name": {"any_": ["stopped: syncing"]}})
            asked = asyncio.run_coroutine_threadsafe(_stop(running["id"]), loop[0])
            stopped.append(asked.result(10))
        return done

    async def run() -> State:
        loop.append(asyncio.get_running_loop())
        settings = LocalFilesSettings(root=folder)
        state: State = await sync_local_files(name="stopped", settings=settings, return_state=True)  # type: ignore[call-overload]
        return state

    with monkeypatch.context() as patch:
        patch.setattr(SourceSync, "process", process_and_stop)
        state = asyncio.run(run())
    assert (stopped, state.type, state.name) == ([True], StateType.CANCELLED, "Cancelled")
    run = window.run_of("stopped")
    assert not stop(run["id"])
    parts = window.ask("flow_runs", flow_runs={"parent_flow_run_id": {"any_": [run["id"]]}})
    assert {part["state"]["type"] for part in parts} <= {"COMPLETED", "CANCELLED"}
    assert {task["state"]["type"] for task in window.tasks(run["id"], 3)} <= {"COMPLETED", "CANCELLED"}
    assert "Traceback" not in repr(window.logs([run["id"], *(part["id"] for part in parts)], "Cancelled"))
    with closing(Ledger.open(home.database_url)) as ledger:
        [last] = ledger.syncs.recent()
        assert (last.outcome, last.error) == ("cancelled", "the run was cancelled")
        assert ledger.queue.counts()["stopped"][JobState.RUNNING] == 0
    assert sync("stopped", folder).is_completed()
    with closing(Ledger.open(home.database_url)) as ledger:
        assert ledger.queue.counts()["stopped"][JobState.SUCCEEDED] == 6


async def _stop(run: str) -> bool:
    return stop(run)


def test_run_cancelled_while_its_sync_is_opened_leaves_nothing_open(
    window: Window, folder: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a.md").write_text("A")
    opening, go_on = threading.Event(), threading.Event()

    def slow(*arguments: Any, **named: Any) -> StartedSync:
        opening.set()
        go_on.wait(30)
        return begin(*arguments, **named)

    async def run() -> None:
        settings = LocalFilesSettings(root=folder)
        flow = asyncio.create_task(sync_local_files(name="early", settings=settings))
        while not opening.is_set():
            await asyncio.sleep(0.01)
        flow.cancel()
        go_on.set()
        await asyncio.gather(flow, return_exceptions=True)
        assert flow.cancelled()

    with monkeypatch.context() as patch:
        patch.setattr("catchment.sync.source_sync.begin", slow)
        asyncio.run(run())
    with closing(Ledger.open(home.database_url)) as ledger:
        assert [row.outcome for row in ledger.syncs.recent()] == ["cancelled"]
    assert sync("early", folder).is_completed()


def test_event_loop_is_never_blocked_by_a_locked_ledger(
    window: Window, folder: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a.md").write_text("A")
    sync("first", folder)

    async def run() -> None:
        with closing(Ledger.open(home.database_url)) as ledger:
            settings = LocalFilesSettings(root=folder)
            syncing = asyncio.ensure_future(sync_local_files(name="locked", settings=settings, return_state=True))
            # A blocked loop would not turn so often before the sync gives up waiting.
            with ledger._store.write():
                for _ in range(150):
                    await asyncio.sleep(0.01)
                assert not syncing.done()
            assert (await syncing).is_completed()

    asyncio.run(run())


def test_sync_that_lost_the_server_ends_crashed_and_resumes(
    window: Window, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a.md").write_text("A")

    async def away(*_: int, **__: bool) -> None:
        raise httpx.ConnectError("All connection attempts failed")

    with monkeypatch.context() as patched:
        patched.setattr("flows.slices.normalize", away)
        ended = sync("away", folder)
    assert ended.is_crashed()
    assert "continues" in window.run_of("away")["state"]["message"]
    assert sync("away", folder).is_completed()


def test_sync_with_a_deleted_deployment_completes(
    window: Window, folder: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a.md").write_text("A")
    monkeypatch.setenv("PREFECT__RUNTIME__DEPLOYMENT__ID", str(uuid4()))
    with monkeypatch.context() as patched:
        patched.setattr(SourceSync, "next_retry", lambda _: datetime.now(UTC))
        assert sync("undeployed", folder).is_completed()
    connector = LocalFiles(LocalFilesSettings(root=folder))
    with open_sync(home, connector, "undeployed", LocalFiles.policy, Priority.NORMAL) as other:
        ended = sync("undeployed", folder)
        other.finish("completed")
    assert (ended.type, ended.name) == ("COMPLETED", "Skipped")
    assert "deleted" in window.run_of("undeployed")["state"]["message"]


def test_backfill_is_a_run_of_its_own_and_a_paused_one_is_skipped(window: Window, folder: Path, home: Home) -> None:
    (folder / "a.md").write_text("A")
    assert sync("aged", folder).is_completed()
    with closing(Ledger.open(home.database_url)) as ledger:
        with ledger._store.engine.begin() as connection:
            connection.exec_driver_sql("UPDATE contents SET normalizer = '1.1 text/markdown'")
        source, what = ledger.sources.get("aged"), BackfillSelection(ReplayStage.NORMALIZE)
        backfills = ledger.backfills
        survey = backfills.survey(source.id, what, CODE)
        number = backfills.plan(source.id, what, survey, "anna")
        backfills.start(number, survey.digest, "anna")
        backfills.pause(number, "anna")
        assert backfill("aged", folder, number).name == "Skipped"
        backfills.resume(number, "anna")
        assert backfill("aged", folder, number).is_completed()
        assert backfills.get(number).state is BackfillState.DONE
    assert window.run_of("aged")["name"] == f"aged: backfill {number}, 1 added or updated"


def test_only_completed_sync_completes_waiting_runs(
    window: Window, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = []

    async def recorded(_start: datetime) -> None:
        with closing(Ledger.inspect(Home.default())) as ledger:
            outcomes.append(ledger.syncs.recent(limit=1)[0].outcome)

    monkeypatch.setattr("flows.sync.complete_waiting_runs", recorded)
    assert sync("failing", folder / "missing").name == "Failed"
    assert outcomes == []
    assert sync("working", folder).is_completed()
    assert outcomes == ["completed"]


def test_source_that_keeps_failing_is_quarantined_and_held(window: Window, folder: Path) -> None:
    (folder / "a.md").write_text("A")
    sync("unplugged", folder)
    folder.rename(folder.with_name("elsewhere"))
    folder.write_text("not a folder any more")
    states = [sync("unplugged", folder) for _ in range(HELD_AFTER + 1)]
    assert [state.name for state in states] == ["Failed"] * (HELD_AFTER - 1) + ["Quarantined", "Skipped"]
    assert str(states[0].message).startswith("The location of a source is not of its kind")
    assert "`catchment sources test unplugged`" in str(states[0].message)
    assert str(states[-2].message).startswith("Held until: `catchment sources resume unplugged`. ")
    assert window.run_of("unplugged")["name"] == "unplugged: skipped"


def test_prefect_shows_no_private_data(window: Window, folder: Path) -> None:
    (folder / "xyzzyname.md").write_text("# Xyzzytitle\n\nxyzzycontent [[xyzzylink]] ada@xyzzy.example")
    (folder / "xyzzybroken.pdf").write_bytes(b"%PDF-1.7\nxyzzybytes")
    sync("quiet", folder)
    run = window.run_of("quiet")
    tasks = window.tasks(run["id"], 3)
    subflows = window.ask("flow_runs", flow_runs={"parent_flow_run_id": {"any_": [run["id"]]}})
    runs = [run["id"], *(subflow["id"] for subflow in subflows)]
    seen = repr(
        [
            tasks,
            subflows,
            {key: value for key, value in run.items() if key != "parameters"},
            window.logs(runs, "attempt 1: parse_error"),
            window.ask("artifacts"),
        ]
    )
    assert "xyzzy" not in seen.lower()
    assert "secretfolder" not in seen


def test_error_is_reported_without_paths(window: Window, folder: Path) -> None:
    folder.rmdir()
    sync("gone", folder)
    run = window.run_of("gone")
    assert "secretfolder" not in repr([run["state"], window.logs([run["id"]], "cannot be reached")])
