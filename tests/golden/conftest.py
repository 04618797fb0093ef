"""Homes of version 0.1 that a test may change: copies of one that is unpacked once."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.golden.record import unpack


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the unpacked home; tests copy it and leave it unchanged."""
    folder = tmp_path_factory.mktemp("golden")
    unpack(folder)
    return folder


@pytest.fixture
def folder(unpacked: Path, tmp_path: Path) -> Path:
    """A copy of that folder, with a home that a test may change."""
    return shutil.copytree(unpacked, tmp_path / "golden")
