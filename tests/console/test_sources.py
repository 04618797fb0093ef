"""`catchment sources`, `sync` and `config`: checks before anything is written, and refusals."""

from __future__ import annotations

import os
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from catchment.ledger.items.consents import Consents
from catchment.ledger.items.purge import Purging
from catchment.runtime.home import Home
from deployments.actions import sources
from deployments.server.running import Running, record, supervisor_lock
from deployments.sources.sources_file import SourcesFile

if TYPE_CHECKING:
    from pathlib import Path

    from tests.console.conftest import Cli


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "papers"
    made.mkdir()
    (made / "a.txt").write_text("text")
    return made


def test_an_added_source_is_written_down_and_known(cli: Cli, state: Path, folder: Path) -> None:
    said = cli(
        *("add", "local_files", str(folder), "--name", "papers", "--every", "15m", "--priority", "high"),
        *("--watch", "--set", "limits.max_mb=20", "--set", "exclude=*.log", "--set", "include=[*.txt, docs/**]"),
    )
    assert said.code == 0, said
    assert "papers: folder with 1 entry" in said.out
    assert "`catchment up --detach`" in said.out
    (listed,) = cli("sources", "list", "--json").json
    facts = {name: listed["standing"][name] for name in ("name", "kind", "state", "on")}
    assert facts == {"name": "papers", "kind": "local_files", "state": "active", "on": None}
    assert cli("sources", "list").out.splitlines()[1].split() == [
        *("papers", "local_files", "active", "high", "every", "15", "min,", "on", "change")
    ]
    shown = cli("sources", "show", "papers", "--json").json
    assert (shown["schedule"], shown["settings"]["priority"]) == ("every 15 min, on change", "high")
    assert shown["settings"]["limits"]["max_mb"] == 20
    assert (shown["settings"]["exclude"], shown["settings"]["include"]) == (["*.log"], ["*.txt", "docs/**"])
    assert (shown["syncs"], shown["line"]["standing"]["next_run"]) == ([], None)
    assert "limits.max_mb" in cli("sources", "show", "papers").out
    assert [source["name"] for source in cli("status", "--json").json["sources"]] == ["papers"]
    assert cli("config", "validate").out == "sources.yaml: valid, 1 source\n"


def test_a_priority_may_be_set_like_any_other_setting(cli: Cli, state: Path, folder: Path) -> None:
    cli("add", "local_files", str(folder), "--name", "papers", "--set", "priority=high")
    assert cli("sources", "show", "papers", "--json").json["settings"]["priority"] == "high"


def test_catchments_own_state_is_no_source(cli: Cli, state: Path) -> None:
    (state / "logs").mkdir(parents=True)
    for own in (state, state / "logs"):
        result = cli("add", "local_files", str(own), "--name", "papers")
        assert (result.code, result.err.count("\n")) == (2, 1)
        assert "own state" in result.err
    assert cli("sources", "list", "--json").json == []


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        ({"kind": "local-files"}, 2, "did you mean local_files"),
        ({"kind": "obsidian"}, 2, "open it once in Obsidian, or add it as local_files"),
        ({"location": "/no/such/folder"}, 2, "not found"),
        ({"location": ""}, 2, "LOCATION: empty"),
        ({"options": ["--watch", "--debounce", "nan"]}, 2, "0 to 120"),
        ({"name": "Größe"}, 2, "'Größe': invalid name; use lower-case letters"),
        ({"options": ["--every", "often"]}, 2, "15m"),
        ({"options": ["--every", "15m", "--cron", "0 7 * * *"]}, 2, "one of"),
        ({"options": ["--cron", "0 25 * * *"]}, 2, "hour"),
        ({"options": ["--set", "exclud=x"]}, 2, "did you mean exclude"),
        ({"options": ["--set", "limits.max_mb=lots"]}, 2, "limits.max_mb"),
        ({"options": ["--set", "root=/"]}, 2, "given by LOCATION"),
        ({"options": ["--secret", "password=hunter2"]}, 2, "not a secret reference"),
        ({"options": ["--secret", "password=env:MAIL"]}, 2, "password: unknown setting"),
        ({"options": ["--priority", "urgent"]}, 2, "priority"),
    ],
    ids=lambda value: str(next(iter(value.values()))) if isinstance(value, dict) else "",
)
def test_a_source_that_cannot_be_is_refused_and_nothing_is_written(
    cli: Cli, state: Path, folder: Path, change: dict[str, Any], code: int, said: str
) -> None:
    given = {"kind": "local_files", "location": str(folder), "name": "papers", "options": [], **change}
    result = cli("add", given["kind"], given["location"], "--name", given["name"], *given["options"])
    assert (result.code, result.out) == (code, "")
    assert said in result.err
    assert result.err.count("\n") == 1
    assert not (state / "sources.yaml").exists()
    assert cli("sources", "list", "--json").json == []


def test_a_server_that_does_not_answer_leaves_nothing_half_added(cli: Cli, state: Path, folder: Path) -> None:
    home = Home(state).make()
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        with supervisor_lock(home):
            record(home, Running(port, os.getpid(), datetime.now(UTC), 0, 0, ""))
            said = cli("add", "local_files", str(folder), "--name", "papers")
    assert (said.code, said.out, said.err.count("\n")) == (10, "", 1)
    assert cli("sources", "list", "--json").json == []
    assert cli("status", "--json").json["sources"] == []


def test_killed_add_is_completed_by_the_same_command(
    cli: Cli, state: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = (
        "sources",
        "add",
        "local_files",
        str(folder),
        "--name",
        "papers",
        "--every",
        "15m",
        "--set",
        "exclude=*.log",
    )

    def killed(*_: object) -> None:
        os._exit(9)

    if (pid := os.fork()) == 0:
        monkeypatch.setattr(Consents, "give", killed)
        cli(*typed)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    assert cli("consent", "show", "papers", "--json").json["scopes"][0]["consent"] is None

    other = cli(*typed[:-1], "exclude=*.txt")
    assert (other.code, "choose another name, or remove that source first" in other.err) == (2, True)

    assert cli(*typed).code == 0
    assert cli("consent", "show", "papers", "--json").json["scopes"][0]["consent"]["state"] == "given"
    assert [source["standing"]["name"] for source in cli("sources", "list", "--json").json] == ["papers"]
    assert cli(*typed).code == 2


def test_a_name_that_is_taken_is_refused_and_the_first_one_stays(cli: Cli, state: Path, folder: Path) -> None:
    add = ("add", "local_files", str(folder), "--name", "papers")
    assert cli(*add).code == 0
    before = (state / "sources.yaml").read_bytes()
    again = cli(*add, "--every", "1h")
    assert again.code == 2
    assert "'papers': already exists" in again.err
    assert (state / "sources.yaml").read_bytes() == before


@pytest.mark.parametrize(
    "words",
    [
        ("add", "local_files", ".", "--name", "papers"),
        ("sources", "remove", "notes", "--yes"),
        ("sources", "list"),
        ("config", "validate"),
    ],
    ids=" ".join,
)
def test_a_file_of_a_newer_version_is_refused_in_one_line_and_changed_by_no_command(
    filled: Path, cli: Cli, words: tuple[str, ...]
) -> None:
    file = filled / "sources.yaml"
    file.write_text(file.read_text().replace("version: 2", "version: 3"))
    before = file.read_bytes()
    said = cli(*words)
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert "the file has version 3" in said.err and "install a newer Catchment" in said.err
    assert file.read_bytes() == before
    assert list(filled.glob("sources.yaml?*")) == []


def test_a_pause_lasts_until_it_is_resumed(filled: Path, cli: Cli) -> None:
    assert cli("sources", "pause", "notes", "--reason", "moving house").code == 0
    [source] = cli("status", "--json").json["sources"]
    assert (source["state"], source["waits"][0]["why"]) == ("paused", "moving house")
    refused = cli("sync", "notes")
    assert (refused.code, "paused (moving house)" in refused.err) == (5, True)
    assert cli("sources", "resume", "notes").code == 0
    assert cli("sources", "list", "--json").json[0]["standing"]["state"] == "active"


def test_a_removed_source_leaves_the_file_and_the_library(filled: Path, cli: Cli) -> None:
    (filled / "plans").mkdir()
    plan = filled / "plans" / "notes.json"
    plan.write_text('{"source": "notes"}')
    other = filled / "plans" / "other.json"
    other.write_text('{"source": "other"}')
    assert cli("sources", "remove", "notes").code == 2, "nobody is there to ask"
    assert len(cli("search", "hive", "--json").json) == 2
    assert cli("sources", "remove", "notes", "--yes").out == "removed notes\n"
    assert cli("search", "hive", "--json").json == []
    assert cli("sources", "list", "--json").json == []
    assert (plan.exists(), other.exists()) == (False, True)
    assert cli("sources", "remove", "notes", "--yes").code == 4


def test_a_source_can_be_tested_at_any_time(filled: Path, vault: Path, cli: Cli) -> None:
    assert "Obsidian vault" in cli("sources", "test", "notes").out
    vault.rename(vault.with_name("Elsewhere"))
    said = cli("sources", "test", "notes")
    assert (said.code, said.err.count("\n")) == (10, 1)


def test_a_name_that_is_close_is_suggested(filled: Path, cli: Cli) -> None:
    for command in (("sources", "show"), ("sources", "pause"), ("sources", "test"), ("sync",), ("vault", "report")):
        said = cli(*command, "nots")
        assert (said.code, "did you mean notes?" in said.err) == (4, True), said
        other = cli(*command, "nope")
        assert (other.code, "see `catchment sources list`" in other.err) == (4, True), other


def test_a_sync_without_a_server_says_how_to_start_one(filled: Path, cli: Cli) -> None:
    said = cli("sync", "notes", "--wait")
    assert said.code == 10
    assert said.err == "catchment: not running; start Catchment with `catchment up --detach`\n"


def test_an_unknown_key_is_told_with_its_line_and_what_was_meant(filled: Path, cli: Cli) -> None:
    file = filled / "sources.yaml"
    lines = file.read_text().splitlines()
    number = next(index for index, line in enumerate(lines) if "parameters:" in line)
    file.write_text("\n".join(lines).replace("parameters:", "paramters:") + "\n")
    for command in (("config", "validate"), ("sources", "list"), ("sync", "notes")):
        said = cli(*command)
        assert said.code == 2
        assert f"line {number + 1}" in said.err
        assert "parameters" in said.err
        assert said.err.count("\n") == 1


def test_the_configuration_shows_no_password(filled: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CATCHMENT_DATABASE_URL", "postgresql://me:hunter2@localhost/ledger")
    for arguments in ((), ("--json",)):
        out = cli("config", "show", *arguments).out
        assert "hunter2" not in out
        assert "postgresql://me:…@localhost/ledger" in out
    assert cli("config", "path").out == f"{filled}/sources.yaml\n"


def test_stopping_when_nothing_runs_is_no_error(cli: Cli) -> None:
    assert cli("down").out == "Catchment was not running\n"


def test_a_watched_source_may_have_a_quiet_of_its_own_and_another_may_not(cli: Cli, state: Path, folder: Path) -> None:
    given = ("add", "local_files", str(folder), "--name", "papers", "--debounce")
    assert "--watch" in cli(*given, "5").err
    assert cli(*given, "121", "--watch").code == 2
    assert cli(*given, "5", "--watch").code == 0
    assert cli("sources", "show", "papers", "--json").json["schedule"] == "every 15 min, 5 s after a change"
    assert "watch:5s" in (state / "sources.yaml").read_text()


@pytest.mark.full
def test_two_who_add_a_source_at_once_have_both_added(state: Path, folder: Path, process: Cli) -> None:
    # Delay the write after the read.
    script = (
        "import sys, time\n"
        "from deployments.sources.sources_file import SourcesFile\n"
        "add = SourcesFile.add\n"
        "def slow(*given):\n"
        "    time.sleep(1)\n"
        "    add(*given)\n"
        "SourcesFile.add = slow\n"
        "from console.main import main\n"
        "sys.exit(main())\n"
    )
    Home(state).make()
    names = ("one", "two")
    with ThreadPoolExecutor() as both:
        said = both.map(lambda name: process("add", "local_files", str(folder), "--name", name, script=script), names)
    assert [one.code for one in said] == [0, 0]
    assert sorted(entry.name for entry in SourcesFile.load(state / "sources.yaml").entries) == ["one", "two"]


def test_source_that_cannot_be_deployed_leaves_the_edits_of_others(cli: Cli, filled: Path, folder: Path) -> None:
    file = filled / "sources.yaml"

    def edit_and_hang_up() -> None:
        connection, _ = server.accept()
        # No further connection waits until its timeout.
        server.close()
        file.write_text(f"{file.read_text()}# mine\n")
        connection.close()

    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
        edited = pool.submit(edit_and_hang_up)
        with supervisor_lock(Home(filled)):
            server.settimeout(10)
            record(Home(filled), Running(server.getsockname()[1], os.getpid(), datetime.now(UTC), 0, 0, ""))
            result = cli("add", "local_files", str(folder), "--name", "papers")
        edited.result()
    assert (result.code, result.err.count("\n")) == (10, 1), result
    assert [entry.name for entry in SourcesFile.load(file).entries] == ["notes"]
    assert file.read_text().endswith("# mine\n")


def test_a_removal_that_was_broken_off_is_finished_by_another(
    cli: Cli, filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = Home(filled).copies("notes") / "pack"
    copy.parent.mkdir(parents=True)
    copy.touch()
    with monkeypatch.context() as patch:
        patch.setattr(sources, "forget_files", lambda *_: os.kill(os.getpid(), signal.SIGINT))
        assert cli("sources", "remove", "notes", "--yes").code == 130
    assert cli("sources", "remove", "notes", "--yes").code == 0
    assert not copy.exists()
    assert cli("sources", "remove", "notes", "--yes").code == 4


def test_a_source_is_not_added_before_its_removal_is_done(
    cli: Cli, filled: Path, vault: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = ("add", "obsidian", str(vault), "--name", "notes")
    with monkeypatch.context() as patch:
        patch.setattr(Purging, "items", lambda *_: os.kill(os.getpid(), signal.SIGINT))
        assert cli("sources", "remove", "notes", "--yes").code == 130
    said = cli(*add)
    assert (said.code, said.err.count("\n"), "`catchment sources remove notes`" in said.err) == (5, 1, True)
    assert cli("sources", "remove", "notes", "--yes").code == 0
    assert cli(*add).code == 0
    assert cli("sources", "show", "notes", "--json").json["line"]["standing"]["state"] == "active"


@pytest.mark.parametrize("secret", ["hunter2", "hunter/2", "hunter?2", "hunter#2", "hunter%402", "[hunter2"])
def test_no_password_is_shown_however_it_is_written(
    filled: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    for address in (f"postgresql://me:{secret}@localhost/ledger", "postgresql://localhost/ledger?password=hunter2"):
        monkeypatch.setenv("CATCHMENT_DATABASE_URL", address)
        said = cli("config", "show")
        assert (said.code, "hunter" in said.out, "localhost/ledger" in said.out) == (0, False, True), said
