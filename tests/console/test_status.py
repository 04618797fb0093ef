"""`catchment status` and `sources next`: load, watching and the next runs, from files and the server."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from catchment.ledger import WHOLE, Ledger
from catchment.model import Priority
from catchment.pacing import HostLimits
from catchment.pacing.metered import Ask, Report
from catchment.runtime import watch_status
from catchment.runtime.home import Home
from catchment.runtime.process import identity
from catchment.runtime.server_report import PlannedRun, ServerReport
from catchment.runtime.watch_status import Watching, WatchState
from catchment.runtime.worker_status import WorkerStatus
from console.render import clock
from console.start_stop import status as shown_status
from deployments.server.running import Running, record, supervisor_lock
from tests.console.standin import Standin, run, serving

if TYPE_CHECKING:
    from tests.console.conftest import Cli


@pytest.fixture
def server(filled: Path) -> Iterator[Standin]:
    with serving(filled) as standin:
        yield standin


def test_status_says_in_one_line_that_the_server_does_not_answer(cli: Cli, filled: Path) -> None:
    with supervisor_lock(Home(filled)):
        record(Home(filled), Running(1, os.getpid(), datetime.now(UTC), 0, 0, ""))
        shown = cli("status", "--json").json["server"]
        (said,) = [line for line in cli("status").out.splitlines() if "erver" in line]
        ServerReport(datetime.now(UTC)).write(Home(filled))
        assert re.search(r"does not respond since .*\d\d:\d\d.*; it is restarted", cli("status").out)
    assert shown == {"running": True, "answers": False, "url": "http://127.0.0.1:1"}
    assert said.startswith("The server at http://127.0.0.1:1 does not respond; it is restarted ")


def test_status_says_when_a_source_runs_next(cli: Cli, server: Standin) -> None:
    server.answers["/flow_runs/filter"] = [run("other", 10), run("notes", 600), run("notes", 1200)]
    [source] = cli("status", "--json").json["sources"]
    assert source["next_run"]["why"] == "schedule"
    assert "in 9 min" in cli("status").out
    server.answers["/flow_runs/filter"] = [run("notes", 600)]
    assert cli("sources", "show", "notes", "--json").json["line"]["standing"]["next_run"]["why"] == "schedule"
    assert "in 9 min" in cli("sources", "show", "notes").out


def test_status_says_how_a_source_is_watched(cli: Cli, server: Standin, filled: Path) -> None:
    state = WatchState(Watching.LIMITED, "on NFS", "add a schedule", 7)
    watch_status.write(Home(filled), {"notes": state})
    [source] = cli("status", "--json").json["sources"]
    assert source["watch"] == {
        "state": "limited",
        "reason": "on NFS",
        "remedy": "add a schedule",
        "folders": 7,
    }
    assert "notes: on NFS; add a schedule" in cli("status").out


def test_status_says_how_many_runs_the_worker_lets_live(cli: Cli, server: Standin, filled: Path) -> None:
    WorkerStatus(identity(), datetime.now(UTC), 1, 4, 0.91, 0.4, 3, runs=("run",)).write(Home(filled))
    worker = cli("status", "--json").json["worker"]
    expected = {"runs": ["run"], "waiting": 3, "limit": 1, "cap": 4, "cpu": 0.91, "memory": 0.4, "problem": ""}
    assert {name: worker[name] for name in expected} == expected
    said = "Worker: online; 1 running, 3 waiting, at most 1 at once (reduced from 4: processor 91%, memory 40% in use)"
    assert said in cli("status").out


@pytest.mark.parametrize("code", [503, 401])
def test_status_is_told_from_the_ledger_when_the_server_does_not_answer(
    cli: Cli, server: Standin, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deployments.server.client._TRIES", 2)
    server.code = code
    said = cli("status", "--json")
    assert (said.code, said.json["sources"][0]["next_run"]) == (0, None)
    assert cli("sources", "next", "notes").code == 10


def test_status_says_what_rests_and_until_when(cli: Cli, filled: Path) -> None:
    now = datetime.now(UTC)
    window = f"{now - timedelta(hours=1):%H:%M}-{now + timedelta(hours=1):%H:%M} UTC"
    assert cli("throttle", "set", "obsidian", "--blackout", window).code == 0
    [source] = cli("status", "--json").json["sources"]
    assert source["waits"][0]["why"] == "blackout window"
    assert source["rule"] == f"blackouts {window}"
    assert abs(datetime.fromisoformat(source["waits"][0]["until"]) - now - timedelta(hours=1)) <= timedelta(minutes=1)
    out = cli("status").out
    assert re.search(r"notes: throttled until .*\d\d:\d\d \(blackout window\); see `catchment throttle show`", out)
    assert "throttled  " in out.partition("LAST SYNC")[2]
    assert cli("throttle", "clear", "obsidian").code == 0
    assert cli("status", "--json").json["sources"][0]["waits"] == []
    assert "throttled" not in cli("status").out


def test_status_says_how_much_of_a_quota_is_left(cli: Cli, filled: Path) -> None:
    assert cli("throttle", "set", "all", "--per-hour", "500").code == 0
    assert cli("throttle", "set", "notes", "--per-hour", "40").code == 0
    assert cli("status", "--json").json["sources"][0]["quota"] == {"allowed": 40, "left": 40, "until": None}
    out = cli("status").out
    assert "notes: 40 of 40 jobs left this hour" in out and "notes: limited to per hour 40" in out
    assert cli("throttle", "clear", "notes").code == cli("throttle", "clear", "all").code == 0
    assert "limited to" not in cli("status").out


def test_status_says_which_hosts_rest_and_what_they_allow(cli: Cli, filled: Path) -> None:
    limits = HostLimits("imap.example.org", "ada", per_hour=5_000)
    with closing(Ledger.open(Home(filled).database_url)) as ledger:
        ledger.pacing.take(Ask(limits, "notes", identity(), 1, False), Report(), None)
        for _ in range(5):
            ledger.pacing.failed(limits, "notes", login=False)
    told = cli("status", "--json").json
    [host], [source] = told["hosts"], told["sources"]
    assert (host["host"], host["quota"]["left"]) == (limits.key, 4_499)
    assert host["wait"]["why"] == source["waits"][0]["why"] == "repeated failures"
    out = cli("status").out
    assert f"{limits.host}: throttled until" in out and "4499 of 5000 requests left until" in out
    assert cli("throttle", "reset-breaker", "notes").code == cli("throttle", "reset-breaker", limits.host).code == 0
    told = cli("status", "--json").json
    assert (told["hosts"][0]["wait"], told["sources"][0]["waits"]) == (None, [])


def test_status_says_when_a_sync_that_runs_will_be_done(cli: Cli, filled: Path) -> None:
    moment = datetime.now(UTC).replace(microsecond=0) + timedelta(minutes=20)
    with closing(Ledger.open(Home(filled).database_url)) as ledger:
        sync = ledger.syncs.begin(
            ledger.sources.get("notes").id, run=None, owner=identity(), code_version="1", alive=lambda _: True
        )
        ledger.syncs.expect(sync.id, moment)
        last = cli("status", "--json").json["sources"][0]["last_sync"]
        assert (last["outcome"], datetime.fromisoformat(last["expected"])) == (None, moment)
        assert f"running, done about {clock(moment)}" in cli("status").out
        ledger.syncs.end(sync.id, "yielded", {})
        assert f"yielded, done about {clock(moment)}" in cli("status").out
        end = ledger.syncs.begin(
            ledger.sources.get("notes").id, run=None, owner=identity(), code_version="1", alive=lambda _: True
        )
        ledger.syncs.expect(end.id, moment)
        ledger.syncs.end(end.id, "completed", {})
    assert cli("status", "--json").json["sources"][0]["last_sync"]["expected"] is None


def test_an_undo_is_no_sync_that_went_well(cli: Cli, server: Standin, filled: Path) -> None:
    with closing(Ledger.open(Home(filled).database_url)) as ledger:
        source = ledger.sources.get("notes").id
        first = ledger.syncs.last(source)
        for _ in range(3):
            failed = ledger.syncs.begin(source, run=None, owner=identity(), code_version="1", alive=lambda _: True)
            ledger.syncs.end(failed.id, "failed", {}, "the disk is away")
    assert first is not None
    assert cli("undo", str(first.id)).code == 0
    assert cli("status", "--json").json["sources"][0]["last_sync"]["error"] == "the disk is away"
    assert "notes: the disk is away; catchment sync notes" in cli("status").out
    findings = {finding["probe"]: finding for finding in cli("health", "--json").json["findings"]}
    assert findings["source notes"]["verdict"] != "ok"


def test_failures_that_may_pass_are_named_before_they_are_a_problem(cli: Cli, server: Standin, filled: Path) -> None:
    watch_status.write(Home(filled), {"notes": WatchState(Watching.LIMITED, "the host is away", "none needed")})
    assert "notes: the host is away; none needed\n" in cli("status").out
    watch_status.write(Home(filled), {})
    with closing(Ledger.open(Home(filled).database_url)) as ledger:
        source = ledger.sources.get("notes").id
        failed = ledger.syncs.begin(source, run=None, owner=identity(), code_version="1", alive=lambda _: True)
        ledger.syncs.end(failed.id, "failed", {}, "the disk is away")
    assert "notes: the last sync failed: the disk is away; the next one tries again\n" in cli("status").out


def test_schedule_that_is_switched_off_in_the_ui_is_shown_and_resumed(cli: Cli, server: Standin) -> None:
    off = {"id": "s", "active": False}
    row = {
        "id": "d",
        "name": "notes",
        "paused": False,
        "tags": ["source"],
        "schedules": [off],
        "work_queue_name": "any",
    }
    server.answers |= {
        "/deployments/filter": [row],
        "/deployments/name/sync-obsidian/notes": row,
        "/deployments/d/resume_deployment": {},
        "/deployments/d/schedules/s": {},
    }
    assert cli("status", "--json").json["sources"][0]["state"] == "paused"
    assert cli("sources", "resume", "notes").code == 0
    assert ("PATCH", "/deployments/d/schedules/s", {"active": True}) in server.asked
    watched = row | {"tags": ["source", "watch"]}
    server.answers["/deployments/filter"] = [watched]
    assert cli("status", "--json").json["sources"][0]["state"] == "active"


def test_the_next_runs_are_listed_with_their_reasons(cli: Cli, server: Standin) -> None:
    retries = run("notes", 30, auto=False) | {"name": "notes: retries"}
    server.answers["/flow_runs/filter"] = [retries, run("notes", 600), run("notes", 700, auto=False)]
    assert [one["why"] for one in cli("sources", "next", "notes", "--json").json] == ["retry", "schedule", "asked for"]
    assert "in 9 min" in cli("sources", "next", "notes", "--limit", "3").out
    asked = server.asked[-1][2]
    assert (asked["limit"], asked["deployments"]) == (3, {"name": {"any_": ["notes"]}})


def test_held_source_tells_its_reason_once_and_no_next_run(cli: Cli, server: Standin, filled: Path) -> None:
    server.answers["/flow_runs/filter"] = [run("notes", 600)]
    watch_status.write(Home(filled), {"notes": WatchState(Watching.GONE, "folder not found", "mount its disk", 0)})
    with closing(Ledger.open(Home(filled).database_url)) as ledger:
        source = ledger.sources.get("notes").id
        failed = ledger.syncs.begin(source, run=None, owner=identity(), code_version="1", alive=lambda _: True)
        ledger.syncs.end(failed.id, "quarantined", {}, "the folder is missing")
    assert cli("status", "--json").json["sources"][0]["next_run"] is None
    assert [line for line in cli("status").out.splitlines() if line.startswith("notes:")] == [
        "notes: the folder is missing; catchment sources resume notes",
        "notes: 1 in quarantine; see `catchment quarantine list --source notes`",
    ]
    assert "no run planned: held (the folder is missing); resume" in cli("sources", "next", "notes").err
    assert cli("sources", "show", "notes", "--json").json["line"]["standing"]["next_run"] is None


def test_resumed_source_is_synced_at_once(cli: Cli, server: Standin) -> None:
    server.answers |= {
        "/deployments/name/sync-obsidian/notes": {"id": "d", "paused": False, "schedules": []},
        "/deployments/d/resume_deployment": {},
        "/deployments/d/create_flow_run": {"id": "r"},
    }
    assert cli("sources", "resume", "notes").out == "notes: resumed\n"
    assert server.asked[-1][1] == "/deployments/d/create_flow_run"


def test_last_report_of_the_worker_tells_while_the_server_is_down(cli: Cli, filled: Path) -> None:
    now = datetime.now(UTC)
    runs = (PlannedRun(now - timedelta(minutes=1), "schedule"), PlannedRun(now + timedelta(minutes=10), "retry"))
    ServerReport(now - timedelta(hours=2), ("notes",), {"notes": runs}).write(Home(filled))
    [source] = cli("status", "--json").json["sources"]
    assert (source["state"], source["waits"][0]["why"], source["next_run"]) == (
        "paused",
        "switched off in Prefect",
        None,
    )
    shown = cli("sources", "next", "notes", "--json")
    assert [run["why"] for run in shown.json] == ["retry"], "the first is over"
    assert shown.err == "Catchment is not running; planned 2 h ago, started only while it runs\n"
    # The server is down, but the worker lives.
    ServerReport(now - timedelta(hours=2), (), {"notes": runs}).write(Home(filled))
    WorkerStatus(identity(), now, 1, 4, 0.1, 0.1, 0).write(Home(filled))
    assert cli("status", "--json").json["sources"][0]["next_run"]["why"] == "retry"
    (filled / "run" / "server.json").write_text('{"at": "of another version"}')
    assert cli("status", "--json").json["sources"][0]["state"] == "active"


def test_without_a_planned_run_it_says_why(cli: Cli, server: Standin) -> None:
    assert "start one with `catchment sync notes`" in cli("sources", "next", "notes").err
    cli("sources", "pause", "notes")
    assert "no run planned: paused; resume with `catchment sources resume notes`" in cli("sources", "next", "notes").err


def test_the_next_runs_of_a_source_need_the_source_and_the_server(cli: Cli, filled: Path) -> None:
    assert cli("sources", "next", "nothing").code == 4
    assert cli("sources", "next", "notes").code == 10


def test_watch_repeats_the_status_until_interrupted(cli: Cli, filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = iter((None, KeyboardInterrupt))

    def sleep(seconds: float) -> None:
        if interrupt := next(pauses):
            raise interrupt

    # Other threads of this process sleep, too.
    monkeypatch.setattr(shown_status, "time", SimpleNamespace(sleep=sleep))
    response = cli("status", "--watch")
    assert (response.code, response.out.count("SOURCE  KIND"), "\x1b" in response.out) == (130, 2, False)
    assert cli("status", "--watch", "--json").code == 2


def test_pause_of_all_sources_is_told_once_with_its_reason(cli: Cli, filled: Path) -> None:
    with closing(Ledger.open(Home(filled).database_url)) as ledger:
        other = ledger.sources.put("other", "obsidian", Priority.NORMAL)
        ledger.consents.give(other.id, {WHOLE}, "configuration", None)
    assert cli("queue", "pause", "--reason", "on the train").code == 0
    lines = [line for line in cli("status").out.splitlines() if "on the train" in line]
    assert lines == ["notes, other: throttled (paused by an operator: on the train); see `catchment throttle show`"]
    assert "paused (on the train)" in cli("throttle", "show").out
    assert "limited to" not in cli("status").out
    assert cli("queue", "resume").code == 0
    assert "on the train" not in cli("throttle", "show").out
    assert "all: paused, before: nothing; on the train" in cli("throttle", "history").out


def test_sentence_of_a_stopped_system_does_not_say_that_all_is_well(cli: Cli) -> None:
    sentence = "Catchment is not running; start it with `catchment up --detach`."
    assert cli("status", "--json").json["sentence"] == sentence
