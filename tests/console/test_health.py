"""`catchment health`: checks of the server, watcher, ledger and sources, and the artifact in the Prefect UI."""

from __future__ import annotations

import os
import re
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import sinks
from catchment.errors import TryAgain
from catchment.ledger import WHOLE, Ledger
from catchment.runtime import secret_references, watch_status, web_process
from catchment.runtime.home import Home
from catchment.runtime.watch_status import Watching, WatchState
from catchment.runtime.web_process import WebAddress
from catchment.sync import supply
from catchment.telemetry.incidents import FAIL, OK, WARN, Condition, Verdict, worst
from catchment.views import health as probes
from catchment.views.health import HealthReport
from connectors.imap import Imap
from connectors.imap.settings import ImapSettings
from deployments.health import checks, machine, page
from deployments.server import client
from deployments.server.running import Running, record, running, supervisor_lock
from deployments.sources.sources_file import SourceEntry, SourcesFile
from tests.console.standin import Standin, moment, run, serving

if TYPE_CHECKING:
    from tests.console.conftest import Cli


@pytest.fixture
def server(filled: Path) -> Iterator[Standin]:
    with serving(filled) as standin:
        standin.answers["/work_pools/catchment/workers/filter"] = [{"last_heartbeat_time": moment(-10)}]
        yield standin


def verdicts(response: Any) -> dict[str, str]:
    return {finding["probe"]: finding["verdict"] for finding in response.json["findings"]}


def test_all_is_well(cli: Cli, server: Standin) -> None:
    response = cli("health", "--json")
    assert response.code == 0
    assert verdicts(response) == dict.fromkeys(
        [
            "disk",
            "ledger",
            "server",
            "scheduler",
            "worker",
            "embeddings",
            "recognition",
            "web",
            "watcher",
            "source notes",
        ],
        "ok",
    )
    assert cli("health").out.splitlines()[0].split() == ["PROBE", "VERDICT", "FINDING"]


def test_error_in_the_settings_of_messages_fails_the_check(cli: Cli, server: Standin, filled: Path) -> None:
    (filled / "alerts.yaml").write_text("mial: {}\n")
    response = cli("health", "--json")
    assert (response.code, verdicts(response)["alerts"]) == (1, "fail")
    assert "did you mean mail?" in cli("health").out
    assert "alerts.yaml line 1: unknown key mial" in cli("config", "validate").err


def test_when_nothing_runs_health_fails_and_says_what_to_do(cli: Cli, filled: Path) -> None:
    response = cli("health", "--json")
    assert (response.code, response.json["verdict"]) == (1, "fail")
    expected = {
        "disk": "ok",
        "ledger": "ok",
        "server": "fail",
        "embeddings": "ok",
        "recognition": "ok",
        "source notes": "ok",
    }
    assert verdicts(response) == expected
    assert "catchment up --detach" in cli("health").out


@pytest.mark.parametrize("changes", ["starting", "stopping"])
def test_system_that_is_starting_or_stopping_is_reported_as_such(cli: Cli, filled: Path, changes: str) -> None:
    home = Home(filled).make()
    with supervisor_lock(home):
        if changes == "stopping":
            record(home, Running(1, 1, datetime.now(UTC), 1, 1, "", stopping=True))
        health, status, sync = cli("health", "--json"), cli("status"), cli("sync", "notes")
    [server] = [finding for finding in health.json["findings"] if finding["probe"] == "server"]
    assert (health.code, server["verdict"], server["message"]) == (0, "warn", f"Catchment is {changes}")
    assert status.out.startswith(f"Catchment is {changes}")
    assert (sync.code, sync.err) == (10, f"catchment: still {changes}; try again in a minute\n")


def test_version_of_prefect_that_was_not_tested_is_reported(
    cli: Cli, server: Standin, filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = machine.version
    monkeypatch.setattr(machine, "version", lambda name: "3.10.0" if name == "prefect" else real(name))
    [found] = [finding for finding in cli("health", "--json").json["findings"] if finding["probe"] == "versions"]
    assert (found["verdict"], "Prefect 3.10.0" in found["message"]) == ("fail", True)
    assert "catchment up --detach" in found["remedy"]
    HealthReport.of(checks.examine(Home(filled)), datetime.now(UTC)).write(Home(filled))
    assert "1 check failed" in cli("status").out


def test_web_process_that_is_silent_is_reported(cli: Cli, server: Standin, filled: Path) -> None:
    home = Home(filled)
    web_process.token(home)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        WebAddress.record(home, silent.getsockname()[1])
        [web] = [finding for finding in cli("health", "--json").json["findings"] if finding["probe"] == "web"]
    assert (web["verdict"], web["message"]) == ("warn", "does not respond; searches use words only")
    assert "catchment logs web" in web["remedy"]


def test_a_server_that_does_not_answer_fails(cli: Cli, server: Standin) -> None:
    server.code = 500
    response = cli("health", "--json")
    assert (response.code, verdicts(response)["server"]) == (1, "fail")


def test_a_worker_that_is_away_fails(cli: Cli, server: Standin) -> None:
    server.answers["/work_pools/catchment/workers/filter"] = [{"last_heartbeat_time": moment(-400)}]
    assert verdicts(cli("health", "--json"))["worker"] == "fail"
    server.answers["/work_pools/catchment/workers/filter"] = []
    assert verdicts(cli("health", "--json"))["worker"] == "fail"


def test_runs_that_are_late_are_a_warning_and_those_that_wait_their_turn_are_not(cli: Cli, server: Standin) -> None:
    server.answers["/flow_runs/filter"] = [run("notes", -300, state="AwaitingConcurrencySlot"), run("notes", 90)]
    assert verdicts(cli("health", "--json"))["scheduler"] == "ok"
    server.answers["/flow_runs/filter"] = [run("notes", -300, state="Late")]
    response = cli("health", "--json")
    assert (response.code, verdicts(response)["scheduler"]) == (0, "warn")
    behind = [run("embed", -4_000, state="Running", state_type="RUNNING"), run("embed", -1_440, state="Late")]
    server.answers["/flow_runs/filter"] = [*behind, run("notes", 90)]
    finding = next(one for one in cli("health", "--json").json["findings"] if one["probe"] == "scheduler")
    assert finding["message"].startswith("on time"), "it waits for the run before it"


def test_a_source_whose_root_is_gone_fails_with_its_remedy(cli: Cli, server: Standin, vault: Path) -> None:
    vault.rename(vault.with_name("unmounted"))
    response = cli("health", "--json")
    assert (response.code, verdicts(response)["source notes"]) == (1, "fail")
    assert "mount" in response.json["findings"][-1]["remedy"]


def test_a_source_that_does_not_answer_does_not_keep_health_from_answering(
    cli: Cli, server: Standin, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Accessing an unreachable network disk blocks.
    hangs = threading.Event()
    monkeypatch.setattr(checks, "_prober", lambda entry: hangs.wait)
    monkeypatch.setattr(checks, "PROBE_SECONDS", 0.05)
    try:
        assert verdicts(cli("health", "--json"))["source notes"] == "fail"
    finally:
        hangs.set()


def test_a_source_that_is_watched_badly_is_a_warning(cli: Cli, server: Standin, filled: Path) -> None:
    file = filled / "sources.yaml"
    file.write_text(re.sub(r"( +)- obsidian\n", r"\1- obsidian\n\1- watch\n", file.read_text()))
    assert verdicts(cli("health", "--json"))["watcher"] == "warn"
    watch_status.write(Home(filled), {"notes": WatchState(Watching.GONE, "folder not found", "mount its disk")})
    response = cli("health", "--json")
    assert verdicts(response)["watcher"] == "ok"
    finding = response.json["findings"][-1]
    shown = (finding["probe"], finding["verdict"], finding["remedy"])
    assert shown == ("source notes", "warn", "mount its disk")


def test_a_damaged_ledger_fails_and_the_rest_is_told(cli: Cli, server: Standin, filled: Path) -> None:
    file = filled / "ledger.db"
    file.write_bytes(file.read_bytes()[:4096] + os.urandom(file.stat().st_size - 4096))
    response = cli("health", "--json")
    assert (response.code, verdicts(response)["ledger"], verdicts(response)["source notes"]) == (1, "fail", "ok")


def test_a_sources_file_that_is_wrong_fails_with_its_line(cli: Cli, server: Standin, filled: Path) -> None:
    (filled / "sources.yaml").write_text("deploments: []\n")
    response = cli("health", "--json")
    assert (response.code, verdicts(response)["sources"]) == (1, "fail")
    assert "line 1" in response.json["findings"][-1]["message"]


def test_the_check_of_the_ledger_is_remembered(cli: Cli, filled: Path) -> None:
    assert cli("ledger", "check").code == 0
    found = probes.LastCheck.read(Home(filled))
    assert found is not None
    assert found.broken == 0


def test_the_artifact_is_made_once_and_then_replaced(server: Standin, filled: Path) -> None:
    state = running(Home(filled))
    assert state is not None
    server.answers |= {"/artifacts/latest/filter": [], "/artifacts/": {}, "/artifacts/seven": {}}
    findings = [Condition("disk", Verdict.WARN, "3 GB | free", "make room")]
    page.publish(Home(filled), state, findings)
    made = [body for _, path, body in server.asked if path == "/artifacts/"]
    assert [body["key"] for body in made] == ["health", "library", "notes-quarantine"]
    assert {body["type"] for body in made} == {"markdown"}
    assert "| disk | warn | 3 GB \\| free | make room |" in made[0]["data"]
    present = [{**body, "latest_id": body["key"]} for body in made]
    killed = {"key": "notes-progress", "latest_id": "eight", "data": 40.0, "description": "notes: done about 12:05"}
    server.answers["/artifacts/latest/filter"] = [
        {**present[0], "data": "", "latest_id": "seven"},
        *present[1:],
        killed,
    ]
    server.answers["/artifacts/eight"] = {}
    server.asked.clear()
    page.publish(Home(filled), state, findings)
    sent = [(method, path) for method, path, _ in server.asked]
    assert sent == [("POST", "/artifacts/latest/filter"), ("PATCH", "/artifacts/seven"), ("PATCH", "/artifacts/eight")]
    assert server.asked[-1][2] == {"description": "notes: ended early"}


def test_names_in_the_health_artifact_are_no_markdown() -> None:
    name = r"*a* _b_ [c](javascript:d) ![e](f) <img src=x> `g` h|i \| &amp; ~~j~~"
    finding = Condition("source x_y", Verdict.FAIL, f"the folder '{name}'\nis not there", "")
    shown = page.of_health([finding], datetime.now(UTC)).data
    assert r"| source x\_y | fail |" in shown
    expected = r"\*a\* \_b\_ \[c\](javascript:d) \!\[e\](f) \<img src=x\> \`g\` h\|i \\\| \&amp; \~\~j\~\~"
    assert f"the folder '{expected}' is not there" in shown


def test_health_artifact_begins_with_the_failing_checks() -> None:
    verdicts = [OK, WARN, OK, FAIL]
    findings = [Condition(f"probe {n}", verdict, "told", "") for n, verdict in enumerate(verdicts)]
    text, description = page.of_health(findings, datetime.now(UTC))
    assert [line[8] for line in text.splitlines() if line.startswith("| probe ") and line[8].isdigit()] == [*"3102"]
    assert description.startswith("Health: 1 fail, 1 warn, 2 ok; last checked ")


def test_the_artifact_names_no_path(cli: Cli, server: Standin, filled: Path, vault: Path) -> None:
    def shown() -> str:
        return page.of_health(checks.examine(Home(filled)), datetime.now(UTC)).data

    well = shown()
    vault.rename(vault.with_name("unmounted"))
    for text in (well, shown()):
        assert os.sep not in text.replace("logs/worker.log", "")


def test_page_is_refreshed_once_and_tells_whether_all_is_well(
    cli: Cli, server: Standin, filled: Path, vault: Path
) -> None:
    shown: list[dict[str, Any]] = []
    health = {"key": "health", "latest_id": "seven", "data": "", "description": ""}
    server.answers |= {"/artifacts/latest/filter": [health], "/artifacts/": {}}
    server.answers["/artifacts/seven"] = lambda body: shown.append(body) or {}
    assert page.main() == 0
    vault.rename(vault.with_name("unmounted"))
    assert page.main() == 1
    assert len(shown) == 2
    report = HealthReport.read(Home(filled))
    assert report is not None and worst(report.findings) is Verdict.FAIL
    assert datetime.now(UTC) - report.at < timedelta(minutes=1)
    assert "Health: 1 check failed " in cli("status").out


def test_check_of_every_few_minutes_notices_a_sink_put_back_from_a_copy(
    cli: Cli, server: Standin, filled: Path, tmp_path: Path
) -> None:
    place, home = tmp_path / "library", Home(filled)

    def delivered() -> str:
        with closing(Ledger.open(home)) as ledger:
            supply.deliver(ledger, "library", sinks.opened, lambda: True, supply.DeliveryCounts())
        return sink()

    def sink() -> str:
        found = cli("health", "--json").json["findings"]
        return str({each["probe"]: each["message"] for each in found}["sink library"])

    with sinks.opened("jsonl", str(place), create=True):
        pass
    with closing(Ledger.open(home)) as ledger:
        ledger.outbox.add("library", "jsonl", str(place), None, "operator:anna")
    shutil.copytree(place, tmp_path / "old")
    assert delivered().startswith("up to date")
    shutil.rmtree(place)
    shutil.copytree(tmp_path / "old", place)
    page._look_at_sinks(home)
    assert sink().startswith("2 documents wait")
    assert delivered().startswith("up to date")
    place.rename(tmp_path / "away")
    page._look_at_sinks(home)
    assert sink().startswith("the folder or its disk is missing; complete ")
    (tmp_path / "away").rename(place)
    page._look_at_sinks(home)
    assert sink().startswith("up to date")
    assert len((place / "0000000.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize("command", ["health", "doctor"])
def test_embeddings_that_are_behind_are_named_with_the_reason(cli: Cli, server: Standin, command: str) -> None:
    ended = run("embed", -60, state="Crashed", state_type="CRASHED")
    ended["state"]["message"] = "The process that makes embeddings failed (signal 9); the next run continues"
    tags: list[str] = []

    def last_run(body: dict[str, Any]) -> list[dict[str, Any]]:
        tag = body.get("deployments", {}).get("tags", {}).get("all_", [""])[0]
        tags.append(tag)
        return [ended] if tag in failing else []

    server.answers |= {"/flow_runs/filter": last_run, "/v2/concurrency_limits/filter": []}
    failing = {"embed"}
    found = {one["probe"]: one for one in cli(command, "--json").json["findings"]}
    assert found["embeddings"]["verdict"] == "warn"
    assert re.fullmatch(
        r"0 of \d+ passages embedded; The process .* failed \(signal 9\)", found["embeddings"]["message"]
    )
    assert found["embeddings"]["remedy"].endswith("catchment model use")
    assert {"embed", "upkeep"} <= set(tags)
    ended |= {"state_type": "RUNNING", "state": {"message": None}}
    found = {one["probe"]: one for one in cli(command, "--json").json["findings"]}
    assert found["embeddings"]["verdict"] == "ok", "a new run works"
    ended |= {"state_type": "CRASHED", "state": {"message": "killed"}}
    failing = {"upkeep"}
    found = {one["probe"]: one for one in cli(command, "--json").json["findings"]}
    assert (found["upkeep"]["verdict"], found["embeddings"]["verdict"]) == ("warn", "ok")


def test_folder_without_consent_is_not_opened(
    cli: Cli, filled: Path, vault: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[SourceEntry] = []
    monkeypatch.setattr(machine, "folders", lambda _home, entries: len(counted.extend(entries) or counted))
    monkeypatch.setattr(checks, "_prober", lambda entry: pytest.fail(f"{entry.name} was read"))
    with closing(Ledger.open(Home(filled))) as ledger:
        ledger.consents.withdraw(ledger.sources.get("notes").id, {WHOLE}, "operator")
    for state in ("deletion of revoked data is incomplete", "consent withdrawn"):
        found = {each["probe"]: each for each in cli("check", "--json").json["findings"]}["source notes"]
        assert (found["verdict"], found["message"].partition(";")[0]) == ("ok", f"no consent ({state})")
        with closing(Ledger.open(Home(filled))) as ledger:
            ledger.purging.end(ledger.sources.get("notes").id, {WHOLE}, "operator")
    assert counted == []


def test_no_source_is_opened_while_its_consent_is_unreadable(cli: Cli, filled: Path) -> None:
    (filled / "ledger.db").write_bytes(b"damaged" * 1_000)
    found = {each["probe"]: each for each in cli("health", "--json").json["findings"]}["source notes"]
    assert found["message"].startswith("no consent (the ledger cannot be read)")


@pytest.fixture
def mail(server: Standin, filled: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], dict[str, Any]]:
    """Return a function that checks a mail account with the given secret reference. It fails if a check contacts the host."""
    monkeypatch.setattr(secret_references, "_READERS", dict(secret_references._READERS))
    monkeypatch.setattr(Imap, "probe", lambda _: pytest.fail("the host was asked"))

    def found(reference: str) -> dict[str, Any]:
        file = SourcesFile.load(filled / "sources.yaml")
        file.add(SourceEntry("mail", "imap", ImapSettings(host="localhost", user="ada", password=reference)))
        file.save()
        assert cli("consent", "give", "mail").code == 0
        return {one["probe"]: one for one in cli("health", "--json").json["findings"]}["source mail"]

    return found


def test_a_secret_in_a_block_is_asked_of_the_server(mail: Callable[[str], dict[str, Any]], server: Standin) -> None:
    server.answers["/block_types/slug/secret/block_documents/name/mail"] = {"data": {"value": "correct horse"}}
    assert (found := mail("block:mail"))["verdict"] == "ok", found


def test_a_block_that_is_not_there_fails(mail: Callable[[str], dict[str, Any]]) -> None:
    found = mail("block:mail")
    assert (found["verdict"], "Secret block mail: not found" in found["message"]) == ("fail", True)


def test_of_a_server_in_trouble_nobody_says_that_a_block_is_not_there(filled: Path, server: Standin) -> None:
    state = running(Home(filled))
    assert state is not None
    server.code = 500
    with pytest.raises(TryAgain, match="status 500"):
        client._read_block(state, "mail")


def test_a_secret_that_is_set_for_the_running_system_alone_is_no_failure(
    mail: Callable[[str], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "running", lambda home: (found := running(home)) and replace(found, pid=1))
    found = mail("env:OF_THE_SYSTEM_ALONE")
    assert (found["verdict"], "login not checked, because OF_THE_SYSTEM_ALONE is not set here" in found["message"]) == (
        "ok",
        True,
    )


def test_a_secret_that_is_not_set_for_the_running_system_fails(mail: Callable[[str], dict[str, Any]]) -> None:
    found = mail("env:OF_NOBODY")
    assert (found["verdict"], "OF_NOBODY: variable not set" in found["message"]) == ("fail", True)
