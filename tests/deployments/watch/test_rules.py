"""Which paths count, and which folders are watched."""

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
def test_included_path_and_ignore_file_count(rules: FolderRules, path: str) -> None:
    assert rules.counts(path)


@pytest.mark.parametrize(
    "path", [".note.md.swp", "a.tmp", "code/run.log", "node_modules", "node_modules/x/index.js", ".git/index"]
)
def test_excluded_path_does_not_count(rules: FolderRules, path: str) -> None:
    assert not rules.counts(path)


def test_changed_ignore_file_applies_at_once(rules: FolderRules, tmp_path: Path) -> None:
    assert rules.counts("code/main.py")
    (tmp_path / "code" / ".catchmentignore").write_text("*.py")
    assert not rules.counts("code/main.py")


def test_obsidian_configuration_does_not_count(home: Home, tmp_path: Path) -> None:
    (tmp_path / ".obsidian").mkdir()
    rules = FolderRules("obsidian", ObsidianSettings(root=tmp_path), home)
    assert not rules.counts(".obsidian/workspace.json")
    assert not rules.watches(".obsidian")
    assert not rules.watches(".trash")
    assert rules.counts("Note.md")


@pytest.mark.parametrize("settings", [LocalFilesSettings, ObsidianSettings])
def test_own_state_never_counts(settings: type[FolderSettings], home: Home, tmp_path: Path) -> None:
    kind = "obsidian" if settings is ObsidianSettings else "local_files"
    rules = FolderRules(kind, settings(root=tmp_path), home)
    own = str(home.path.relative_to(tmp_path))
    assert not rules.watches(own)
    assert not rules.counts(f"{own}/ledger.db")
    assert rules.counts(f"{own}work.md")
