"""Checking and shrinking Prefect's database file, beside an open connection."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from catchment.errors import TryAgain
from catchment.settings import Home
from deployments.server import prefect_database
from deployments.server.prefect_database import block_type_settings, note_block_types, prepare, shrink
from tests.golden.prefect_tables import migrated

_MB = 1_000_000


@contextmanager
def used(home: Home) -> Iterator[sqlite3.Connection]:
    """The database as a server uses it: in WAL mode, with an open connection."""
    with closing(sqlite3.connect(home.prefect / "prefect.db", isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        yield database


def fill(database: sqlite3.Connection) -> None:
    database.execute("CREATE TABLE IF NOT EXISTS filler (line)")
    database.execute("BEGIN")
    database.executemany("INSERT INTO filler VALUES (?)", [("x" * 2_000,)] * 4_000)
    database.execute("COMMIT")


def size(home: Home) -> int:
    files = (home.prefect / "prefect.db", home.prefect / "prefect.db-wal")
    return sum(file.stat().st_size for file in files if file.exists())


def test_free_space_is_returned_beside_an_open_connection(home: Home) -> None:
    prepare(home)
    with used(home) as database:
        fill(database)
        assert shrink(home) == 0
        full = size(home)
        assert full > 8 * _MB
        database.execute("DELETE FROM filler WHERE rowid > 100")
        assert shrink(home) > 7 * _MB
        assert size(home) < 2 * _MB
        assert database.execute("SELECT count(*) FROM filler").fetchone() == (100,)
        assert shrink(home) == 0


def test_older_database_is_rewritten_once_and_keeps_its_rows(home: Home) -> None:
    with used(home) as database:
        fill(database)
        database.execute("DELETE FROM filler WHERE rowid > 100")
    prepare(home)
    assert size(home) < _MB
    prepare(home)
    with used(home) as database:
        assert database.execute("SELECT count(*) FROM filler").fetchone() == (100,)
        fill(database)
        database.execute("DELETE FROM filler WHERE rowid > 100")
        assert shrink(home) > 7 * _MB


def test_busy_database_is_not_shrunk(home: Home) -> None:
    prepare(home)
    with used(home) as database:
        fill(database)
        database.execute("DELETE FROM filler")
        database.execute("BEGIN IMMEDIATE")
        database.execute("INSERT INTO filler VALUES ('being written')")
        assert shrink(home) == 0
        database.execute("COMMIT")
        assert shrink(home) > 7 * _MB
        assert size(home) < 2 * _MB


def test_database_is_readable_by_its_owner_only(home: Home) -> None:
    prepare(home)
    assert (home.prefect / "prefect.db").stat().st_mode & 0o777 == 0o600


def _garbage(file: Path) -> None:
    file.write_bytes(b"this is no database " * 500)


def _torn(file: Path) -> None:
    with closing(sqlite3.connect(file)) as database:
        (root,) = database.execute("SELECT rootpage FROM sqlite_master WHERE name = 'flow_run'").fetchone()
    with file.open("r+b") as opened:
        opened.seek((root - 1) * 4096)
        opened.write(bytes(4096))


def _newer(file: Path) -> None:
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("UPDATE alembic_version SET version_num = 'fff000fff000'")


def _unfinished(file: Path) -> None:
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("DELETE FROM alembic_version")


@pytest.mark.parametrize("harm", [_garbage, _torn, _newer, _unfinished])
def test_unusable_database_is_renamed_and_replaced(home: Home, harm: Callable[[Path], None]) -> None:
    prepare(home)
    assert prepare(home) is None
    file = home.prefect / "prefect.db"
    harm(file)
    was = file.read_bytes()
    said = prepare(home)
    assert said is not None
    assert "is of another version" in said if harm is _newer else "is damaged" in said
    (kept,) = home.prefect.glob("prefect.db.kept-*")
    assert str(kept.relative_to(home.path)) in said
    assert kept.read_bytes() == was
    assert prepare(home) is None
    with used(home) as database:
        assert database.execute("SELECT count(*) FROM flow_run").fetchone() == (0,)


@pytest.mark.parametrize("tables", [[], ["CREATE TABLE alembic_version (version_num)"]])
def test_empty_database_is_used(home: Home, tables: list[str]) -> None:
    with closing(sqlite3.connect(home.prefect / "prefect.db")) as database, database:
        for statement in tables:
            database.execute(statement)
    assert prepare(home) is None
    assert list(home.prefect.glob("prefect.db.kept-*")) == []


def test_read_only_database_is_reported_with_the_remedy(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(home)
    file = home.prefect / "prefect.db"
    was = file.read_bytes()
    # Tests may run as root, which may write anywhere. So SQLite is opened read-only instead.
    monkeypatch.setattr(
        "deployments.server.prefect_database._open",
        lambda path: closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None)),
    )
    with pytest.raises(TryAgain, match=r"chmod -R u\+w"):
        prepare(home)
    assert file.read_bytes() == was


def test_block_types_are_registered_once_per_set_of_packages(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    of_prefect = home.prefect / "memo_store.toml"
    prepare(home)
    assert set(block_type_settings(home).values()) == {"false"}

    monkeypatch.setattr(prefect_database, "version", lambda _: "3.8.99")
    of_prefect.touch()
    assert block_type_settings(home) == {}
    assert not of_prefect.exists(), "what Prefect notes of its own is of another database, or of other packages"
    note_block_types(home)
    assert set(block_type_settings(home).values()) == {"false"}

    with used(home) as database:
        database.execute("DELETE FROM block_type")
    assert block_type_settings(home) == {}

    (home.prefect / "prefect.db").unlink()
    prepare(home)
    assert block_type_settings(home) == {}


@pytest.mark.full
def test_new_database_is_as_prefect_makes_it(home: Home, tmp_path: Path) -> None:
    prepare(home)
    assert _content(home.prefect / "prefect.db") == _content(migrated(Home(tmp_path / "other"))), (
        "renew it by `python -m tests.golden.prefect_tables`"
    )


def _content(file: Path) -> set[tuple[object, ...]]:
    """The tables, indexes and triggers, the revision, the block types, and the packages that they were made for."""
    with closing(sqlite3.connect(file)) as database:
        # Prefect's migrations write the constraints of a table in any order.
        tables = database.execute("SELECT type, name, coalesce(sql, '') FROM sqlite_master")
        return {(kind, name, *sorted(sql.replace(",", " ").split())) for kind, name, sql in tables} | {
            row
            for statement in (
                "SELECT * FROM alembic_version",
                "SELECT slug, description FROM block_type",
                "SELECT checksum, version FROM block_schema",
                "PRAGMA user_version",
            )
            for row in database.execute(statement)
        }


def test_database_of_other_versions_is_left_to_prefect(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefect_database, "version", lambda _: "3.9.99")
    prepare(home)
    with used(home) as database:
        assert database.execute("SELECT name FROM sqlite_master").fetchall() == []
