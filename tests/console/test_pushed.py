"""Sources of the kind `pushed` on the command line, without a running system."""

from __future__ import annotations

from pathlib import Path

import pytest

from catchment.content import pushed_files
from catchment.model import RawContent
from tests.console.conftest import Cli


@pytest.fixture
def folder(cli: Cli, state: Path) -> Path:
    """The folder of the source `clips`."""
    added = cli("add", "pushed", "clips", "--name", "clips")
    assert (added.code, added.out.splitlines()[0]) == (0, "added clips: clips: documents that programs push")
    return state / "pushed" / "clips"


def note(text: str) -> RawContent:
    return RawContent(text.encode(), "note.md")


def test_pushed_source_is_watched_and_named_like_its_folder(cli: Cli, folder: Path) -> None:
    assert "every 15 min, on change" in cli("sources", "list").out
    refused = cli("add", "pushed", "other", "--name", "pages")
    assert (refused.code, "give its name: pages" in refused.err) == (2, True)
    file = folder.parent.parent / "sources.yaml"
    file.write_text(file.read_text().replace("folder: clips", "folder: other"))
    assert "folder differs from name; make them equal" in cli("sources", "list").err


def test_backup_has_pushed_documents_and_restore_keeps_newer_ones(cli: Cli, folder: Path, tmp_path: Path) -> None:
    for key in ("lost", "edited"):
        pushed_files.put(folder, key, note(f"{key}, as in the backup"))
    (folder / ".x~process~1.unfinished").write_text("half")
    assert cli("backup", str(tmp_path / "kept.db")).code == 0
    pushed_files.remove(folder, "lost")
    pushed_files.put(folder, "edited", note("newer"))
    pushed_files.put(folder, "new", note("new"))
    (folder / ".x~process~1.unfinished").unlink()
    assert cli("restore", str(tmp_path / "kept.db")).code == 0
    texts = {key: (folder / pushed_files.locator(key)).read_text() for key in ("lost", "edited", "new")}
    assert texts == {"lost": "lost, as in the backup", "edited": "newer", "new": "new"}
    assert pushed_files.described(folder, "lost").name == "note.md"
    assert len([file for file in folder.rglob("*") if file.is_file()]) == 6


def test_removal_of_the_source_deletes_its_documents(cli: Cli, folder: Path) -> None:
    pushed_files.put(folder, "a", note("a"))
    assert cli("sources", "remove", "clips", "--yes").code == 0
    assert not folder.exists()


def test_withdrawn_consent_deletes_pushed_documents(cli: Cli, folder: Path) -> None:
    pushed_files.put(folder, "a", note("a"))
    assert cli("consent", "revoke", "clips", "--yes").code == 0
    assert not folder.exists()
