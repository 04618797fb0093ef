"""Detection of changes to the files of the imported code."""

from __future__ import annotations

from pathlib import Path

import pytest

from deployments.runner.preload import SourceFiles


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An importable package."""
    (tmp_path / "kept_apart").mkdir()
    (tmp_path / "kept_apart" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path / "kept_apart"


def test_added_or_removed_file_is_a_change(package: Path) -> None:
    files = SourceFiles(["kept_apart"])
    assert not files.changed()
    (package / "new.py").touch()
    assert files.changed()
    (package / "new.py").unlink()
    assert not files.changed()


def test_lock_link_of_an_editor_is_no_change(package: Path) -> None:
    """Emacs records the editing user in a dangling link."""
    (package / ".#__init__.py").symlink_to("ada@example.1")
    files = SourceFiles(["kept_apart"])
    (package / ".#new.py").symlink_to("ada@example.1")
    assert not files.changed()


def test_circular_or_invalid_link_is_no_change(package: Path) -> None:
    (package / "circle.py").symlink_to("circle.py")
    (package / "through.py").symlink_to("__init__.py/further.py")
    assert not SourceFiles(["kept_apart"]).changed()
