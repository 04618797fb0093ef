"""Mixed-up homes and ledgers: copied to another machine, combined with files of another home, or swapped."""

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
from catchment.sync.source_sync import open_sync
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
    """Return the papers as one home sees them, with a separate machine identity."""
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
    """Replace the folder by that of another machine with the same name."""
    folder.rename(folder.with_name("papers of the first machine"))
    written(folder, numbers, text)


def crash(papers: Papers) -> None:
    """Read and parse everything, then exit before the delivery."""
    with open_sync(papers.home, papers.connector, "papers", Policy(), Priority.NORMAL) as sync:
        sync.discover()
        token = sync.claim(1_000)
        assert token is not None
        sync.normalize(token)


def test_home_used_with_another_folder_deletes_no_documents(
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


def test_two_copies_of_a_home_both_ingest_the_folder_once(
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


def test_swapped_ledger_takes_no_text_from_the_cache_of_another(
    tmp_path: Path, folder: Path, at: Callable[[Path], Papers]
) -> None:
    first = at(tmp_path / "first")
    crash(first)
    first.ledger.close()
    replaced(folder, range(100, 100 + _FILES), "another")
    second = at(tmp_path / "second")
    crash(second)
    second.ledger.close()
    # One ledger beside the cache of the other: the job numbers are the same.
    shutil.copy2(tmp_path / "second" / "ledger.db", tmp_path / "first" / "ledger.db")
    mixed = at(tmp_path / "first")
    mixed.sync()
    assert mixed.documents() == texts(range(100, 100 + _FILES), "another")
    assert mixed.prove().holds
    mixed.ledger.close()


def test_ledger_refuses_sources_of_another_home_that_conflict(
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


def test_sync_of_a_process_on_another_machine_is_closed_and_resumed(
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


def test_copied_home_is_distinguished_from_the_running_one(tmp_path: Path) -> None:
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


def test_ledgers_swapped_between_syncs_keep_their_data(
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
