"""A home that version 0.1 made opens with this version, at any path, with all its data.

`make_home.py` made it and lists its content. The folders of its sources do not exist.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from tests.golden.facts import facts_of
from tests.golden.record import GOLDEN, HOME, Result, differences, run

RECORDED: dict[str, Any] = json.loads((GOLDEN / f"{HOME}.json").read_text(encoding="utf-8"))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The home, migrated by a command that opens the ledger for writing and changes no row."""
    home = tmp_path / "another place"
    with ZipFile(GOLDEN / f"{HOME}.zip") as archive:
        archive.extractall(home)
    _succeed(home, "ledger vacuum")
    return home


@pytest.mark.parametrize("kind", ["rows", "documents", "history", "sources"])
def test_old_home_keeps_its(home: Path, kind: str) -> None:
    assert differences({kind: RECORDED[kind]}, {kind: facts_of(home)[kind]}) == []


def test_old_history_is_chained_by_sha256_of_previous_hash_and_row(home: Path) -> None:
    previous = b""
    for *row, proof in facts_of(home)["history"]:
        compact = json.dumps(row, ensure_ascii=False, separators=(",", ":"))
        previous = hashlib.sha256(previous + compact.encode()).digest()
        assert proof == previous.hex(), row


def test_old_home_passes_deep_ledger_check(home: Path) -> None:
    _succeed(home, "ledger check --deep")
    _succeed(home, "audit verify")
    assert json.loads(_succeed(home, "ledger check --json").out) == {"holds": True, "broken": []}


def test_status_of_old_home_lists_sources_with_their_states(home: Path) -> None:
    sources = json.loads(_succeed(home, "status --json").out)["sources"]
    shown = {source["name"]: (source["state"], source["documents"], source["held_deletions"]) for source in sources}
    assert shown == {
        "archive": ("paused", 20, 15),
        "code": ("active", 2, 0),
        "inbox": ("active", 0, 0),
        "letters": ("active", 0, 0),
        "papers": ("active", 7, 0),
        "vault": ("active", 19, 0),
    }
    assert {source["name"]: source["consent"]["state"] for source in sources}["letters"] == "withdrawn"
    assert {source["name"]: source["rule"] for source in sources}["papers"] is not None


def test_old_home_is_searched_in_several_scripts(home: Path) -> None:
    for words, item in (
        ("excluder", "bees.md"),
        ("поговорка", "People/Павел Сорохтин.md"),
        ("浅原", "People/浅原ゆき.md"),
    ):
        hits = json.loads(_succeed(home, f"search {words} --json").out)
        assert item in [hit["item"] for hit in hits], words


def test_quarantine_of_old_home_keeps_entry_and_note(home: Path) -> None:
    [entry] = json.loads(_succeed(home, "quarantine list --json").out)
    assert (entry["source"], entry["item"], entry["reason"]) == ("papers", "cut.pdf", "parse_error")
    shown = json.loads(_succeed(home, f"quarantine show {entry['job']} --json").out)
    assert any("sent by the scanner" in note for note in shown["notes"])


def test_last_sync_of_old_home_can_be_undone(home: Path) -> None:
    assert json.loads(_succeed(home, "undo 9 --json").out)["actions"] == {"later.md": "take out"}
    assert json.loads(_succeed(home, "search undo --source papers --json").out) == []
    _succeed(home, "ledger check --deep")
    _succeed(home, "audit verify")
    assert facts_of(home)["history"][: len(RECORDED["history"])] == RECORDED["history"]


def test_old_home_has_valid_sources_file_and_changes_states(home: Path) -> None:
    _succeed(home, "config validate")
    for command in (
        "sources resume archive",
        "consent give letters --for 30d",
        "throttle clear papers",
        "quarantine retry --all",
    ):
        _succeed(home, command)
    _succeed(home, "ledger check --deep")
    _succeed(home, "audit verify")


def _succeed(home: Path, command: str) -> Result:
    result = run(home, *command.split())
    assert result.code == 0, result
    return result
