"""File operations between two syncs and their effect on documents."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.acceptance.person import Person

pytestmark = pytest.mark.acceptance

_NOTES = {
    "stays.md": "# Stays\n\nThe mooring stays, see [[old name]].\n",
    "old name.md": "# A name\n\nThe lantern burns.\n",
    "Harbour/pier.md": "# Pier\n\nThe pier is long.\n",
    "Harbour/Boats/ketch.md": "# Ketch\n\nThe ketch has two masts.\n",
    "Case.md": "# Case\n\nThe barometer falls.\n",
    "saved.md": "# Saved\n\nThe anchor is copper.\n",
    "kept.md": "# Kept\n\nThe compass points north.\n",
    "gone.md": "# Gone\n\nThe dinghy drifts.\n",
}


@dataclass(frozen=True)
class Rounds:
    """The documents at first, after all file operations and after one file returned, and the counts of the second sync."""

    person: Person
    root: Path
    before: dict[str, int]
    after: dict[str, int]
    again: dict[str, int]
    second: dict[str, int]


@pytest.fixture(scope="module")
def rounds(person: Person, tmp_path_factory: pytest.TempPathFactory) -> Rounds:
    root = tmp_path_factory.mktemp("identity") / "vault"
    (root / ".obsidian").mkdir(parents=True)
    for name, text in _NOTES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    person("add", "obsidian", root, "--name", "identity").ok()
    person.sync("identity")
    before = person.documents("identity")
    _change(root)
    second = person.sync("identity")
    after = person.documents("identity")
    (root / "gone.md").write_text(_NOTES["gone.md"])
    person.sync("identity")
    return Rounds(person, root, before, after, person.documents("identity"), second)


def _change(root: Path) -> None:
    (root / "old name.md").rename(root / "new name.md")
    (root / "Harbour").rename(root / "Port")
    (root / "Case.md").rename(root / "case.md")
    beside = root / ".saved.md.tmp"
    beside.write_text("# Saved\n\nThe anchor is bronze now.\n")
    beside.replace(root / "saved.md")
    kept = root / "kept.md"
    times = kept.stat()
    kept.write_text(_NOTES["kept.md"].replace("north", "south"))
    os.utime(kept, ns=(times.st_atime_ns, times.st_mtime_ns))
    (root / "gone.md").unlink()
    old = root / "old.md"
    old.write_text("# Old\n\nThe sextant is from 1901.\n")
    os.utime(old, (0, 0))


def found(rounds: Rounds, words: str) -> list[str]:
    return [hit["item"] for hit in rounds.person.hits(words, "identity")]


def test_first_sync_ingests_all_files(rounds: Rounds) -> None:
    assert rounds.before.keys() == _NOTES.keys()


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ("old name.md", "new name.md", "lantern"),
        ("Harbour/pier.md", "Port/pier.md", "pier"),
        ("Harbour/Boats/ketch.md", "Port/Boats/ketch.md", "masts"),
        ("Case.md", "case.md", "barometer"),
    ],
)
def test_renamed_file_keeps_its_document_and_history(rounds: Rounds, old: str, new: str, word: str) -> None:
    assert old not in rounds.after
    assert rounds.after[new] == rounds.before[old]
    assert found(rounds, word) == [new]
    (told,) = rounds.person("why", rounds.root / new, "--json").ok().json["items"]
    assert "moved" in [event["event"] for event in told["history"]]


def test_moves_need_no_read_and_no_parsing(rounds: Rounds) -> None:
    assert rounds.second["moved"] == 4
    assert (rounds.second["jobs"], rounds.second["parsed"]) == (3, 3)


def test_an_atomic_save_is_an_edit_of_the_same_document(rounds: Rounds) -> None:
    assert rounds.after["saved.md"] == rounds.before["saved.md"]
    assert found(rounds, "bronze") == ["saved.md"]
    assert found(rounds, "copper") == []


def test_edit_with_same_size_and_time_is_detected(rounds: Rounds) -> None:
    assert rounds.after["kept.md"] == rounds.before["kept.md"]
    assert found(rounds, "south") == ["kept.md"]
    assert found(rounds, "north") == []


def test_a_file_with_an_old_time_is_found_at_once(rounds: Rounds) -> None:
    assert found(rounds, "sextant") == ["old.md"]


def test_untouched_files_are_unchanged(rounds: Rounds) -> None:
    assert rounds.after["stays.md"] == rounds.before["stays.md"]


def test_deleted_file_leaves_the_library_and_can_return(rounds: Rounds) -> None:
    assert rounds.second["deleted"] == 1
    assert "gone.md" not in rounds.after
    assert "gone.md" in rounds.again
    assert found(rounds, "dinghy") == ["gone.md"]


def test_ledger_is_sound_after_all_file_operations(rounds: Rounds) -> None:
    rounds.person("ledger", "check", "--deep").ok()


def test_emptied_root_deletes_no_documents_without_approval(person: Person, tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "vault", tmp_path / "elsewhere"
    (root / ".obsidian").mkdir(parents=True)
    elsewhere.mkdir()
    for number in range(12):
        (root / f"note {number}.md").write_text(f"# Note {number}\n\nTidewater {number}.\n")
    person("add", "obsidian", root, "--name", "emptied").ok()
    person.sync("emptied")
    documents = person.documents("emptied")

    def move(source: Path, target: Path) -> None:
        for note in source.glob("*.md"):
            note.rename(target / note.name)

    move(root, elsewhere)
    assert person.sync("emptied")["held"] == 12
    assert person.source("emptied")["documents"] == 12
    assert person.source("emptied")["held_deletions"] == 12
    assert "12 deletions wait for a decision" in person("status").ok().out
    assert "catchment deletions list emptied" in person("why", root / "note 3.md").ok().out
    (hold,) = person("deletions", "list", "emptied", "--json").ok().json
    assert hold["count"] == 12

    person("deletions", "drop", "emptied").ok()
    assert person("deletions", "list", "emptied", "--json").ok().json == []
    move(elsewhere, root)
    back = person.sync("emptied")
    assert (back["held"], back["deleted"], back["parsed"]) == (0, 0, 0)
    assert person.documents("emptied") == documents

    move(root, elsewhere)
    assert person.sync("emptied")["held"] == 12
    person("deletions", "apply", "emptied", "--reason", "moved out").ok()
    assert person.source("emptied")["documents"] == 0
    assert person.hits("Tidewater") == []
    person("ledger", "check", "--deep").ok()


def test_missing_root_deletes_no_documents_and_pauses_the_source(person: Person, tmp_path: Path) -> None:
    root = tmp_path / "disk"
    root.mkdir()
    (root / "log.md").write_text("# Log\n\nThe windlass creaks.\n")
    person("add", "local_files", root, "--name", "unmounted").ok()
    person.sync("unmounted")
    root.rename(tmp_path / "not mounted")
    person("sync", "unmounted", "--wait")
    said = person("sync", "unmounted", "--wait")
    while said.code == 1:
        said = person("sync", "unmounted", "--wait")
    assert said.code == 10
    assert person.source("unmounted")["state"] == "held"
    assert person.source("unmounted")["documents"] == 1
    person("sync", "unmounted").refused(10, "held", "catchment sources resume unmounted")
    (tmp_path / "not mounted").rename(root)
    person("sources", "resume", "unmounted").ok()
    assert person.sync("unmounted")["deleted"] == 0
    assert person.source("unmounted")["state"] == "active"
