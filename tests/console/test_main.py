"""Help pages, exit codes, one-line errors, and interrupted or closed output."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer

from catchment.errors import (
    BadInput,
    CatchmentError,
    HomeUnavailable,
    LedgerUnavailable,
    LoginFailed,
    NotFound,
    Refused,
    SourceUnavailable,
    TryAgain,
)
from console import session
from console.main import application, main

if TYPE_CHECKING:
    from tests.console.conftest import Cli


def _commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from _commands(inner, (*path, name))


ALL = dict(_commands(typer.main.get_command(application())))


def test_every_command_and_every_option_says_what_it_is_for() -> None:
    for path, command in ALL.items():
        first = (command.help or "").strip().splitlines()[0]
        assert first.endswith(".") or not path
        assert len(first) <= 64 or not path, "the list of commands would cut it off at 80 columns"
        for parameter in command.params:
            assert parameter.help, f"{path}: {parameter.name} has no help"


def test_help_page_has_an_example_that_parses() -> None:
    for path, command in ALL.items():
        if command.hidden and path[-1] != "add":
            continue
        examples = re.findall(r"^ *Examples?: (catchment .+)$", command.help, re.MULTILINE)
        assert examples, path
        for example in examples:
            words = shlex.split(example)[1:]
            assert tuple(words[: len(path)]) == path or command.hidden
            depth = max(len(leaf) for leaf in ALL if leaf == tuple(words[: len(leaf)]))
            ALL[tuple(words[:depth])].make_context("catchment", words[depth:])


def test_lines_of_examples_are_not_wrapped(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    lines = cli("search", "--help").out.splitlines()
    assert "            catchment search 'type:mail from:maria date:\"last month\"'" in lines


def test_help_page_shows_no_type_names() -> None:
    for path, command in ALL.items():
        with command.make_context("catchment", [], resilient_parsing=True) as context:
            page = context.get_help()
        assert re.findall(r"<[a-z ]+>|\{[A-Z]+\}|x[<>]=|\x1b", page) == [], path


def test_commands_are_listed_in_sections(cli: Cli) -> None:
    short, full = (cli(*words).out for words in (("--help",), ("help", "--all")))
    assert re.findall(r"^(\S.*):$", short, re.MULTILINE) == ["Everyday", "Options"]
    everyday = "init up down status web add sync search show why undo help"
    assert re.findall(r"^  ([a-z]\S*)  ", short, re.MULTILINE) == everyday.split()
    sections = re.findall(r"^(\S.*):$", full, re.MULTILINE)
    assert sections == ["Everyday", "Start and stop", "Sources", "Library", "Trouble", "Operate", "Data", "Options"]
    listed = re.findall(r"^  ([a-z]\S*)  ", full, re.MULTILINE)
    assert sorted(listed) == sorted(path[0] for path, command in ALL.items() if len(path) == 1 and not command.hidden)


def test_help_explains_a_command_as_its_own_option_does(cli: Cli) -> None:
    assert cli("help", "throttle", "set").out == cli("throttle", "set", "--help").out
    assert cli("help").out == cli("--help").out
    assert cli("help", "serach").code == 2


def test_replaced_command_works_and_names_the_new_words(cli: Cli, filled: Path) -> None:
    for old, new in (
        ("slo --json", "check --objectives --json"),
        ("throttle pause all", "sources pause all"),
        ("throttle resume local_files", "sources resume local_files"),
        ("queue pause", "sources pause all"),
        ("queue resume", "sources resume all"),
        ("queue retry-failed --dry-run", "quarantine retry --all --dry-run"),
    ):
        before, after = cli(*old.split()), cli(*new.split())
        assert (before.code, before.out) == (after.code, after.out)
        assert before.err.startswith(
            f"catchment {old.partition(' --')[0].removesuffix(' all')}".removesuffix(" local_files")
        )
        assert before.err.splitlines()[1:] == after.err.splitlines()


def test_help_of_add_lists_the_settings_of_a_kind(cli: Cli) -> None:
    page = cli("add", "imap", "--help").out
    assert "security" in page and "Folders to exclude" in page and "--set KEY=VALUE" in page
    assert cli("sources", "add", "obsidian", "me", "-h").out.count("limits.max_mb") == 1
    assert "limits.max_mb" not in cli("add", "--help").out


def test_check_is_health_and_doctor_together(cli: Cli, filled: Path) -> None:
    together, *parts = (cli(command, "--json") for command in ("check", "health", "doctor"))
    probes = [{finding["probe"] for finding in part.json["findings"]} for part in parts]
    assert {finding["probe"] for finding in together.json["findings"]} == probes[0] | probes[1]
    assert together.code == max(part.code for part in parts)


def test_the_commands_are_those_that_are_promised() -> None:
    leaves = {" ".join(path) for path, command in ALL.items() if not hasattr(command, "commands")}
    groups = {
        "sources": "add kinds set list show next move pause resume remove test",
        "jobs": "list show cancel prioritize",
        "quarantine": "list show retry note discard purge stats",
        "deletions": "list apply drop",
        "backfill": "new list show start pause resume cancel retry undo",
        "incidents": "list show ack",
        "consent": "list show give revoke",
        "config": "validate show path",
        "ledger": "check vacuum adopt move",
        "service": "install uninstall status logs",
        "mcp": "install",
        "vault": "report",
        "syncs": "list show",
        "audit": "list verify key export compare erase",
        "queue": "stats pause resume retry-failed run enqueue import",
        "telemetry": "show export",
        "throttle": "show set clear pause resume reset-breaker history",
        "login": "github",
        "sinks": "add list show check pause resume rebuild adopt remove",
        "webhook": "serve",
        "tokens": "add list revoke",
        "connector": "new",
    }
    promised = {f"{group} {name}" for group, names in groups.items() for name in names.split()}
    assert (
        promised
        | {
            "export",
            "up",
            "down",
            "replay",
            "status",
            "web",
            "logs",
            "model",
            "recognition",
            "health",
            "doctor",
            "check",
            "add",
            "help",
            "sync",
            "slo",
            "search",
            "show",
            "open",
            "history",
            "diff",
            "related",
            "why",
            "demo",
            "init",
            "join",
            "leave",
            "hosts",
        }
        | {"backup", "restore", "plan", "undo", "prove"}
        == leaves
    )


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CatchmentError("it broke; mend it"), 1),
        (BadInput("it broke; mend it"), 2),
        (LoginFailed("it broke; mend it"), 3),
        (PermissionError(13, "it broke; mend it"), 3),
        (NotFound("it broke; mend it"), 4),
        (Refused("it broke; mend it"), 5),
        (TryAgain("it broke; mend it"), 10),
        (SourceUnavailable("it broke; mend it"), 10),
        (LedgerUnavailable("it broke; mend it"), 10),
        (HomeUnavailable("it broke; mend it"), 10),
        (OSError(36, "it broke; mend it"), 1),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_an_error_is_one_line_with_the_exit_code_of_its_class(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(session, "running", fail)
    said = cli("status")
    assert (said.code, said.out, said.err) == (code, "", "catchment: it broke; mend it\n")
    debugged = cli("status", "--debug")
    assert debugged.code == code
    assert "Traceback" in debugged.err
    assert debugged.err.endswith("catchment: it broke; mend it\n")


def test_what_is_down_is_said_although_the_address_of_the_ledger_is_none(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise TryAgain("it is down; start it")

    monkeypatch.setattr(session, "running", fail)
    monkeypatch.setenv("CATCHMENT_DATABASE_URL", "no address")
    said = cli("status")
    assert (said.code, said.err) == (10, "catchment: it is down; start it\n")


def test_an_unexpected_error_is_one_line_that_says_how_to_see_more(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ZeroDivisionError("a defect\nof ours \x1b[31m")

    monkeypatch.setattr(session, "running", fail)
    said = cli("status")
    assert said.code == 1
    assert said.err == (
        "catchment: unexpected ZeroDivisionError: a defect of ours; run again with --debug for the traceback\n"
    )


def test_an_unexpected_error_is_one_line_although_the_ledger_cannot_even_be_asked(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise ZeroDivisionError("a defect of ours")

    monkeypatch.setattr(session, "home", fail)
    said = cli("status")
    assert (said.code, said.err.count("\n")) == (1, 1)
    assert said.err.startswith("catchment: unexpected ZeroDivisionError: a defect of ours")


def test_ctrl_c_ends_quietly_with_130(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(session, "running", interrupt)
    said = cli("status")
    assert (said.code, said.out, said.err) == (130, "", "")


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("stauts",), "stauts: no such command (did you mean status?); see `catchment --help`"),
        (("sources", "ad"), "ad: no such command (did you mean add?); see `catchment sources --help`"),
        (("sources",), "Missing command; see `catchment sources --help`"),
        (("search",), "search: no words or filters given; example: catchment search leak tag:water after:2025"),
        (("login", "github"), "--client-id: option missing; see `catchment login github --help`"),
        (
            ("jobs", "list", "--limit", "0"),
            "--limit: 0 is out of range (1 to 1000000); see `catchment jobs list --help`",
        ),
        (("throttle", "set", "all", "--active", "0"), "--active: 0 is out of range (at least 1); see"),
        (("jobs", "list", "--state", "lost"), "--state: 'lost' is unknown; choose from pending, running, retrying,"),
        (("jobs", "show", "seven"), "JOB: 'seven' is not a whole number; see `catchment jobs show --help`"),
        (("add", "imap", "me@host", "--debounce", "x"), "--debounce: 'x' is not a number; see"),
        (("status", "--verbose"), "--verbose: no such option; see `catchment status --help`"),
        (("jobs", "list", "--limit"), "--limit: value missing; see"),
        (("status", "now"), "now: unexpected argument; see `catchment status --help`"),
        (("logs", "nope"), "PROCESS: 'nope' is unknown; choose from server, worker, web; see `catchment logs --help`"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_usage_error_is_one_line_in_our_words(cli: Cli, arguments: tuple[str, ...], hint: str) -> None:
    response = cli(*arguments)
    assert (response.code, response.out, response.err.count("\n")) == (2, "", 1)
    assert response.err.startswith(f"catchment: {hint}") or response.err.endswith(f": {hint}\n")


def test_the_version_is_shown(cli: Cli) -> None:
    assert cli("--version").out.startswith("catchment 0.")


def test_a_reader_that_leaves_ends_the_command_quietly(state: Path) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    done = subprocess.run(
        [sys.executable, "-m", "console", "status"],
        stdout=theirs,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    os.close(theirs)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_full_disk_behind_the_output_is_said(state: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "console", "--version"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stderr) == (10, "catchment: No space left on device; make room and try again\n")


def test_an_interrupt_from_outside_ends_with_130_and_no_traceback(state: Path) -> None:
    script = (
        "import os, signal, sys\n"
        "from console import main, session\n"
        "session.running = lambda: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.exit(main.main(['status']))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (128 + signal.SIGINT, "")


def test_leave_names_what_it_does_not_delete(cli: Cli, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deployments.actions.hosts.leave", lambda *_: False)
    (state / "backups").mkdir(parents=True)
    response = cli("leave")
    assert str(state / "ledger.db") in response.out
    assert str(state / "backups") in response.err


def test_shells_are_offered_completion(process: Cli) -> None:
    said = process(_CATCHMENT_COMPLETE="complete_bash", COMP_WORDS="catchment sour", COMP_CWORD="1")
    assert said.out.split() == ["sources"]


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("search ti", "title:"),
        ("search ta", "tag:bees tag:spring"),
        ("search tag:be", "tag:bees"),
        ("search tag : be", "bees"),
        ("search in :", "bees"),
        ("search --tag sp", "spring"),
        ("search source:no", "source:notes"),
        ("search type:pd", "type:pdf"),
        ("show hi", "Hive Hive.md"),
        ("open Bees/S", "Bees/Swarm.md"),
        ("sources pause n", "notes"),
        ("sync", "sync syncs"),
    ],
)
def test_shells_complete_names_and_filters(filled: Path, process: Cli, typed: str, offered: str) -> None:
    words = f"catchment {typed}"
    script = (
        "import atexit, sys\n"
        "from console.main import main\n"
        "atexit.register(lambda: print(sorted({'prefect', 'pydantic'} & set(sys.modules)), file=sys.stderr))\n"
        "main([])\n"
    )
    typed_words = {"COMP_WORDS": words.replace(" ", "\n"), "COMP_CWORD": str(words.count(" "))}
    said = process(script=script, _CATCHMENT_COMPLETE="complete_bash", **typed_words)
    assert (said.out.split(), said.err.splitlines()[-1]) == (offered.split(), "[]")


def test_main_never_raises_whatever_it_is_given(cli: Cli) -> None:
    for words in ("\x00", "--\udcff", "-" * 999, "=", "''"):
        assert main([words]) == 2


@pytest.mark.parametrize(
    ("closed", "words", "code"),
    [(0, "sources remove notes", 2), (1, "status", 0), (2, "show nothing-is-called-so", 4)],
)
def test_who_closed_the_input_or_an_output_changes_nothing_else(
    filled: Path, closed: int, words: str, code: int
) -> None:
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" -m console {words} {closed}>&-', sys.executable],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, "unexpected" in done.stderr, done.stderr.count("\n")) == (code, False, int(closed == 0))


def test_an_error_that_nobody_takes_changes_no_exit_code(filled: Path) -> None:
    with Path("/dev/full").open("w") as full:
        words = [sys.executable, "-m", "console", "show", "nothing-is-called-so"]
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=full, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (4, b"")


@pytest.mark.parametrize(
    "words",
    [
        ("search", "caf\udce9"),
        ("show", "caf\udce9"),
        ("sources", "pause", "caf\udce9"),
        ("sources", "pause", "notes", "--reason", "\udce9"),
        ("quarantine", "note", "1", "\udce9"),
        ("deletions", "list", "\udce9"),
    ],
    ids=" ".join,
)
def test_what_is_no_text_is_refused_in_plain_words(filled: Path, cli: Cli, words: tuple[str, ...]) -> None:
    said = cli(*words)
    assert said.code in (0, 2, 4)
    assert ("unexpected" in said.err, said.err.count("\n")) == (False, 1)


@pytest.mark.parametrize("home", ["~nobody-is-called-so/x"])
def test_a_home_of_nobody_is_refused_in_one_line(home: str, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CATCHMENT_HOME", home)
    said = cli("status")
    assert (said.code, said.err.count("\n"), "set CATCHMENT_HOME" in said.err) == (2, 1, True)


def test_an_address_of_the_ledger_that_is_none_is_refused_in_one_line(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    for address in ("postgresql://localhost:port/ledger", "nothing"):
        monkeypatch.setenv("CATCHMENT_DATABASE_URL", address)
        for words in (("status",), ("config", "show")):
            said = cli(*words)
            assert (said.code, said.err.count("\n")) == (2, 1), said
            assert "use sqlite:////" in said.err or "write postgresql://" in said.err, said


def test_folder_that_a_command_runs_in_is_no_place_for_modules(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "weir.md").write_text("# Weir\n\nHigh water.\n")
    for name in ("catchment", "multiprocessing", "pickle"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    command = [
        str(Path(sys.executable).with_name("catchment")),
        "add",
        "local_files",
        "notes",
        "--name",
        "n",
        "--dry-run",
    ]
    environment = {**os.environ, "CATCHMENT_HOME": str(tmp_path / "home")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert "High water." in done.stdout
    assert not (tmp_path / "ran").exists()
