"""The ledger file: creation, permissions, migration, and behaviour on a full disk or with a damaged file."""

from __future__ import annotations

import hashlib
import re
import shutil
import sqlite3
import stat
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect

from catchment.errors import BadInput, LedgerCorrupt, LedgerError, LedgerUnavailable, NotFound, SchemaMismatch
from catchment.ledger import Ledger
from catchment.ledger.admin import migrations
from catchment.ledger.admin.migrations.versions import r0001_first
from catchment.ledger.db.database import Store
from catchment.model import Upsert
from tests.hits import find_hits
from tests.ledger.world import Clock, World, note, notes


def address(file: Path) -> str:
    return f"sqlite:///{file}"


def test_new_ledger_is_private_and_has_its_triggers(tmp_path: Path) -> None:
    file = tmp_path / "new folder" / "ledger.db"
    ledger = Ledger.open(address(file))
    with ledger._store.read() as reading:
        pragmas = [
            reading.connection.exec_driver_sql(f"PRAGMA {p}").scalar()
            for p in ("journal_mode", "synchronous", "foreign_keys")
        ]
    assert pragmas == ["wal", 2, 1]
    for part in file.parent.iterdir():
        assert stat.S_IMODE(part.stat().st_mode) == 0o600, part.name
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    ledger.close()
    ledger.close()


def test_newly_created_ledger_needs_no_log(tmp_path: Path) -> None:
    ledger = Ledger.open(address(tmp_path / "ledger.db"))
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(tmp_path / "ledger.db", alone)
    Ledger.inspect(address(alone / "ledger.db")).close()
    ledger.close()


def test_inspecting_a_ledger_never_creates_one(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="none yet"):
        Ledger.inspect(address(tmp_path / "ledger.db"))
    (tmp_path / "ledger.db").touch()
    with pytest.raises(NotFound, match="none yet"):
        Ledger.inspect(address(tmp_path / "ledger.db"))
    assert [path.name for path in tmp_path.iterdir() if path.stat().st_size] == []


def test_committed_data_survives_reopening(sqlite_world: World) -> None:
    sqlite_world.ingest(*notes(3))
    sqlite_world.reopen()
    looked = Ledger.inspect(sqlite_world.url)
    assert len(find_hits(looked, "says")) == 3
    looked.close()


def test_log_is_readable_on_a_full_disk(sqlite_world: World, tmp_path: Path) -> None:
    sqlite_world.ingest(*notes(3))
    file, left = Path(sqlite_world.url.removeprefix("sqlite:///")), tmp_path / "left.db"
    for ending in ("", "-wal"):
        shutil.copy(f"{file}{ending}", f"{left}{ending}")
    assert Path(f"{left}-wal").stat().st_size
    # Simulate a full disk: SQLite cannot create the shared-memory file of the log.
    Path(f"{left}-shm").symlink_to(tmp_path / "no" / "room")
    with pytest.raises(LedgerUnavailable):
        Ledger.inspect(address(left))
    for _ in range(2):
        looked = Ledger.inspect(address(left), fixed=True)
        assert len(find_hits(looked, "says")) == 3
        assert looked.check() == []
        looked.close()


@pytest.mark.parametrize(
    "url",
    [
        "mysql://x/y",
        "sqlite://",
        "not an address",
        "sqlite:///ledger.db",
        "sqlite:///~/ledger.db",
        "postgresql://me:p@ss:word@host/x",
    ],
)
def test_an_address_that_cannot_hold_a_ledger_is_refused(url: str) -> None:
    with pytest.raises(BadInput):
        Ledger.open(url)


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg", "postgresql+psycopg2"])
def test_a_server_that_does_not_answer_is_unavailable(tmp_path: Path, scheme: str) -> None:
    with pytest.raises(LedgerUnavailable, match="correct the address"):
        Ledger.open(f"{scheme}://postgres@/x?host={tmp_path}")


def test_a_driver_that_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(BadInput, match="pip install"):
        Ledger.open(f"postgresql://postgres@/x?host={tmp_path}")


def test_uncreatable_folder_is_reported_as_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LedgerUnavailable, match=r"ledger\.db: cannot be created"):
        Ledger.open(address(tmp_path / "file" / "ledger.db"))


def _rubbish(data: bytes) -> bytes:
    return b"this is no database at all" * 200


def _holes(data: bytes) -> bytes:
    return data[:8192] + b"\xff" * (len(data) - 8192)


def _cut(data: bytes) -> bytes:
    return data[: len(data) // 2 + 100]


def _half(data: bytes) -> bytes:
    return data[: len(data) // 8192 * 4096]


@pytest.mark.parametrize("damage", [_rubbish, _holes, _cut, _half])
def test_damaged_file_is_reported_and_unchanged(sqlite_world: World, damage: object) -> None:
    sqlite_world.ingest(*notes(20))
    sqlite_world.ledger.close()
    file = Path(sqlite_world.url.removeprefix("sqlite:///"))
    file.write_bytes(damage(file.read_bytes()))  # type: ignore[operator]
    before = file.read_bytes()
    with pytest.raises(LedgerCorrupt, match="file is damaged"):
        Ledger.open(sqlite_world.url)
    assert file.read_bytes() == before
    sqlite_world.ledger.close()


@pytest.mark.parametrize("table", ["chain", "search_model", "revision"])
def test_ledger_without_a_row_of_its_beginning_is_damaged(sqlite_world: World, tmp_path: Path, table: str) -> None:
    sqlite_world.ingest(*notes(2))
    sqlite_world.ledger.close()
    file = Path(sqlite_world.url.removeprefix("sqlite:///"))
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(f"DELETE FROM {table}")

    def use() -> None:
        with closing(Ledger.open(sqlite_world.url)) as ledger:
            assert ledger.embeddings.setting
            ledger.back_up(tmp_path / "copy.db", {})

    with pytest.raises(LedgerCorrupt, match="file is damaged"):
        use()
    assert not (tmp_path / "copy.db").exists()


def test_truncated_large_file_is_reported(sqlite_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catchment.ledger.admin.opening._CHECKED_WHOLE", 0)
    sqlite_world.ingest(*notes(20))
    sqlite_world.ledger.close()
    file = Path(sqlite_world.url.removeprefix("sqlite:///"))
    file.write_bytes(_half(file.read_bytes()))
    with pytest.raises(LedgerCorrupt, match="file is damaged"):
        Ledger.open(sqlite_world.url)


def test_full_disk_is_reported_without_data_loss(sqlite_world: World) -> None:
    sqlite_world.ingest(*notes(3))
    sqlite_world.see(*notes(50, start=3))
    batch = sqlite_world.claim()
    with sqlite_world.ledger._store.engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(LedgerUnavailable, match="make room"):
        sqlite_world.ledger.queue.deliver(batch.token, [sqlite_world.done(job, "long " * 3000) for job in batch.jobs])
    sqlite_world.reopen()
    assert sqlite_world.ledger.check(deep=True) == []
    assert len(sqlite_world.found("says")) == 3
    assert len(sqlite_world.deliver(batch).succeeded) == 50


def test_connection_reading_an_old_snapshot_does_not_block_writers(sqlite_world: World) -> None:
    store = sqlite_world.ledger._store
    with store.read() as reading:
        begun = reading.connection.exec_driver_sql("SELECT name FROM sqlite_master")
        begun.fetchone()
    with closing(sqlite3.connect(sqlite_world.url.removeprefix("sqlite:///"), isolation_level=None)) as other:
        other.execute("UPDATE counters SET value = 9 WHERE name = 'token'")
    with store.write() as writing:
        assert writing.ids("token") == range(10, 11)


def test_locked_ledger_is_reported(sqlite_world: World) -> None:
    with sqlite_world.ledger._store.engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA busy_timeout = 20")
    with closing(sqlite3.connect(sqlite_world.url.removeprefix("sqlite:///"))) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerUnavailable, match="locked by another process"):
            sqlite_world.see(note("a.md"))
        assert sqlite_world.ledger.queue.jobs() == [], "a reader does not wait for a writer"


def _schema(url: str) -> dict[str, object]:
    """Return the database schema, independent of the order in which constraints were written."""
    engine = create_engine(url)
    if engine.dialect.name == "sqlite":
        with engine.connect() as connection:
            rows = connection.exec_driver_sql(
                "SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"
            ).all()
        found: dict[str, object] = {name: sorted(re.findall(r'[^\s,"]+', sql or "")) for name, sql in rows}
    else:
        seen = inspect(engine)
        with engine.connect() as connection:
            extra = connection.exec_driver_sql(
                "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' UNION"
                " SELECT pg_get_constraintdef(oid) FROM pg_constraint UNION SELECT pg_get_viewdef(oid) FROM pg_class"
                " WHERE relkind = 'v' AND relnamespace = 'public'::regnamespace UNION"
                " SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal"
            ).scalars()
            found = {"extra": sorted(extra)}
        for table in seen.get_table_names():
            found[table] = sorted(
                str(sorted((k, str(v)) for k, v in column.items())) for column in seen.get_columns(table)
            )
    engine.dispose()
    return found


@pytest.mark.parametrize(("dialect", "digest"), [("sqlite", "bc955cef"), ("postgresql", "3d6a82be")])
def test_first_migration_is_frozen_for_each_database(dialect: str, digest: str) -> None:
    assert hashlib.sha256(r0001_first._script(dialect).encode()).hexdigest().startswith(digest)


def test_migrations_yield_the_schema_of_a_new_ledger(sqlite_url: str, tmp_path: Path, clock: Clock) -> None:
    file = tmp_path / "migrated.db"
    file.touch()
    store = Store(address(file), clock)
    with store.write() as writing:
        migrations.run(writing.connection)
    store.close()
    assert _schema(address(file)) == _schema(sqlite_url)
    ledger = Ledger.open(address(file))
    assert ledger.check(deep=True) == []
    ledger.close()


@pytest.mark.postgres
def test_migrations_yield_the_schema_of_a_new_ledger_on_postgresql(empty_postgres: str, clock: Clock) -> None:
    made = _schema(empty_postgres)
    store = Store(empty_postgres, clock)
    with store.write() as writing:
        writing.connection.exec_driver_sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        migrations.run(writing.connection)
    store.close()
    assert _schema(empty_postgres) == made


def test_a_ledger_of_a_newer_program_is_left_alone(sqlite_world: World) -> None:
    with closing(sqlite3.connect(sqlite_world.url.removeprefix("sqlite:///"))) as connection, connection:
        connection.execute("UPDATE revision SET version_num = '9999'")
    with pytest.raises(SchemaMismatch, match="install a newer version"):
        Ledger.open(sqlite_world.url)
    with pytest.raises(SchemaMismatch, match="9999"):
        Ledger.inspect(sqlite_world.url)


def test_an_older_ledger_is_led_forward_after_a_backup(sqlite_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    sqlite_world.ingest(*notes(3))
    monkeypatch.setattr("catchment.ledger.db.schema.REVISION", "9998")
    with pytest.raises(SchemaMismatch, match="migrate it with `catchment down"):
        Ledger.inspect(sqlite_world.url)
    sqlite_world.ledger.close()
    Ledger.open(sqlite_world.url).close()
    file = Path(sqlite_world.url.removeprefix("sqlite:///"))
    (copy,) = file.parent.glob("*.backup.db")
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    monkeypatch.undo()
    saved = Ledger.inspect(address(copy))
    assert len(find_hits(saved, "says")) == 3
    saved.close()


def test_other_database_errors_are_ledger_errors(sqlite_world: World) -> None:
    with pytest.raises(LedgerError, match="SQLITE_CONSTRAINT"):
        sqlite_world.ledger.intake.record(sqlite_world.sync.id, [Upsert(note("a.md", None))], {})  # type: ignore[arg-type]


@pytest.mark.databases
def test_read_is_stopped_at_its_time_limit(world: World) -> None:
    ledger = Ledger.inspect(world.url, seconds=0.3)
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
    for _ in range(2):
        began = time.monotonic()
        with pytest.raises(LedgerUnavailable, match="took too long"), ledger._store.read() as reading:
            reading.connection.exec_driver_sql(endless).all()
        assert 0.2 < time.monotonic() - began < 20
        assert len(ledger.sources.all()) == 1
    time.sleep(0.4)
    assert len(ledger.sources.all()) == 1
    ledger.close()
