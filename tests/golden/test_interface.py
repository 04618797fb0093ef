"""Commands, options, exit codes and `--json` shapes, on which scripts rely, are as recorded.

A test that fails names each difference. After a change on purpose: `python -m tests.golden`, and read the diff.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tests.golden.messages import MESSAGES, collect
from tests.golden.record import CALLS, COMMANDS, SHAPES, commands, differences, run, shape_of_output

RENEW = "if this was on purpose, run: python -m tests.golden"
EXIT_CODES = {
    "": 0,
    "-h": 0,
    "sources add --help": 0,
    "--version": 0,
    "status": 0,
    "search excluder": 0,
    "search nowheretobefound": 0,
    "show 21": 0,
    "why nowhere.md": 0,
    "config validate": 0,
    "ledger check": 0,
    "undo 9 --dry-run": 0,
    "down": 0,
    "health": 1,
    "vault report vault": 1,
    "prove live": 1,
    "nonsense": 2,
    "search": 2,
    "search excluder --limit 0": 2,
    "jobs list --state nope": 2,
    "jobs list --since yesterday": 2,
    "sources add nope /srv/example --name new": 2,
    "sources add local_files {folder}/none --name new": 2,
    "sources add local_files {folder}/live --name live": 2,
    "sources add local_files {folder}/live --name 'Bad Name'": 2,
    "sources add local_files {folder}/live --name new --set nope=1": 2,
    "sources remove vault": 2,
    "consent revoke vault": 2,
    "quarantine retry": 2,
    "throttle set papers --at-once 0": 2,
    "vault report papers": 2,
    "login github": 2,
    "webhook serve --secret env:CATCHMENT_NO_SUCH_VARIABLE": 3,
    "sources show nope": 4,
    "sync nope": 4,
    "search excluder --source nope": 4,
    "show 999999": 4,
    "jobs show 999999": 4,
    "quarantine show 999999": 4,
    "undo 999999": 4,
    "restore {folder}/none.db": 4,
    "consent revoke vault --scope nope": 4,
    "throttle reset-breaker nope": 4,
    "deletions apply vault": 4,
    "sources test letters": 5,
    "sync letters": 5,
    "sync archive": 5,
    "sources test papers": 10,
    "plan papers": 10,
    "sync vault": 10,
    "sources next vault": 10,
}
"""On the home of version 0.1, without a server and a terminal: `letters` has no consent, `archive` is paused."""


def test_commands_and_options_are_as_recorded() -> None:
    _assert_same(json.loads(COMMANDS.read_text(encoding="utf-8")), commands())


def test_messages_are_as_recorded() -> None:
    """The file is read as a whole before a release; a difference needs a look, not a reason."""
    if collect() != MESSAGES.read_text(encoding="utf-8"):
        pytest.fail("texts changed; run: python -m tests.golden.messages, and read the diff", pytrace=False)


@pytest.mark.parametrize("call", EXIT_CODES)
def test_exit_code_is_as_recorded(folder: Path, call: str) -> None:
    result = run(folder / "home", *shlex.split(call.format(folder=folder)))
    assert result.code == EXIT_CODES[call], result
    assert "unexpected" not in result.err, result


@pytest.mark.parametrize("call", CALLS)
def test_json_shape_is_as_recorded(folder: Path, call: str) -> None:
    recorded = json.loads(SHAPES.read_text(encoding="utf-8"))
    assert sorted(recorded) == sorted(CALLS)
    _assert_same({call: recorded[call]}, {call: shape_of_output(folder, call)})


def _assert_same(recorded: object, live: object) -> None:
    if changes := differences(recorded, live):
        pytest.fail("\n".join([*changes, RENEW]), pytrace=False)
