"""Where state is kept."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from catchment.runtime.home import Home, base_folder


@pytest.mark.skipif(sys.platform == "darwin", reason="it has a folder of its own for data")
@pytest.mark.parametrize("said", ["", "data", "./data"])
def test_a_data_folder_that_depends_on_where_one_stands_is_not_taken(
    said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CATCHMENT_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", said)
    assert Home.default().path == tmp_path / ".local/share/catchment"


def test_a_base_folder_is_the_one_that_is_named_in_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", "/etc/mine")
    assert base_folder("XDG_CONFIG_HOME", ".config") == Path("/etc/mine")
    monkeypatch.setenv("XDG_CONFIG_HOME", "mine")
    assert base_folder("XDG_CONFIG_HOME", ".config") == tmp_path / ".config"
