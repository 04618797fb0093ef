"""Homes and ledgers that were mixed up: copied to another machine, put beside another's files, taken for one another."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from catchment.errors import Refused
from catchment.model import Priority
from catchment.runtime.process import identity
from catchment.settings import Home, Policy
from catchment.sync.session import open_sync
from connectors.local_files import LocalFiles, LocalFilesSettings
from deployments.server.running import Running, record, running, state_file, supervisor_lock
from tests.engine.papers import Papers

pytestmark = pytest.mark.faults

_FILES = 30


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "papers"
    written(folder, range(_FILES))
    return folder


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Callable[[Path], Papers]:
    """The papers as a home has them: a machine of its own, as far as the ledger can tell."""
    monkeypatch.delenv("CATCHMENT_DATABASE_URL", raising=False)

    def papers(place: Path) -> Papers:
        monkeypatch.setenv("CATCHMENT_HOME", str(place))
        return Papers(Home(place).make(), folder)

    return papers


def written(folder: Path, numbers: range, text: str = "paper") -> None:
    folder.mkdir(exist_ok=True)
    for number in numbers:
        (folder / f"{number}.txt").write_text(f"{text} {number}")


def texts(numbers: range, text: str = "paper") -> dict[str, str]:
    return {f"{number}.txt": f"{text} {number}" for number in numbers}


def replaced(folder: Path, numbers: range, text: str = "paper") -> None:
    """What another machine has in a folder of that name."""
    folder.rename(folder.with_name("papers of the first machine"))
    written(folder, numbers, text)


def crash(papers: Papers) -> None:
    """Read and parse everything, and end before anything is delivered."""
    with open_sync(papers.home, papers.connector, "papers", Policy(), Priority.NORMAL) as sync:
        sync.discover()
        token = sync.claim(1_000)
        assert token is not None
        sync.normalize(token)


def test_a_home_that_is_used_where_the_folder_is_another_one_deletes_nothing(
    tmp_path: Path, folder: Path, at: Callable[[Path], Papers]
) -> None:
    first = at(tmp_path / "first")
    first.sync()
    first.ledger.close()
    shutil.copytree(tmp_path / "first", tmp_path / "second")
    replaced(folder, range(3))
    second = at(tmp_path / "second")
    second.sync()
    assert second.documents() == texts(range(_FILES))
    (hold,) = second.ledger.intake.holds()
    assert (hold.count, hold.reason) == (_FILES - 3, "the root is another one than before")
    assert second.ledger.check(deep=True) == []
    second.ledger.close()


def test_two_copies_of_a_home_that_read_the_same_folder_both_have_all_of_it_once(
    tmp_path: Path, folder: Path, at: Callable[[Path], Papers]
) -> None:
    first = at(tmp_path / "first")
    first.sync()
    first.ledger.close()
    shutil.copytree(tmp_path / "first", tmp_path / "second")
    for turn, place in enumerate(("second", "first", "second", "first")):
        (folder / "0.txt").write_text(f"changed {turn}")
        (folder / f"{turn}.txt").rename(folder / f"moved {turn}.txt")
        papers = at(tmp_path / place)
        papers.sync()
        assert papers.documents() == {path.name: path.read_text() for path in folder.iterdir()}
        assert papers.ledger.intake.holds() == []
        assert papers.ledger.check(deep=True) == []
        papers.ledger.close()


def test_a_ledger_in_the_place_of_another_takes_no_text_from_what_that_one_left(
    tmp_path: Path, folder: Path, at: Callable[[Path], Papers]
) -> None:
    first = at(tmp_path / "first")
    crash(first)
    first.ledger.close()
    replaced(folder, range(100, 100 + _FILES), "another")
    second = at(tmp_path / "second")
    crash(second)
    second.ledger.close()
    # The ledger of the one beside the cache of the other: the numbers of the jobs are the same.
    shutil.copy2(tmp_path / "second" / "ledger.db", tmp_path / "first" / "ledger.db")
    mixed = at(tmp_path / "first")
    mixed.sync()
    assert mixed.documents() == texts(range(100, 100 + _FILES), "another")
    assert mixed.prove().holds
    mixed.ledger.close()


def test_a_ledger_beside_the_sources_of_another_home_refuses_what_it_knows_otherwise(
    tmp_path: Path, folder: Path, at: Callable[[Path], Papers]
) -> None:
    papers = at(tmp_path / "first")
    papers.sync()
    with pytest.raises(Refused, match="kind local_files; remove it first, or choose another name"):
        papers.ledger.sources.put("papers", "obsidian", Priority.NORMAL)
    elsewhere = tmp_path / "elsewhere"
    written(elsewhere, range(2))
    connector = LocalFiles(LocalFilesSettings(root=elsewhere))
    with open_sync(papers.home, connector, "papers", Policy(), Priority.NORMAL) as sync:
        sync.discover()
        while (token := sync.claim(250)) is not None:
            sync.process(token)
        sync.finish("completed")
    assert papers.documents() == texts(range(_FILES))
    assert [hold.count for hold in papers.ledger.intake.holds()] == [_FILES - 2]
    papers.ledger.close()


def test_the_sync_of_a_process_of_another_machine_is_closed_and_gone_on_with(
    tmp_path: Path, at: Callable[[Path], Papers]
) -> None:
    first = at(tmp_path / "first")
    crash(first)
    elsewhere = f"{'0' * 8}:{os.getpid()}:{identity().rpartition(':')[2]}"
    with first.ledger._store.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE syncs SET owner = ?, outcome = NULL, ended_at = NULL", (elsewhere,))
        connection.exec_driver_sql("UPDATE jobs SET owner = ?", (elsewhere,))
    first.ledger.close()
    shutil.copytree(tmp_path / "first", tmp_path / "second")
    second = at(tmp_path / "second")
    second.sync()
    assert second.documents() == texts(range(_FILES))
    assert second.ledger.check(deep=True) == []
    second.ledger.close()


def test_a_copy_of_a_home_is_not_taken_for_the_one_that_runs(tmp_path: Path) -> None:
    home = Home(tmp_path / "home").make()
    with supervisor_lock(home):
        record(home, Running(4200, os.getpid(), datetime.now(UTC), 1, 2, ""))
        assert running(home) is not None
        shutil.copytree(home.path, tmp_path / "copy")
        copy = Home(tmp_path / "copy")
        assert state_file(copy).exists()
        assert running(copy) is None
        home.path.rename(tmp_path / "moved")
        assert running(Home(tmp_path / "moved")) is not None


def test_two_ledgers_that_are_swapped_between_syncs_keep_what_is_theirs(
    tmp_path: Path, folder: Path, at: Callable[[Path], Papers]
) -> None:
    for place in ("first", "second"):
        papers = at(tmp_path / place)
        papers.sync()
        papers.ledger.close()
        written(folder, range(_FILES, _FILES + 5))
    one, other = tmp_path / "first" / "ledger.db", tmp_path / "second" / "ledger.db"
    one.rename(tmp_path / "aside.db")
    other.rename(one)
    (tmp_path / "aside.db").rename(other)
    for place in ("first", "second"):
        papers = at(tmp_path / place)
        papers.sync()
        assert papers.documents() == texts(range(_FILES + 5))
        assert papers.ledger.check(deep=True) == []
        papers.ledger.close()
