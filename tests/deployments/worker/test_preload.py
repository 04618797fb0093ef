"""What the runner knows of the files of its code."""

from __future__ import annotations

from pathlib import Path

import pytest

from deployments.runner.preload import SourceFiles


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that can be imported."""
    (tmp_path / "kept_apart").mkdir()
    (tmp_path / "kept_apart" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path / "kept_apart"


def test_a_file_that_comes_or_goes_is_a_change(package: Path) -> None:
    files = SourceFiles(["kept_apart"])
    assert not files.changed()
    (package / "new.py").touch()
    assert files.changed()
    (package / "new.py").unlink()
    assert not files.changed()


def test_what_an_editor_keeps_beside_a_file_is_none(package: Path) -> None:
    """Emacs notes who edits a file in a link that leads nowhere."""
    (package / ".#__init__.py").symlink_to("ada@example.1")
    files = SourceFiles(["kept_apart"])
    (package / ".#new.py").symlink_to("ada@example.1")
    assert not files.changed()


def test_a_link_that_leads_in_a_circle_or_through_a_file_is_none(package: Path) -> None:
    (package / "circle.py").symlink_to("circle.py")
    (package / "through.py").symlink_to("__init__.py/further.py")
    assert not SourceFiles(["kept_apart"]).changed()
