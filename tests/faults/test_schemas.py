"""Programs and ledgers of different versions: migrated once with a backup copy, intact after any kill, never
downgraded.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import socket
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from catchment.errors import LedgerUnavailable, SchemaMismatch
from catchment.ledger import Ledger
from catchment.ledger.admin import migrations, opening
from catchment.ledger.admin.migrations import revision_of
from catchment.ledger.db import schema
from catchment.ledger.db.database import Store
from catchment.runtime.atomic_files import OPENING
from catchment.search.search import search
from console.main import main
from tests.faults.versions import LATER, become_later, die_at, kept, kept_revisions, live_in, told
from tests.hits import find_hits
from tests.ledger.conftest import new_postgres, postgres  # noqa: F401 - fixtures
from tests.ledger.test_crashes import in_child
from tests.ledger.test_file import _schema
from tests.ledger.test_search import NOW

pytestmark = [pytest.mark.faults, pytest.mark.long]

_REVISIONS = kept_revisions()
_REVISION = schema.REVISION
_BACKUP = f"ledger-{_REVISION}.backup.db"
_MOST_STEPS = 500


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A populated ledger of the program's revision."""
    return kept(schema.REVISION, tmp_path)


@pytest.fixture
def later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the program one of the next version, for which the ledger is old; yields its migrations."""
    folder = tmp_path / "later"
    become_later_with(monkeypatch, folder)
    return folder


def become_later_with(patch: pytest.MonkeyPatch, folder: Path) -> None:
    for owner, name in (
        (migrations, "_HERE"),
        (schema, "REVISION"),
        (opening, "make"),
        (opening, "_new_structure"),
    ):
        patch.setattr(owner, name, getattr(owner, name))
    become_later(folder)


def address(file: Path) -> str:
    return f"sqlite:///{file}"


def revision(url: str) -> str | None:
    store = Store(url, lambda: 0.0)
    with closing(store), store.read() as reading:
        return revision_of(reading)


def copies(file: Path) -> list[Path]:
    """Return the backup copies and the unexpected files, without the locks of copies that a test opened."""
    files = (path for path in file.parent.iterdir() if path.is_file() and not path.name.startswith(file.name))
    return sorted(path for path in files if not path.name.endswith(OPENING))


def sound(url: str, before: dict[str, list[object]]) -> None:
    """Check that the ledger is migrated and its data is unchanged."""
    ledger = Ledger.open(url)
    assert ledger.check(deep=True) == []
    assert len(find_hits(ledger, "says", limit=100)) == 29
    ledger.close()
    assert revision(url) == LATER
    assert told(url) == before
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as database:
        weights = database.execute("SELECT weight, count(*) FROM weights GROUP BY 1 ORDER BY 1").fetchall()
    assert sum(number for _, number in weights) == len(before["items"])


@pytest.mark.parametrize("kept_revision", _REVISIONS)
def test_ledger_of_every_past_revision_is_migrated(kept_revision: str, tmp_path: Path) -> None:
    file = kept(kept_revision, tmp_path)
    ledger = Ledger.open(address(file))
    assert ledger.check(deep=True) == []
    assert len(find_hits(ledger, "says", limit=100)) == 29
    assert search(ledger, "in:N", NOW).total == 29, "folders are listed without reading the source"
    ledger.close()
    fresh = address(tmp_path / "fresh.db")
    Ledger.open(fresh).close()
    assert _schema(address(file)) == _schema(fresh), "a revision is never edited: later changes are later revisions"


def test_ledger_of_this_revision_is_stored_for_future_programs() -> None:
    assert schema.REVISION in _REVISIONS, "keep one: python -m tests.faults.versions"


def test_older_ledger_is_migrated_after_a_copy(old: Path, later: Path) -> None:
    before = told(address(old))
    ledger = Ledger.open(address(old))
    led = ledger.migrated
    ledger.close()
    assert led is not None
    assert (led.before, led.now, led.kept) == (_REVISION, LATER, old.with_name(_BACKUP))
    sound(address(old), before)
    assert copies(old) == [led.kept]
    assert stat.S_IMODE(led.kept.stat().st_mode) == 0o600
    assert (revision(address(led.kept)), told(address(led.kept))) == (_REVISION, before)
    again = Ledger.open(address(old))
    assert again.migrated is None
    again.close()


def test_migration_killed_anywhere_is_completed_by_the_next_program(old: Path, later: Path) -> None:
    before, kept_copy = told(address(old)), old.with_name(_BACKUP)
    for step in range(1, _MOST_STEPS):
        end = in_child(lambda at=step: (die_at(at), Ledger.open(address(old)).close()))()  # type: ignore[misc]
        if end == 0:
            break
        assert end == -signal.SIGKILL
        # The last kill occurs after the migration is complete.
        assert told(address(old)) == before, step
        if kept_copy.exists():
            assert (revision(address(kept_copy)), told(address(kept_copy))) == (_REVISION, before), step
    assert 30 < step < _MOST_STEPS - 1
    sound(address(old), before)
    assert copies(old) == [kept_copy]


def test_creation_killed_anywhere_is_completed_by_the_next_program(
    tmp_path: Path,
) -> None:
    file = tmp_path / "new" / "ledger.db"
    # Most statements create similar tables.
    for step in (*range(1, 30), *range(30, _MOST_STEPS, 25)):
        end = in_child(lambda at=step: (die_at(at), Ledger.open(address(file)).close()))()  # type: ignore[misc]
        ledger = Ledger.open(address(file))
        assert ledger.check(deep=True) == []
        ledger.close()
        shutil.rmtree(file.parent)
        if end == 0:
            break
        assert end == -signal.SIGKILL
    assert 100 < step < _MOST_STEPS - 25


def test_concurrent_programs_migrate_a_ledger_once(old: Path, later: Path) -> None:
    before = told(address(old))
    start, go = os.pipe()

    def opened() -> None:
        os.close(go)
        os.read(start, 1)
        ledger = Ledger.open(address(old))
        was_me = ledger.migrated is not None
        ledger.close()
        if was_me:
            os._exit(7)

    ends = [in_child(opened) for _ in range(6)]
    os.close(go)
    os.close(start)
    assert sorted(end() for end in ends) == [0, 0, 0, 0, 0, 7]
    sound(address(old), before)


def test_ledger_in_use_is_not_migrated(old: Path, later: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catchment.ledger.admin.migrations.LOCK_WAIT_SECONDS", 0.2)
    before = told(address(old))
    with closing(sqlite3.connect(old)) as other:
        other.execute("SELECT count(*) FROM items").fetchone()
        with pytest.raises(LedgerUnavailable, match="another process"):
            Ledger.open(address(old))
        assert (revision(address(old)), copies(old)) == (_REVISION, [])
    sound(address(old), before)


def test_full_disk_that_prevents_the_copy_leaves_the_ledger_unchanged(old: Path, later: Path) -> None:
    before, room = told(address(old)), old.stat().st_size // 2

    def opened() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
        try:
            Ledger.open(address(old))
        except LedgerUnavailable:
            os._exit(10)

    assert in_child(opened)() == 10
    assert (revision(address(old)), told(address(old)), copies(old)) == (_REVISION, before, [])
    sound(address(old), before)


@pytest.fixture
def home(tmp_path: Path, old: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of a user, with a ledger of the program's revision."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    old.rename(home / "ledger.db")
    monkeypatch.setenv("CATCHMENT_HOME", str(home))
    monkeypatch.delenv("CATCHMENT_DATABASE_URL", raising=False)
    return home


_READING = [["status"], ["search", "says"], ["ledger", "check"], ["jobs", "list"]]
_WRITING = [["sources", "pause", "notes"], ["quarantine", "retry", "--all"], ["up", "--detach"]]


def test_older_program_refuses_a_newer_ledger_in_one_line(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = home / "ledger.db"
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("UPDATE revision SET version_num = '9999'")
    data = file.read_bytes()
    for words in (*_READING, *_WRITING):
        assert main(words) == 1, words
        (line,) = capsys.readouterr().err.splitlines()
        assert "9999" in line, words
        assert "install a newer version" in line, words
    assert main(["restore", str(file)]) == 1
    assert "install a newer version" in capsys.readouterr().err
    assert file.read_bytes() == data


def test_read_only_command_of_a_newer_program_suggests_up(
    home: Path, later: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = (home / "ledger.db").read_bytes()
    for words in _READING:
        assert main(words) == 1, words
        (line,) = capsys.readouterr().err.splitlines()
        assert "catchment up --detach`" in line, words
    assert (home / "ledger.db").read_bytes() == data


def test_up_migrates_the_ledger_and_reports_it_in_one_line(
    home: Path, later: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = told(address(home / "ledger.db"))
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        # The ledger is migrated first; the port is in use, so the rest does not start.
        assert main(["up", "--detach", "--port", str(other.getsockname()[1])]) == 10
    said, _ = capsys.readouterr().err.splitlines()
    assert said == (
        f"the ledger was migrated from revision {_REVISION} to {LATER}; the previous one is in {home / _BACKUP}"
    )
    sound(address(home / "ledger.db"), before)
    assert main(["status"]) == 0


def test_command_does_not_migrate_under_a_running_system(
    home: Path, later: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("console.session.running", object)
    data = (home / "ledger.db").read_bytes()
    assert main(["sources", "pause", "notes"]) == 1
    assert "catchment down && catchment up" in capsys.readouterr().err
    assert (home / "ledger.db").read_bytes() == data


def test_copy_can_be_restored_by_either_program(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = home / "ledger.db"
    before = told(address(file))
    with monkeypatch.context() as newer:
        become_later_with(newer, tmp_path / "later")
        Ledger.open(address(file)).close()
        assert main(["restore", str(home / _BACKUP)]) == 0
        sound(address(file), told_with_a_restore(address(file), before))
    with pytest.raises(SchemaMismatch):
        Ledger.open(address(file))
    assert main(["restore", str(home / _BACKUP)]) == 0
    assert told(address(file)) == told_with_a_restore(address(file), before)
    assert "restored" in capsys.readouterr().out


def told_with_a_restore(url: str, before: dict[str, list[object]]) -> dict[str, list[object]]:
    """Return the former contents of a ledger, with the row that a restore has added to its history."""
    now = told(url)
    assert len(now["history"]) == len(before["history"]) + 1
    assert all(row in now["history"] for row in before["history"])
    return before | {name: now[name] for name in ("chain", "history")}


@pytest.fixture
def on_postgres(postgres: str) -> Iterator[str]:  # noqa: F811
    """A populated ledger in a separate PostgreSQL database."""
    engine = create_engine(postgres, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text("DROP DATABASE IF EXISTS versions"))
        connection.execute(text("CREATE DATABASE versions"))
    engine.dispose()
    url = postgres.replace("/postgres?", "/versions?")
    live_in(url)
    return url


@pytest.mark.postgres
def test_killed_migration_on_postgresql_is_completed_by_the_next_program(on_postgres: str, later: Path) -> None:
    before = told(on_postgres)
    for step in range(1, _MOST_STEPS):
        if in_child(lambda at=step: (die_at(at), Ledger.open(on_postgres)))() == 0:  # type: ignore[misc]
            break
        assert told(on_postgres) == before, step
    assert 15 < step < _MOST_STEPS - 1
    assert revision(on_postgres) == LATER


@pytest.mark.postgres
def test_concurrent_programs_on_postgresql_migrate_a_ledger_once(on_postgres: str, later: Path) -> None:
    before = told(on_postgres)

    def opened() -> None:
        ledger = Ledger.open(on_postgres)
        if ledger.migrated is not None:
            os._exit(7)

    assert sorted(end() for end in [in_child(opened) for _ in range(4)]) == [0, 0, 0, 7]
    ledger = Ledger.open(on_postgres)
    assert ledger.check(deep=True) == []
    ledger.close()
    assert told(on_postgres) == before
