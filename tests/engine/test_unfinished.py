"""Temporary files: each has an owner process and is removed after that process exits."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

from catchment.content.cache import Cache
from catchment.runtime import atomic_files
from catchment.settings import Home
from catchment.sync.batch import forget_done
from tests.engine.papers import Papers


def killed_while_making(path: Path) -> None:
    child = os.fork()
    if child == 0:
        atomic_files.unfinished(path).write_text("half of it")
        atomic_files.unfinished(path.with_name("folder")).mkdir()
        os.kill(os.getpid(), 9)
    os.waitpid(child, 0)


def test_temporary_file_of_a_killed_process_is_removed_by_the_next_writer(tmp_path: Path) -> None:
    killed_while_making(tmp_path / "copy")
    assert len(list(tmp_path.iterdir())) == 2
    atomic_files.write(tmp_path / "other", b"whole")
    assert [file.name for file in tmp_path.iterdir()] == ["other"]


def test_temporary_file_of_a_live_process_is_kept(tmp_path: Path) -> None:
    mine = atomic_files.unfinished(tmp_path / "copy")
    mine.write_text("half of it")
    atomic_files.write(tmp_path / "other", b"whole")
    assert mine.exists()


def test_temporary_file_of_another_machine_is_kept_for_a_day(tmp_path: Path) -> None:
    elsewhere = tmp_path / ".copy~00000000:1:1~1.unfinished"
    elsewhere.touch()
    atomic_files.write(tmp_path / "other", b"whole")
    assert elsewhere.exists()
    os.utime(elsewhere, (0, 0))
    atomic_files.write(tmp_path / "other", b"whole")
    assert not elsewhere.exists()


def test_cache_drops_entries_of_finished_jobs(home: Home, tmp_path: Path) -> None:
    papers = Papers(home, tmp_path / "papers")
    papers.write("a.md", "A paper")
    papers.sync()
    with closing(Cache(home.cache)) as cache:
        cache.put({"1:as:left": b"by a kill after the delivery", "999:of:nobody": b"of no job", "\0?": b"altered"})
        assert forget_done(cache, papers.ledger) == 3
        assert cache.keys() == []
