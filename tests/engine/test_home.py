"""The location of state."""

from __future__ import annotations

import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from catchment.errors import BadInput
from catchment.ledger import Ledger
from catchment.runtime.home import Home, base_folder


@pytest.mark.skipif(sys.platform == "darwin", reason="it has a folder of its own for data")
@pytest.mark.parametrize("said", ["", "data", "./data"])
def test_relative_data_folder_is_ignored(said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CATCHMENT_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", said)
    assert Home.default().path == tmp_path / ".local/share/catchment"


def test_base_folder_must_be_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", "/etc/mine")
    assert base_folder("XDG_CONFIG_HOME", ".config") == Path("/etc/mine")
    monkeypatch.setenv("XDG_CONFIG_HOME", "mine")
    assert base_folder("XDG_CONFIG_HOME", ".config") == tmp_path / ".config"


def test_home_that_is_not_a_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "nowhere").symlink_to(tmp_path / "unmounted")
    for name, problem in (
        ("file", "is a file, not a folder"),
        ("link", "is a link to a folder that is not there"),
        ("nowhere", "is a link to a folder that is not there"),
        ("file/home", "a part of the path is not a folder"),
    ):
        monkeypatch.setenv("CATCHMENT_HOME", str(tmp_path / name))
        with pytest.raises(BadInput, match=problem):
            Home.default()


@pytest.mark.parametrize("name", ["sources.yaml", "ledger.db", "run/up.json", "run/up.lock", "prefect/profiles.toml"])
def test_pipe_or_device_in_the_home_is_refused_with_its_name(home: Home, name: str) -> None:
    assert Home.default() == home
    os.mkfifo(home.path / name)
    with pytest.raises(BadInput, match=f"^CATCHMENT_HOME: {name} is a pipe"):
        Home.default()
    (home.path / name).unlink()
    (home.path / name).symlink_to("/dev/zero")
    with pytest.raises(BadInput, match=f"^CATCHMENT_HOME: {name} is a pipe"):
        Home.default()


def test_links_to_external_and_missing_files_are_accepted(home: Home, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("deployments: []")
    (home.path / "sources.yaml").symlink_to(tmp_path / "mine.yaml")
    (home.path / "gone").symlink_to(tmp_path / "gone")
    assert Home.default() == home


@pytest.mark.parametrize("character", ["\n", "\r", "\x1b", "\x7f"])
def test_control_character_in_the_path_of_the_home_is_refused(character: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CATCHMENT_HOME", f"/srv/a{character}ExecStartPre=/bin/evil")
    with pytest.raises(BadInput, match="control character"):
        Home.default()


def test_longest_path_of_a_home_works_and_a_longer_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = 480 - len(str(tmp_path / "_"))
    longest = tmp_path / "/".join(["x" * 100] * (missing // 101) + ["x" * (missing % 101 + 1)])
    assert len(str(longest)) == 480
    monkeypatch.setenv("CATCHMENT_HOME", str(longest))
    monkeypatch.delenv("CATCHMENT_DATABASE_URL", raising=False)
    home = Home.default().make()
    Ledger.open(home.database_url).close()
    with closing(sqlite3.connect(home.prefect / "prefect.db")) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE runs (id INTEGER)")
    for path in (f"{longest}y", f"/{'y' * 300}/{'y' * 300}"):
        monkeypatch.setenv("CATCHMENT_HOME", path)
        with pytest.raises(BadInput, match=r"\d{3} bytes is too long.* at most 480$"):
            Home.default()
    monkeypatch.setenv("CATCHMENT_HOME", f"/{'y' * 300}")
    with pytest.raises(BadInput, match=r"^CATCHMENT_HOME: a name is too long"):
        Home.default()


def test_home_accessible_to_others_is_made_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "users" / "ada"))
    (tmp_path / "state").mkdir()
    (tmp_path / "state").chmod(0o755)
    Home(tmp_path / "state").make()
    assert (tmp_path / "state").stat().st_mode & 0o7777 == 0o700
    for shared, mode in (("users", 0o755), ("temporary", 0o1777)):
        (tmp_path / shared).mkdir()
        (tmp_path / shared).chmod(mode)
        Home(tmp_path / shared).make()
        assert (tmp_path / shared).stat().st_mode & 0o7777 == mode
