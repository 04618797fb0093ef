"""The safety of a library, end to end: plans, undo, proof, backup and restore, and auto-retry of quarantined items."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.person import Person, upright
from tests.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.long]


@pytest.fixture(scope="module")
def keeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Person, Path]]:
    """A user with a running system and synced papers, and the folder of papers."""
    base = tmp_path_factory.mktemp("keeper")
    folder = base / "papers"
    folder.mkdir()
    for n in range(12):
        (folder / f"{n}.md").write_text(f"# Paper {n}\n\nWhat paper {n} says.\n")
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4 cut")
    person = Person(base / "home")
    with upright(person):
        person("add", "local_files", folder, "--name", "papers").ok()
        person.sync("papers")
        yield person, folder
    assert person.left() == []


def said_by(person: Person, item: str) -> str:
    """Return the library's text of an item."""
    shown = person("show", item, "--json")
    return str(shown.json["text"]) if shown.code == 0 else ""


def last_sync(person: Person) -> int:
    return int(person("sources", "show", "papers", "--json").ok().json["syncs"][0]["id"])


def test_a_sync_follows_its_plan_and_is_undone(keeper: tuple[Person, Path], tmp_path: Path) -> None:
    person, folder = keeper
    (folder / "new.md").write_text("New\n")
    (folder / "1.md").write_text("Changed\n")
    (folder / "2.md").unlink()
    (folder / "3.md").rename(folder / "third.md")
    told = person("plan", "papers", "--json", "--out", tmp_path / "plan").ok().json
    deeds = {step["item"]: step["action"] for step in told["steps"]}
    assert deeds == {"1.md": "change", "2.md": "delete", "new.md": "add", "third.md": "move"}
    (folder / "later.md").write_text("Later\n")
    summary = person("sync", "papers", "--plan", tmp_path / "plan", "--wait", "--json").ok().json["summary"]
    figures = {what: summary[what] for what in ("succeeded", "deleted", "moved", "left")}
    assert figures == {"succeeded": 2, "deleted": 1, "moved": 1, "left": 1}
    assert said_by(person, "later.md") == ""
    done = person("undo", str(last_sync(person)), "--json").ok().json
    assert done["actions"] == {
        "1.md": "set back",
        "2.md": "bring back",
        "3.md": "bring back",
        "new.md": "take out",
        "third.md": "take out",
    }
    assert "What paper 2 says" in said_by(person, "2.md")
    assert person.sync("papers")["succeeded"] == 1, "what came later, and nothing that was undone"
    assert "What paper 1 says" in said_by(person, "1.md")
    assert said_by(person, "new.md") == ""
    (folder / "1.md").write_text("Changed once more\n")
    assert person.sync("papers")["succeeded"] == 1
    assert "once more" in said_by(person, "1.md")


def test_library_is_proved_and_repaired_while_the_system_runs(keeper: tuple[Person, Path]) -> None:
    person, folder = keeper
    person.sync("papers")
    assert person("prove", "papers", "--json").ok().json["holds"]
    (folder / "4.md").write_text("Not synced yet\n")
    assert person("prove", "papers").code == 1
    person("prove", "papers", "--repair").ok()
    proved = until(lambda: person("prove", "papers", "--json"), lambda said: said.code == 0)
    assert proved.json["findings"] == []
    assert said_by(person, "4.md").strip() == "Not synced yet"


def test_backup_made_during_syncs_restores_a_damaged_ledger(keeper: tuple[Person, Path], tmp_path: Path) -> None:
    person, folder = keeper
    for n in range(200):
        (folder / f"more {n}.md").write_text(f"One of many papers: {n}\n")
    person("sync", "papers").ok()
    told = person("backup", tmp_path / "kept.db", "--json").ok().json
    assert (told["broken"], (tmp_path / "kept.db").stat().st_mode & 0o777) == ([], 0o600)
    person.sync("papers")
    person("restore", tmp_path / "kept.db").refused(5, "catchment down")
    person("down").ok()
    ledger = person.home / "ledger.db"
    ledger.write_bytes(ledger.read_bytes()[: 8192 * 3])
    person("up", "--detach").refused(1, "catchment restore FILE")
    aside = Path(person("restore", tmp_path / "kept.db", "--json").ok().json["aside"])
    assert (aside / "ledger.db").stat().st_size == 8192 * 3
    person("ledger", "check", "--deep").ok()
    person("up", "--detach").ok()
    person.sync_when_ready("papers")
    assert person("prove", "papers", "--json").ok().json["holds"]
    person("ledger", "check", "--deep").ok()


def test_changed_setting_retries_quarantined_items(keeper: tuple[Person, Path]) -> None:
    person, _ = keeper
    [entry] = person("quarantine", "list", "--json").ok().json
    person.sync("papers")
    assert person("quarantine", "show", str(entry["job"]), "--json").ok().json["attempts"] == entry["attempts"]
    file = person.home / "sources.yaml"
    text = file.read_text()
    file.write_text(text.replace("settings:", "settings:\n        hidden: true", 1))
    assert "hidden" in json.dumps(person("config", "show", "--json").ok().json)
    person("down").ok()
    person("up", "--detach").ok()
    person.sync_when_ready("papers")
    tried = person("quarantine", "show", str(entry["job"]), "--json").ok().json["attempts"]
    assert tried == entry["attempts"] + 1
