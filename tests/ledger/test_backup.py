"""Backups are taken during work, verified, and restorable after any damage to the ledger."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from sqlalchemy import select

from catchment.errors import BadInput, LedgerCorrupt, NotFound, Refused, SchemaMismatch, TryAgain
from catchment.ledger import LAST_ID, Ledger
from catchment.ledger.admin import backup, migrations
from catchment.ledger.db.schema import metadata
from catchment.ledger.library.embeddings import Embedding
from tests.faults.versions import die_at
from tests.hits import find_hits
from tests.ledger.test_crashes import in_child
from tests.ledger.world import Clock, World, note, notes

pytestmark = pytest.mark.databases

FILES = {"sources.yaml": b"deployments: []\n"}


def file_of(world: World) -> Path:
    return Path(world.url.removeprefix("sqlite:///"))


def rows_of(ledger: Ledger) -> dict[str, list[tuple[Any, ...]]]:
    """Return the content of all tables but the owner."""
    with ledger._store.read() as reading:
        rows = {name: reading.execute(select(table)).all() for name, table in metadata.tables.items()}
    return {name: sorted(repr(tuple(row)) for row in found if row[0] != "home") for name, found in rows.items()}


def seal_again(copy: Path) -> None:
    """Seal a backup that a test has changed."""
    os.truncate(copy, copy.stat().st_size // 4096 * 4096)
    backup.seal(copy)


def embed(world: World) -> None:
    """Give every passage a vector."""
    store = world.ledger.embeddings
    space = store.space("use", "use", 2)
    passages = store.missing(space, 0, 100)
    store.put(space, [Embedding(one.content_id, one.chunk_id, 0, b"digest", b"\x01\xff") for one in passages])


def found_in(file: Path, words: str = "says") -> int:
    ledger = Ledger.inspect(f"sqlite:///{file}", clock=Clock())
    try:
        assert ledger.check(deep=True) == []
        return len(find_hits(ledger, words, limit=1_000))
    finally:
        ledger.close()


def test_backup_during_a_sync_holds_the_committed_data(sqlite_world: World, tmp_path: Path) -> None:
    world, copy = sqlite_world, tmp_path / "kept" / "copy.db"
    world.ingest(*notes(30))
    world.see(*notes(10, start=30))
    batch = world.claim()
    with world.ledger._store.write() as writing:
        writing.ids("token")
        assert world.ledger.back_up(copy, FILES) == [], "it waits for nobody, and running jobs are no fault"
    world.deliver(batch)
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert [path.name for path in copy.parent.iterdir()] == ["copy.db"]
    assert found_in(copy) == 30
    with pytest.raises(BadInput, match="file exists"):
        world.ledger.back_up(copy, FILES)


def test_unfinished_backup_leaves_no_file(sqlite_world: World, tmp_path: Path) -> None:
    sqlite_world.ingest(*notes(30))
    sqlite_world.ledger.close()
    file = file_of(sqlite_world)
    data = file.read_bytes()
    file.write_bytes(data[: 8192 * 10] + b"\xff" * (len(data) - 8192 * 10))
    with pytest.raises(LedgerCorrupt, match="catchment restore"):
        sqlite_world.ledger.back_up(tmp_path / "copy.db", FILES)
    assert list(tmp_path.glob("*copy*")) == []


def test_two_backups_to_one_name_keep_the_first_completed(sqlite_world: World, tmp_path: Path) -> None:
    sqlite_world.ingest(*notes(3))
    target = tmp_path / "copy.db"

    class Meanwhile(dict[str, bytes]):
        """Files that are first read just after another backup took the name."""

        def items(self) -> Any:
            other = Thread(target=sqlite_world.ledger.back_up, args=(target, {"first": b"1"}))
            other.start()
            other.join()
            return super().items()

    with pytest.raises(BadInput, match=r"copy\.db: file exists"):
        sqlite_world.ledger.back_up(target, Meanwhile())
    with closing(sqlite3.connect(target)) as kept:
        assert kept.execute("SELECT name FROM backup").fetchall() == [("first",), ("made",)]
    assert list(tmp_path.glob("*copy*")) == [target]


def _damaged(file: Path) -> None:
    file.write_bytes(b"this is no database at all" * 200)


def _gone(file: Path) -> None:
    file.unlink()


def _as_it_is(_file: Path) -> None:
    pass


@pytest.mark.parametrize("accident", [_damaged, _gone, _as_it_is])
def test_backup_is_restored_after_any_damage_to_the_ledger(
    sqlite_world: World, tmp_path: Path, accident: Callable[[Path], None]
) -> None:
    world, file = sqlite_world, file_of(sqlite_world)
    world.ingest(*notes(5))
    world.ledger.back_up(tmp_path / "copy.db", FILES)
    world.ingest(*notes(5, start=5))
    world.ledger.close()
    accident(file)
    before = file.read_bytes() if file.exists() else None
    sources = tmp_path / "sources.yaml"
    done = backup.restore(f"sqlite:///{file}", tmp_path / "copy.db", places=[sources])
    assert (sources.read_bytes(), done.broken) == (FILES["sources.yaml"], [])
    assert found_in(file) == 5
    if before is None:
        assert done.aside is None
    elif accident is _damaged:
        assert done.aside is not None and (done.aside / file.name).read_bytes() == before
    else:
        assert done.aside is not None and found_in(done.aside / file.name) == 10
        assert backup.restore(f"sqlite:///{file}", done.aside / file.name).broken == []
        assert found_in(file) == 10, "what was replaced can be brought back too"
    assert [path.name for path in file.parent.iterdir() if "restoring" in path.name] == []


def test_log_of_a_damaged_ledger_is_not_applied_to_the_restored_one(sqlite_world: World, tmp_path: Path) -> None:
    world, file = sqlite_world, file_of(sqlite_world)
    world.ingest(*notes(5))
    world.ledger.back_up(tmp_path / "copy.db", {})
    world.ingest(*notes(5, start=5))
    log = file.with_name(f"{file.name}-wal").read_bytes()
    world.ledger.close()
    _damaged(file)
    file.with_name(f"{file.name}-wal").write_bytes(log)
    done = backup.restore(f"sqlite:///{file}", tmp_path / "copy.db")
    assert found_in(file) == 5
    assert done.aside is not None and (done.aside / f"{file.name}-wal").read_bytes() == log


@pytest.mark.parametrize("accident", [_damaged, _as_it_is])
@pytest.mark.parametrize("step", ["rename", "hardlink_to", "replace"])
def test_killed_restore_is_completed_by_the_next(
    sqlite_world: World, tmp_path: Path, accident: Callable[[Path], None], step: str
) -> None:
    world, file = sqlite_world, file_of(sqlite_world)
    world.ingest(*notes(5))
    world.ledger.back_up(tmp_path / "copy.db", {})
    world.ingest(*notes(5, start=5))
    log = file.with_name(f"{file.name}-wal").read_bytes()
    world.ledger.close()
    accident(file)
    if accident is _damaged:
        file.with_name(f"{file.name}-wal").write_bytes(log)
    child = os.fork()
    if child == 0:
        setattr(Path, step, lambda *_: os.kill(os.getpid(), 9))
        backup.restore(f"sqlite:///{file}", tmp_path / "copy.db")
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or (step, accident) == ("rename", _as_it_is), (
        "a sound one has no log left to put aside"
    )
    assert file.exists(), "there is a ledger at any moment"
    assert backup.restore(f"sqlite:///{file}", tmp_path / "copy.db").broken == []
    assert found_in(file) == 5


def test_restore_refuses_a_ledger_in_use(sqlite_world: World, tmp_path: Path) -> None:
    sqlite_world.ledger.back_up(tmp_path / "copy.db", {})
    sqlite_world.ingest(*notes(3))
    with pytest.raises(TryAgain, match="another process"):
        backup.restore(sqlite_world.url, tmp_path / "copy.db")
    sqlite_world.reopen()
    assert len(sqlite_world.found("says")) == 3


def test_ledger_that_is_opened_during_a_restore_is_the_restored_one(
    sqlite_world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, copy = file_of(sqlite_world), tmp_path / "copy.db"
    sqlite_world.ingest(*notes(3))
    sqlite_world.ledger.back_up(copy, {})
    sqlite_world.ingest(*notes(6, start=3))
    sqlite_world.ledger.close()
    seen: list[int] = []
    opener = Thread(target=lambda: seen.append(found_in(file)))
    put_aside = backup._put_aside

    def _opened_meanwhile(replaced: Path) -> Path | None:
        opener.start()
        opener.join(0.3)
        return put_aside(replaced)

    monkeypatch.setattr(backup, "_put_aside", _opened_meanwhile)
    backup.restore(sqlite_world.url, copy)
    opener.join(60)
    assert seen == [3]
    assert found_in(file) == 3


def test_invalid_backup_leaves_the_ledger_unchanged(sqlite_world: World, tmp_path: Path) -> None:
    file, other = file_of(sqlite_world), tmp_path / "other.db"
    sqlite_world.ingest(*notes(3))
    sqlite_world.ledger.back_up(tmp_path / "copy.db", {})
    sqlite_world.ledger.close()
    with pytest.raises(NotFound):
        backup.restore(f"sqlite:///{file}", other)
    other.write_text("a letter to a friend " * 500)
    with pytest.raises(BadInput, match="not a backup"):
        backup.restore(f"sqlite:///{file}", other)
    with closing(sqlite3.connect(tmp_path / "third.db")) as third, third:
        third.execute("CREATE TABLE stamps (country TEXT)")
    with pytest.raises(BadInput, match="not a backup"):
        backup.restore(f"sqlite:///{file}", tmp_path / "third.db")
    copy = (tmp_path / "copy.db").read_bytes()
    other.write_bytes(copy[: len(copy) // 8192 * 4096])
    with pytest.raises(LedgerCorrupt, match="nothing was changed"):
        backup.restore(f"sqlite:///{file}", other)
    with closing(sqlite3.connect(tmp_path / "copy.db")) as newer, newer:
        newer.execute("UPDATE revision SET version_num = '9999'")
    seal_again(tmp_path / "copy.db")
    with pytest.raises(SchemaMismatch):
        backup.restore(f"sqlite:///{file}", tmp_path / "copy.db")
    assert found_in(file) == 3
    assert list(file.parent.glob("replaced-*")) == []


def _changed(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x20]) + data[at + 1 :]


def test_damage_anywhere_in_a_backup_changes_nothing(sqlite_world: World, tmp_path: Path) -> None:
    world, file, copy = sqlite_world, file_of(sqlite_world), tmp_path / "copy.db"
    for number in range(40):
        world.ingest(note(f"{number}.md"), text=f"What {number} says " * 400)
    world.ledger.back_up(copy, FILES)
    world.ledger.close()
    before, data = file.read_bytes(), copy.read_bytes()
    with closing(sqlite3.connect(copy)) as opened:
        page, pages = (opened.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_size", "page_count"))
    seal = len(data) - page * pages
    assert 0 < seal < 512
    chance = random.Random(3)
    places = {data.index(b"What 7 says"), 24, 100, *range(len(data) - seal, len(data), 7)}
    places |= {chance.randrange(len(data)) for _ in range(60)}
    damaged = [_changed(data, at) for at in sorted(places)]
    damaged += [data[:-seal], data[: -seal - 1], data[: page * (pages - 1)], data[: page * pages // 2], data + b"\0"]
    for one in damaged:
        copy.write_bytes(one)
        with pytest.raises((LedgerCorrupt, BadInput)):
            backup.restore(f"sqlite:///{file}", copy)
        assert file.read_bytes() == before
    copy.write_bytes(data)
    assert backup.restore(f"sqlite:///{file}", copy).broken == []


def test_overwritten_empty_page_of_a_backup_is_noticed(sqlite_world: World, tmp_path: Path) -> None:
    file, copy = file_of(sqlite_world), tmp_path / "copy.db"
    sqlite_world.ingest(*notes(3))
    sqlite_world.ledger.back_up(copy, FILES)
    sqlite_world.ledger.close()
    with closing(sqlite3.connect(copy)) as changed:
        changed.execute("CREATE TABLE more AS SELECT hex(randomblob(40000)) AS word")
        changed.execute("DROP TABLE more")
        changed.commit()
        page, free = (changed.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_size", "freelist_count"))
    assert free > 3
    seal_again(copy)
    assert backup.restore(f"sqlite:///{file}", copy).broken == []
    data = copy.read_bytes()
    copy.write_bytes(_changed(data, len(data) // page * page - page // 2))
    with pytest.raises(LedgerCorrupt, match="damaged backup"):
        backup.restore(f"sqlite:///{file}", copy)


def test_any_sqlite_program_reads_a_sealed_backup(sqlite_world: World, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    sqlite_world.ingest(*notes(3))
    sqlite_world.ledger.back_up(copy, FILES)
    for is_counted in (True, False):
        if not is_counted:
            # As after an old version of SQLite wrote to it: the number of pages in the header is not valid.
            with copy.open("rb+") as file:
                file.seek(92)
                file.write(b"\xff" * 4)
        with closing(sqlite3.connect(f"file:{copy}?mode=ro", uri=True)) as opened:
            assert opened.execute("SELECT count(*) FROM documents").fetchone() == (3,)
            if is_counted:
                assert opened.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_backup_of_an_older_version_has_no_seal_and_is_restored(sqlite_world: World, tmp_path: Path) -> None:
    file, copy = file_of(sqlite_world), tmp_path / "copy.db"
    sqlite_world.ingest(*notes(3))
    sqlite_world.ledger.back_up(copy, FILES)
    sqlite_world.ledger.close()
    os.truncate(copy, copy.stat().st_size // 4096 * 4096)
    with closing(sqlite3.connect(copy)) as older, older:
        older.execute("DELETE FROM backup WHERE name = 'made'")
    sources = tmp_path / "sources.yaml"
    assert backup.restore(f"sqlite:///{file}", copy, places=[sources]).broken == []
    assert (sources.read_bytes(), found_in(file)) == (FILES["sources.yaml"], 3)


def test_sealed_backup_with_violated_invariants_is_restored_and_names_them(sqlite_world: World, tmp_path: Path) -> None:
    file, copy = file_of(sqlite_world), tmp_path / "copy.db"
    sqlite_world.ingest(*notes(3))
    with sqlite_world.ledger._store.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE jobs SET state = 'skipped' WHERE id = 2")
    broken = sqlite_world.ledger.back_up(copy, FILES)
    assert broken
    sqlite_world.ledger.close()
    assert backup.restore(f"sqlite:///{file}", copy).broken == broken


def test_copy_made_before_a_migration_can_be_restored(sqlite_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    file = file_of(sqlite_world)
    sqlite_world.ingest(*notes(3))
    sqlite_world.ledger.close()
    monkeypatch.setattr("catchment.ledger.db.schema.REVISION", "9998")
    led = migrations.forward(sqlite_world.ledger._store)
    monkeypatch.undo()
    sqlite_world.reopen()
    sqlite_world.ingest(*notes(3, start=3))
    sqlite_world.ledger.close()
    assert led and led.kept
    assert backup.restore(f"sqlite:///{file}", led.kept).broken == []
    assert found_in(file) == 3


@pytest.fixture
def on_postgres(sqlite_world: World, empty_database: str) -> Iterator[Ledger]:
    """A ledger that was moved to PostgreSQL, with an open sync, undo data, a tombstone and an embedding."""
    world = sqlite_world
    world.ingest(*notes(30))
    world.see(note("n/1.md", "v2", identity="n1"), note("later.md"))
    world.lose("n/2.md")
    world.deliver(world.claim(1))
    embed(world)
    assert world.ledger.move(empty_database) == world.ledger.history.latest()
    with closing(Ledger.open(empty_database, clock=world.clock, monotonic=world.clock.steady)) as ledger:
        yield ledger


@pytest.mark.postgres
def test_ledger_moved_to_postgresql_continues_there(sqlite_world: World, on_postgres: Ledger) -> None:
    before = sqlite_world.ledger
    assert on_postgres.check(deep=True) == []
    first, then = (find_hits(ledger, "says", limit=100) for ledger in (before, on_postgres))
    assert [(hit.document, hit.snippet) for hit in then] == [(hit.document, hit.snippet) for hit in first]
    assert rows_of(on_postgres) == rows_of(before)
    moved = World.__new__(World)
    vars(moved).update(vars(sqlite_world) | {"ledger": on_postgres})
    moved.deliver(moved.claim())
    moved.settle()
    assert on_postgres.check(deep=True) == []
    assert moved.found("later") == ["later.md"]
    with pytest.raises(Refused, match="not empty"):
        before.move(str(on_postgres._store.url.render_as_string(hide_password=False)))


@pytest.mark.postgres
def test_backup_of_postgresql_is_restored_on_both_databases(
    on_postgres: Ledger, empty_database: str, tmp_path: Path
) -> None:
    copy, sources, folder = tmp_path / "copy.db", tmp_path / "sources.yaml", tmp_path / "pushed"
    (folder / "clips").mkdir(parents=True)
    for name in ("lost", "newer"):
        (folder / "clips" / name).write_bytes(b"as in the backup\0")
    assert on_postgres.back_up(copy, FILES, folders=[folder]) == []
    kept = rows_of(on_postgres)
    (folder / "clips" / "lost").unlink()
    (folder / "clips" / "newer").write_bytes(b"newer")
    assert backup.restore(f"sqlite:///{tmp_path / 'new.db'}", copy).broken == []
    with closing(Ledger.inspect(f"sqlite:///{tmp_path / 'new.db'}")) as ledger:
        assert rows_of(ledger) == kept
    on_postgres.sources.remove("notes", "anna", "moved")
    on_postgres.close()
    damaged = tmp_path / "damaged.db"
    damaged.write_bytes(_changed(copy.read_bytes(), copy.stat().st_size // 2))
    with pytest.raises(LedgerCorrupt, match="damaged backup"):
        backup.restore(empty_database, damaged, places=[sources])
    done = backup.restore(empty_database, copy, places=[sources, folder])
    assert (done.broken, sources.read_bytes()) == ([], FILES["sources.yaml"])
    assert {file.name: file.read_bytes() for file in (folder / "clips").iterdir()} == {
        "lost": b"as in the backup\0",
        "newer": b"newer",
    }
    with closing(Ledger.inspect(empty_database)) as ledger:
        assert rows_of(ledger) == kept
        assert not ledger.is_restore_unfinished
        assert ledger.purging.replaced() == [str(done.aside)]
        with ledger._store.read() as reading:
            replaced = f'SELECT state FROM "{done.aside}".sources'
            assert reading.connection.exec_driver_sql(replaced).scalar_one() == "removed"


def _killed_at(step: int, work: Callable[[], object]) -> bool:
    """Run `work` in a process that is killed at this step, and return whether it was."""

    def die() -> None:
        die_at(step)
        work()

    end = in_child(die)()
    assert end in (0, -signal.SIGKILL)
    return end != 0


@pytest.mark.postgres
@pytest.mark.parametrize("stride", [67, pytest.param(7, marks=pytest.mark.long)])
def test_killed_restore_on_postgresql_is_completed_by_the_next(
    on_postgres: Ledger, empty_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stride: int
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    copy, sources = tmp_path / "copy.db", tmp_path / "sources.yaml"
    on_postgres.back_up(copy, FILES)
    kept = rows_of(on_postgres)
    on_postgres.sources.remove("notes", "anna", "moved")
    changed = rows_of(on_postgres)
    on_postgres.close()
    step = 1
    while _killed_at(step, lambda: backup.restore(empty_database, copy, places=[sources])):
        with closing(Ledger.inspect(empty_database)) as ledger:
            rows = rows_of(ledger)
            assert rows == kept or (rows == changed and not sources.exists())
            assert ledger.check(deep=True) == []
        step += stride
    assert step > 200
    with closing(Ledger.inspect(empty_database)) as ledger:
        assert (rows_of(ledger), ledger.is_restore_unfinished) == (kept, False)
    assert sources.read_bytes() == FILES["sources.yaml"]


@pytest.mark.postgres
@pytest.mark.parametrize("stride", [67, pytest.param(7, marks=pytest.mark.long)])
def test_killed_backup_of_postgresql_leaves_no_file_or_a_whole_one(
    on_postgres: Ledger, empty_database: str, tmp_path: Path, stride: int
) -> None:
    kept, copy, step = rows_of(on_postgres), tmp_path / "kept" / "copy.db", 1
    on_postgres.close()

    def back_up() -> None:
        with closing(Ledger.inspect(empty_database)) as ledger:
            ledger.back_up(copy, FILES)

    def check() -> None:
        restored = tmp_path / f"restored-{step}.db"
        assert backup.restore(f"sqlite:///{restored}", copy).broken == []
        with closing(Ledger.inspect(f"sqlite:///{restored}")) as ledger:
            assert rows_of(ledger) == kept

    while _killed_at(step, back_up):
        if copy.exists():
            check()
            copy.unlink()
        step += stride
    assert step > 200
    check()
    assert [*copy.parent.iterdir()] == [copy]


@pytest.mark.postgres
def test_moved_and_restored_library_continues_to_note_changes_for_its_sinks(
    sqlite_world: World, empty_database: str, tmp_path: Path
) -> None:
    world = sqlite_world
    world.ingest(*notes(3))
    sink = world.ledger.outbox.add("copies", "chroma", "http://localhost/c", None, "anna", wants_vectors=True)
    world.ledger.outbox.received(world.ledger.outbox.compare(sink, "a stamp"), [], {}, compared=LAST_ID)
    world.ledger.move(empty_database)
    for copy in (tmp_path / "1.db", tmp_path / "2.db"):
        with closing(Ledger.open(empty_database, clock=world.clock, monotonic=world.clock.steady)) as ledger:
            moved = ledger.outbox.get("copies")
            assert (moved.compared, moved.waiting) == (0, 3)
            assert ledger.outbox.received(ledger.outbox.compare(moved, "new"), [], {}, compared=LAST_ID).waiting == 0
            ledger.back_up(copy, FILES)
            ledger.sources.remove("notes", "anna", "")
            assert ledger.outbox.get("copies").waiting == 3
        backup.restore(empty_database, copy)
    with closing(Ledger.open(empty_database)) as ledger:
        assert ledger.outbox.get("copies").compared == 0
        ledger.outbox.remove("copies", "anna")


@pytest.mark.postgres
def test_failed_move_and_restore_change_nothing(
    on_postgres: Ledger, empty_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_postgres.back_up(tmp_path / "copy.db", FILES)
    kept = rows_of(on_postgres)

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("catchment.ledger.admin.index_check.rebuild", fail)
    with pytest.raises(KeyboardInterrupt):
        backup.restore(empty_database, tmp_path / "copy.db")
    assert rows_of(on_postgres) == kept
    with pytest.raises(KeyboardInterrupt):
        on_postgres.move(f"sqlite:///{tmp_path / 'new.db'}")
    monkeypatch.undo()
    on_postgres.move(f"sqlite:///{tmp_path / 'new.db'}")
    with closing(Ledger.inspect(f"sqlite:///{tmp_path / 'new.db'}")) as ledger:
        assert rows_of(ledger) == kept


def test_vacuum_refuses_during_a_sync_and_keeps_all_data(world: World) -> None:
    world.ingest(*notes(20), note("kept.md"))
    with pytest.raises(TryAgain, match="sync is running"):
        world.ledger.vacuum(lambda owner: True)
    world.ledger.vacuum(lambda owner: False)
    assert world.found("kept") == ["kept.md"]
    assert world.ledger.check(deep=True) == []


def test_vacuum_frees_the_space_of_a_removed_source(sqlite_world: World) -> None:
    for n in range(25):
        sqlite_world.ingest(note(f"{n}.md"), text=f"{n} " * 10_000)
    sqlite_world.ledger.sources.remove("notes", "anna", "moved")
    before, after = sqlite_world.ledger.vacuum(lambda owner: False)
    assert after < before / 2


@pytest.mark.parametrize("accident", [_damaged, _gone])
@pytest.mark.parametrize("ending", ["-wal", "-journal"])
def test_pending_log_and_journal_are_not_applied_to_the_restored_ledger(
    sqlite_world: World, tmp_path: Path, accident: Callable[[Path], None], ending: str
) -> None:
    world, file = sqlite_world, file_of(sqlite_world)
    world.ingest(*notes(5))
    world.ledger.back_up(tmp_path / "copy.db", {})
    world.ledger.close()
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute(f"PRAGMA journal_mode = {'WAL' if ending == '-wal' else 'DELETE'}")
        other.execute("PRAGMA cache_size = 1")
        other.execute("BEGIN IMMEDIATE")
        other.execute("UPDATE items SET locator = locator || '.old'")
        other.execute("CREATE TABLE more AS SELECT hex(randomblob(40000)) AS word")
        if ending == "-wal":
            other.execute("COMMIT")
        left = file.with_name(file.name + ending).read_bytes()
        other.rollback()
    accident(file)
    log = file.with_name(file.name + ending)
    log.write_bytes(left)
    done = backup.restore(f"sqlite:///{file}", tmp_path / "copy.db")
    assert found_in(file) == 5
    assert done.aside is not None and (done.aside / log.name).exists()
