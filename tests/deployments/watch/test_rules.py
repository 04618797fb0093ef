"""Which changes count, and which folders are watched at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from catchment.runtime.home import Home
from connectors.local_files import FolderSettings, LocalFilesSettings
from connectors.obsidian import ObsidianSettings
from deployments.watch.rules import FolderRules


@pytest.fixture
def rules(home: Home, tmp_path: Path) -> FolderRules:
    (tmp_path / ".gitignore").write_text("node_modules/\n*.log\n")
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "code").mkdir()
    return FolderRules("local_files", LocalFilesSettings(root=tmp_path, exclude=("*.tmp",)), home)


@pytest.mark.parametrize("path", ["note.md", "code", "code/main.py", ".gitignore", "code/.catchmentignore", "gone.md"])
def test_a_wanted_path_or_an_ignore_file_counts(rules: FolderRules, path: str) -> None:
    assert rules.counts(path)


@pytest.mark.parametrize(
    "path", [".note.md.swp", "a.tmp", "code/run.log", "node_modules", "node_modules/x/index.js", ".git/index"]
)
def test_what_the_connector_leaves_out_does_not_count(rules: FolderRules, path: str) -> None:
    assert not rules.counts(path)


def test_an_ignore_file_holds_from_its_next_reading_on(rules: FolderRules, tmp_path: Path) -> None:
    assert rules.counts("code/main.py")
    (tmp_path / "code" / ".catchmentignore").write_text("*.py")
    assert not rules.counts("code/main.py")


def test_what_obsidian_writes_for_itself_does_not_count(home: Home, tmp_path: Path) -> None:
    (tmp_path / ".obsidian").mkdir()
    rules = FolderRules("obsidian", ObsidianSettings(root=tmp_path), home)
    assert not rules.counts(".obsidian/workspace.json")
    assert not rules.watches(".obsidian")
    assert not rules.watches(".trash")
    assert rules.counts("Note.md")


@pytest.mark.parametrize("settings", [LocalFilesSettings, ObsidianSettings])
def test_our_own_state_never_counts(settings: type[FolderSettings], home: Home, tmp_path: Path) -> None:
    kind = "obsidian" if settings is ObsidianSettings else "local_files"
    rules = FolderRules(kind, settings(root=tmp_path), home)
    own = str(home.path.relative_to(tmp_path))
    assert not rules.watches(own)
    assert not rules.counts(f"{own}/ledger.db")
    assert rules.counts(f"{own}work.md")
