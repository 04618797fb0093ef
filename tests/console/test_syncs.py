"""Progress of `sync --wait`, and `sync --all`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from catchment.errors import TryAgain
from catchment.pacing.waits import WaitKind
from console import session
from console.render import clock
from console.sources import syncs
from console.sources.syncs import in_words, share_done
from deployments.runs.runs import RunView
from tests.console.standin import Standin, serving

if TYPE_CHECKING:
    from tests.console.conftest import Cli


def test_a_sync_that_is_waited_for_shows_how_far_it_is_and_when_it_will_be_done() -> None:
    soon = datetime.now(UTC) + timedelta(minutes=5)
    assert share_done(75, 100, None) == " [#####---------------] 25 of 100"
    assert share_done(75, 100, soon) == f" [#####---------------] 25 of 100, done about {clock(soon)}"
    assert share_done(75, 100, soon - timedelta(hours=1)) == share_done(75, 100, None), "it was wrong"
    assert share_done(0, 100, soon) == ""


def test_a_run_that_stands_still_while_the_disk_is_full_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    running = RunView("1", "notes: 1", "RUNNING", "Running", "", "")
    monkeypatch.setattr(session, "disk_is_full", lambda: True)
    show = syncs._Progress("notes").show
    show(running)
    show(running)
    monkeypatch.setattr(syncs, "_STALLED_SECONDS", 0.0)
    with pytest.raises(TryAgain, match="disk is full"):
        show(running)
    monkeypatch.setattr(session, "disk_is_full", lambda: False)
    show(running)
    assert capsys.readouterr().err == "notes: running\n"


def test_late_sync_names_the_host_that_it_waits_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    late = RunView("1", "notes: 1", "SCHEDULED", "Late", "", "")
    monkeypatch.setattr(session, "disk_is_full", lambda: False)
    monkeypatch.setattr(
        syncs, "_standing", lambda _: SimpleNamespace(wait=WaitKind.MACHINE.of("notes", why="barn does not answer"))
    )
    show = syncs._Progress("notes").show
    show(late)
    show(late)
    assert capsys.readouterr().err == "notes: waits: barn does not answer; see `catchment hosts`\n"


def test_a_state_is_told_in_words() -> None:
    assert [in_words(name) for name in ("AwaitingConcurrencySlot", "Running")] == [
        "waiting for the sync that runs",
        "running",
    ]


@pytest.fixture
def server(filled: Path) -> Iterator[Standin]:
    with serving(filled) as standin:
        standin.answers["/deployments/name/sync-obsidian/notes"] = {"id": "d1", "paused": False, "schedules": []}
        standin.answers["/deployments/d1/create_flow_run"] = {"id": "run-1"}
        yield standin


def test_sync_all_starts_every_source_that_may_run(server: Standin, cli: Cli, tmp_path: Path) -> None:
    sources = Path(os.environ["CATCHMENT_HOME"], "sources.yaml")
    entry = sources.read_text().partition("deployments:\n")[2]
    for name in ("paused", "undeployed"):
        sources.write_text(sources.read_text() + entry.replace("notes", name))
    assert cli("sources", "pause", "paused", "--reason", "moving house").code == 0
    response = cli("sync", "--all", "--json")
    assert (response.code, response.json) == (4, [{"source": "notes", "run": "run-1"}])
    assert "skipped paused: paused (moving house); resume with" in response.err
    assert "undeployed" in response.err


@pytest.mark.parametrize("outcome", ["Completed", "Skipped", "Failed", None])
def test_sync_all_names_the_source_on_each_line_about_it(server: Standin, cli: Cli, outcome: str | None) -> None:
    if outcome is not None:
        ended = {
            "type": "FAILED" if outcome == "Failed" else "COMPLETED",
            "name": outcome,
            "message": "limit of a host",
        }
        server.answers["/flow_runs/run-1"] = {"name": "notes", "state": ended}
    response = cli("sync", "--all", "--wait")
    lines = [line.removeprefix("catchment: ") for line in (response.out + response.err).splitlines()]
    assert lines and all(line.startswith("notes: ") for line in lines), lines


@pytest.mark.parametrize("words", [("sync",), ("sync", "notes", "--all"), ("sync", "--all", "--plan", "x")])
def test_sync_needs_one_name_or_all(cli: Cli, words: tuple[str, ...]) -> None:
    response = cli(*words)
    assert (response.code, response.err.count("\n"), "--all" in response.err) == (2, 1, True)
