"""Obsidian vaults as sources."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from catchment.errors import LoginFailed, SourceInvalid, SourceUnavailable
from connectors.contract.memory_ledger import MemoryLedger
from connectors.obsidian import Obsidian, ObsidianSettings


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    vault = tmp_path / "My Vault"
    for name in ("Note.md", "Board.canvas", "files/paper.pdf", ".trash/Old.md", ".obsidian/app.json", "Draft.v2.md"):
        path = vault / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (vault / ".obsidian" / "app.json").write_text('{"userIgnoreFilters": ["Note.md"]}')
    return vault


def source(vault: Path, **settings: object) -> Obsidian:
    return Obsidian(ObsidianSettings.model_validate({"root": vault, **settings}))


def test_vault_excludes_obsidians_own_files(vault: Path, ledger: MemoryLedger) -> None:
    (vault / ".gitignore").write_text("*.pdf\n")
    ledger.sync(source(vault))
    assert set(ledger.documents()) == {"Note.md", "Board.canvas", "files/paper.pdf", "Draft.v2.md"}


def test_patterns_and_ignore_file_exclude_files(vault: Path, ledger: MemoryLedger) -> None:
    (vault / ".catchmentignore").write_text("*.canvas\n")
    ledger.sync(source(vault, exclude=["files/"]))
    assert set(ledger.documents()) == {"Note.md", "Draft.v2.md"}


def test_notes_are_titled_by_file_name_and_attachments_are_not(vault: Path, ledger: MemoryLedger) -> None:
    ledger.sync(source(vault))
    titles = {locator: row.content.title for locator, row in ledger.present().items() if row.content}
    assert titles == {"Note.md": "Note", "Board.canvas": "Board", "files/paper.pdf": None, "Draft.v2.md": "Draft.v2"}


def test_vault_id_survives_a_move_and_differs_for_a_copy(vault: Path, ledger: MemoryLedger) -> None:
    vault_id = source(vault).vault_id()
    ledger.sync(source(vault))
    moved = vault.rename(vault.with_name("Moved"))
    assert source(moved).vault_id() == vault_id
    assert ledger.sync(source(moved)).item_changes == []
    shutil.copytree(moved, vault)
    assert source(vault).vault_id() != vault_id
    assert ledger.rows["Note.md"].content is not None
    assert ledger.rows["Note.md"].content.metadata == {"vault": "My Vault", "vault_id": vault_id}


def test_folder_without_obsidian_folder_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(
        SourceInvalid, match=r"no \.obsidian folder; open it once in Obsidian, or add it as local_files"
    ):
        source(tmp_path).probe()


def test_vault_that_lost_its_obsidian_folder_is_not_listed(vault: Path, ledger: MemoryLedger) -> None:
    ledger.sync(source(vault))
    shutil.rmtree(vault)
    vault.mkdir()
    with pytest.raises(SourceUnavailable, match="nothing was changed"):
        ledger.sync(source(vault))
    assert len(ledger.documents()) == 4


def test_inaccessible_vault_raises_login_failed(
    shared_root: Path, ledger: MemoryLedger, unprivileged: Callable[[], AbstractContextManager[None]]
) -> None:
    (shared_root / ".obsidian").mkdir()
    shared_root.chmod(0o744)
    with unprivileged(), pytest.raises(LoginFailed, match="permission denied"):
        ledger.sync(source(shared_root))
    shared_root.chmod(0o755)
