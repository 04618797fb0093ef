"""`status` and `sources next`: what runs, how each source is watched, when it runs next; asked of files and the server."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from catchment.home import Home
from catchment.places import Places
from catchment.process import identity
from deployments.watch import report
from deployments.watch.report import Watching, WatchState
from tests.console.standin import Standin, run, serving

if TYPE_CHECKING:
    from tests.console.conftest import Cli


@pytest.fixture
def server(filled: Path) -> Iterator[Standin]:
    with serving(filled) as standin:
        yield standin


def test_status_says_when_a_source_runs_next(cli: Cli, server: Standin) -> None:
    server.answers["/flow_runs/filter"] = [run("other", 10), run("notes", 600), run("notes", 1200)]
    [source] = cli("status", "--json").json["sources"]
    assert source["next_run"]["why"] == "schedule"
    assert "in 9 min" in cli("status").out


def test_status_says_how_a_source_is_watched(cli: Cli, server: Standin, filled: Path) -> None:
    state = WatchState(Watching.LIMITED, "its disk is NFS", "give it a schedule", 7)
    report.write(Home(filled), {"notes": state})
    [source] = cli("status", "--json").json["sources"]
    assert source["watch"] == {
        "state": "limited",
        "reason": "its disk is NFS",
        "remedy": "give it a schedule",
        "folders": 7,
    }
    assert "notes: its disk is NFS; give it a schedule" in cli("status").out


def test_status_says_how_many_runs_the_worker_lets_live(cli: Cli, server: Standin, filled: Path) -> None:
    Places(identity(), datetime.now(UTC), 1, 4, 0.91, 0.4, 1, 3).write(Home(filled))
    assert cli("status", "--json").json["worker"] == {
        "running": 1,
        "waiting": 3,
        "limit": 1,
        "cap": 4,
        "cpu": 0.91,
        "memory": 0.4,
    }
    said = "Worker: 1 running, 3 waiting, 1 at once instead of 4 (processor 91%, memory 40% in use)"
    assert said in cli("status").out


@pytest.mark.parametrize("code", [503, 401])
def test_status_is_told_from_the_ledger_when_the_server_does_not_answer(cli: Cli, server: Standin, code: int) -> None:
    server.code = code
    said = cli("status", "--json")
    assert (said.code, said.json["sources"][0]["next_run"]) == (0, None)
    assert cli("sources", "next", "notes").code == 10


def test_the_next_runs_are_listed_with_their_reasons(cli: Cli, server: Standin) -> None:
    retries = run("notes", 30, auto=False) | {"name": "notes: retries"}
    server.answers["/flow_runs/filter"] = [retries, run("notes", 600), run("notes", 700, auto=False)]
    assert [one["why"] for one in cli("sources", "next", "notes", "--json").json] == ["retry", "schedule", "asked for"]
    assert "in 9 min" in cli("sources", "next", "notes", "--limit", "3").out
    asked = server.asked[-1][2]
    assert (asked["limit"], asked["deployments"]) == (3, {"name": {"any_": ["notes"]}})


def test_without_a_planned_run_it_says_why(cli: Cli, server: Standin) -> None:
    assert "start one with `catchment sync notes`" in cli("sources", "next", "notes").err
    cli("sources", "pause", "notes")
    assert "it is paused; go on with `catchment sources resume notes`" in cli("sources", "next", "notes").err


def test_the_next_runs_of_a_source_need_the_source_and_the_server(cli: Cli, filled: Path) -> None:
    assert cli("sources", "next", "nothing").code == 4
    assert cli("sources", "next", "notes").code == 10
