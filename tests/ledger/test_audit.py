"""The audit finds each change of a signed history, and anybody can verify its bundles with Python alone."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import sqlite3
import subprocess
import sys
import tarfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import func, select
from sqlalchemy.exc import DBAPIError

from catchment.audit import chain, comparison, export, verify
from catchment.audit.comparison import Fate, compare
from catchment.audit.signing import public_key, rotate
from catchment.audit.tree import Tree
from catchment.errors import AccessDenied, BadInput, FetchFailed, NotFound, Refused, SkipReason
from catchment.ledger.db.history_chain import link
from catchment.ledger.db.job_states import ARROWS
from catchment.ledger.db.schema import history
from catchment.model import Failure, Priority, Skip
from catchment.runtime.home import Home
from tests.ledger.world import World, note, notes

CHANGES = pytest.mark.parametrize("changes", [200, pytest.param(1_000, marks=pytest.mark.long)])


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").make()


@pytest.fixture
def signed(sqlite_world: World, home: Home) -> World:
    """A ledger with a history of several kinds, signed after most of it."""
    world = sqlite_world
    world.ingest(*notes(6))
    world.ledger.history.note("backed up", "operator:anna", 'Grüße \u2028 "quoted" \\ \x7f')
    assert chain.verify(home, world.ledger, sign=True).problems == ()
    world.ingest(*notes(2, 6))
    return world


def unpack(made: export.ExportedBundle, folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    comparison.unpack(made.file, folder)
    return folder


def test_the_verifier_knows_the_states_and_the_hashes_of_the_ledger() -> None:
    assert {state.value: {to.value for to in after} for state, after in ARROWS.items()} == verify.TRANSITIONS
    row = [1, 2, 'Ü\u2028"\\\n\x01\x7f', "e", None, None, 3, None, None, "\U0001f600"]
    assert verify.link(b"previous", row) == link(b"previous", row)


def test_a_listing_and_an_undo_may_begin_a_job_with_its_result(sqlite_world: World, home: Home) -> None:
    world = sqlite_world
    world.ingest(*notes(3))
    world.record(
        Skip(note("large.md"), SkipReason.TOO_LARGE),
        Failure(note("denied.md"), AccessDenied("denied.md")),
        Failure(note("slow.md"), FetchFailed("slow.md")),
    )
    world.ledger.syncs.end(world.sync.id, "completed", {})
    assert world.ledger.undo.undo(world.sync.id, "anna", "", lambda _: False).actions
    with world.ledger._store.read() as reading:
        begun = select(func.min(history.c.id)).where(history.c.job_id.is_not(None)).group_by(history.c.job_id)
        first = set(reading.execute(select(history.c.event).where(history.c.id.in_(begun))).scalars())
    assert first == verify.FIRST - {"succeeded"}
    assert chain.verify(home, world.ledger, sign=True).problems == ()


def test_signatures_are_those_of_ed25519() -> None:
    key = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    public, signature = key.public_key().public_bytes_raw(), key.sign(b"text")
    assert verify.is_signed(public, b"text", signature)
    assert not verify.is_signed(public, b"texT", signature)
    for bit in range(0, 512, 7):
        changed = bytearray(signature)
        changed[bit // 8] ^= 1 << bit % 8
        assert not verify.is_signed(public, b"text", bytes(changed))


def _as_attacker(rows: list[list[Any]]) -> tuple[list[tuple[Any, ...]], bytes]:
    """Return the rows with new hashes, and the last hash: an attacker who may write the file can compute them."""
    previous, made = b"", []
    for row in rows:
        previous = link(previous, row)
        made.append((*row, previous))
    return made, previous


def _forge(rows: list[list[Any]], chance: random.Random) -> None:
    """Change, remove, add or exchange rows among the signed ones."""
    at = chance.randrange(len(rows))
    match chance.randrange(4):
        case 0:
            column = chance.randrange(1, 10)
            old = rows[at][column]
            rows[at][column] = f"{old}!" if isinstance(old, str) or (old is None and column == 9) else (old or 0) + 1
        case 1:
            del rows[at]
        case 2:
            rows.insert(at, list(rows[at]))
        case _:
            other = (at + 1) % len(rows)
            rows[at][1:], rows[other][1:] = rows[other][1:], rows[at][1:]
    for number, row in enumerate(rows, 1):
        row[0] = number


@CHANGES
@pytest.mark.full
def test_no_change_of_a_signed_history_stays_unseen(signed: World, home: Home, changes: int) -> None:
    file = signed.url.removeprefix("sqlite:///")
    columns = "id, at, actor, event, source_id, item_id, job_id, sync_id, attempt, reason"
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.executescript("DROP TRIGGER history_no_update; DROP TRIGGER history_no_delete;")
        original = connection.execute(f"SELECT {columns} FROM history ORDER BY id").fetchall()
        covered = json.loads(home.checkpoints.read_text())["note"].split("\n")[1]
        chance, unseen, tried = random.Random(42), [], 0
        while tried < changes:
            rows = [list(row) for row in original]
            of_signed, rest = rows[: int(covered)], rows[int(covered) :]
            _forge(of_signed, chance)
            if of_signed == [list(row) for row in original[: int(covered)]]:
                continue  # two equal rows were exchanged
            tried += 1
            forged, head = _as_attacker([*of_signed, *rest] if len(of_signed) == int(covered) else of_signed)
            connection.execute("BEGIN")
            connection.execute("DELETE FROM history")
            connection.executemany(f"INSERT INTO history VALUES ({', '.join('?' * 11)})", forged)
            connection.execute("UPDATE chain SET length = ?, hash = ?", (len(forged), head))
            connection.execute("COMMIT")
            if not chain.verify(home, signed.ledger).problems:
                unseen.append(forged)
    assert unseen == []


def test_a_job_in_another_state_than_its_history_says_is_found(signed: World, home: Home) -> None:
    with closing(sqlite3.connect(signed.url.removeprefix("sqlite:///"))) as connection, connection:
        connection.execute("UPDATE jobs SET state = 'cancelled' WHERE id = 2")
    assert chain.verify(home, signed.ledger).problems == ("Job 2 is cancelled, and succeeded by its history",)


def test_checkpoints_that_another_key_signed_are_found(signed: World, home: Home, tmp_path: Path) -> None:
    stranger = Home(tmp_path / "stranger")
    chain.verify(stranger, signed.ledger, sign=True)
    home.checkpoints.write_bytes(home.checkpoints.read_bytes() + stranger.checkpoints.read_bytes())
    (problem,) = chain.verify(home, signed.ledger).problems
    assert problem == "Checkpoint 2: it was signed with an unknown key"


def test_a_new_key_is_vouched_for_by_the_old_one(signed: World, home: Home) -> None:
    old = public_key(home).key
    new = rotate(home).key
    assert old != new == public_key(home).key
    found = chain.verify(home, signed.ledger, sign=True)
    assert (found.problems, found.checkpoints) == ((), 1)
    assert chain.verify(home, signed.ledger).signed == found.rows


@pytest.fixture
def two_sources(signed: World) -> World:
    other = signed.ledger.sources.put("private", "local_files", Priority.NORMAL)
    signed.source, signed.sync = other, signed.begin(other)
    signed.ingest(*notes(3, folder="p"))
    return signed


@pytest.mark.parametrize("source", [None, "notes"])
def test_a_bundle_is_verified_with_python_alone(
    two_sources: World, home: Home, tmp_path: Path, source: str | None
) -> None:
    made = export.export(home, two_sources.ledger, tmp_path / "one.tar", source)
    again = export.export(home, two_sources.ledger, tmp_path / "two.tar", source)
    assert made.file.read_bytes() == again.file.read_bytes()
    folder = unpack(made, tmp_path / "unpacked")
    run = [sys.executable, "-I", str(folder / "verify.py"), "--item", "2", "--key", public_key(home).key]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    first, period, sources, tables, *events = done.stdout.splitlines()
    assert first == f"intact: {made.rows} of {made.size} rows of the history, signed with {public_key(home).key}"
    assert period == "period: 2026-11-20 12:00:00 UTC to 2026-11-20 12:00:00 UTC"
    in_bundle = {"notes", "private"} - ({"private"} if source else set())
    assert {name for name in ("notes", "private") if f"{name} (" in sources} == in_bundle
    assert tables.startswith(f"tables: history ({made.rows} rows, proven), jobs (")
    assert [line.split("  ")[2] for line in events] == ["pending", "running", "succeeded"]
    shown = "".join((folder / name).read_text() for name in (*verify.FILES[:-1], "manifest.json"))
    assert ("private" in shown) is (source is None)
    # Names of items and text must not leave the home.
    assert "n/0.md" not in shown
    assert "What 0 says" not in shown


@CHANGES
@pytest.mark.full
def test_no_changed_byte_of_a_bundle_stays_unseen(two_sources: World, home: Home, tmp_path: Path, changes: int) -> None:
    made = export.export(home, two_sources.ledger, tmp_path / "bundle.tar", "notes")
    folder = unpack(made, tmp_path / "unpacked")
    files = sorted(path for path in folder.iterdir() if path.stat().st_size)
    chance, unseen = random.Random(7), []
    for _ in range(changes):
        file = chance.choice(files)
        kept = file.read_bytes()
        changed = bytearray(kept)
        changed[chance.randrange(len(kept))] ^= 1 << chance.randrange(8)
        file.write_bytes(changed)
        try:
            verify.bundle(folder, public_key(home).key)
            unseen.append((file.name, bytes(changed)))
        except (verify.Broken, ValueError, KeyError, TypeError):
            pass
        file.write_bytes(kept)
    assert unseen == []


def test_a_bundle_since_a_time_shows_only_later_rows(two_sources: World, home: Home, tmp_path: Path) -> None:
    two_sources.clock.forward(days=1)
    since = two_sources.clock.moment
    two_sources.ingest(*notes(1, 9))
    made = export.export(home, two_sources.ledger, tmp_path / "bundle.tar", since=since)
    assert 0 < made.rows < made.size
    found = verify.bundle(unpack(made, tmp_path / "unpacked"))
    assert sum(found.rows.values()) == made.rows


def test_a_bundle_says_what_became_of_its_documents(signed: World, home: Home, tmp_path: Path) -> None:
    made = export.export(home, signed.ledger, tmp_path / "bundle.tar", "notes")
    signed.ingest(note("n/1.md", "v2"), note("n/20.md"))
    signed.lose("n/2.md")
    signed.settle()
    signed.expire()
    found = compare(home, signed.ledger, made.file)
    number = {name: signed.ledger.intake.find(f"n/{name}.md")[0].document for name in ("0", "1", "20")}
    assert found.fates[number["0"]] is Fate.SAME
    assert found.fates[number["1"]] is Fate.CHANGED
    assert list(found.fates.values()).count(Fate.GONE) == 1
    assert found.new == 1
    made.file.write_bytes(made.file.read_bytes().replace(b"succeeded", b"succeedee", 1))
    with pytest.raises(BadInput, match=r"history\.jsonl: was changed; use the original file"):
        compare(home, signed.ledger, made.file)


def test_a_broken_history_is_not_signed_nor_exported(signed: World, home: Home, tmp_path: Path) -> None:
    with closing(sqlite3.connect(signed.url.removeprefix("sqlite:///"))) as connection, connection:
        connection.executescript("DROP TRIGGER history_no_update")
        connection.execute("UPDATE history SET reason = 'other' WHERE id = 3")
    before = home.checkpoints.read_bytes()
    assert chain.verify(home, signed.ledger, sign=True).problems
    with pytest.raises(Refused, match="row 3 of the history was changed; see `catchment audit verify`"):
        export.export(home, signed.ledger, tmp_path / "bundle.tar")
    assert home.checkpoints.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir() if "bundle" in path.name) == []


def test_an_export_refuses_what_it_cannot_do(signed: World, home: Home, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        export.export(home, signed.ledger, tmp_path / "bundle.tar", "nosuch")
    (tmp_path / "there.tar").touch()
    with pytest.raises(BadInput, match="exists already"):
        export.export(home, signed.ledger, tmp_path / "there.tar")


def _root(leaves: list[bytes]) -> bytes:
    """Return the root as RFC 6962 defines it."""
    if len(leaves) < 2:
        return leaves[0] if leaves else hashlib.sha256(b"").digest()
    half = verify.split(len(leaves))
    return hashlib.sha256(b"\1" + _root(leaves[:half]) + _root(leaves[half:])).digest()


@pytest.mark.parametrize("size", [0, 1, 2, 3, 5, 8, 13, 1_023, 1_024, 2_049, 5_000])
def test_each_choice_of_leaves_proves_the_same_root(size: int) -> None:
    proofs = [str(number).encode() for number in range(size)]
    leaves = list(map(verify.leaf, proofs))
    root = _root(leaves)
    chance = random.Random(size)
    every = (
        [[bool(choice >> number & 1) for number in range(size)] for choice in range(2 ** min(size, 8))]
        if size < 9
        else []
    )
    for shown in every or [[chance.random() < share for _ in proofs] for share in (0, 0.001, 0.5, 0.999, 1)]:
        tree = Tree()
        for start in range(0, size, 700):
            tree.extend(proofs[start : start + 700], shown[start : start + 700])
        known = [(number, leaf) for number, leaf in enumerate(leaves, 1) if shown[number - 1]]
        assert tree.size == size
        assert root == tree.root() == verify.root_of(size, known, tree.cover())


@pytest.mark.databases
def test_old_rows_are_erased_with_a_signature_and_the_rest_stays_proven(
    world: World, home: Home, tmp_path: Path
) -> None:
    world.ingest(*notes(3))
    world.clock.forward(days=100)
    day = world.clock.moment
    world.ingest(note("n/0.md", "v2"))
    assert chain.verify(home, world.ledger, sign=True).problems == ()
    assert chain.erase(home, world.ledger, day, "operator:anna", "enough") == 3
    assert chain.erase(home, world.ledger, day, "operator:anna", "again") == 0
    found = chain.verify(home, world.ledger)
    assert (found.problems, found.erased) == ((), 3)
    assert [event.event for event in world.ledger.history.of_item(1)] == ["pending", "running", "succeeded"]
    assert world.ledger.history.trail(9)[-1].reason == f"3 rows from before {day:%Y-%m-%d}; enough"
    made = export.export(home, world.ledger, tmp_path / "bundle.tar")
    found = verify.bundle(unpack(made, tmp_path / "unpacked"))
    assert found.size - sum(found.rows.values()) == 3
    with pytest.raises(DBAPIError, match="append-only"), world.ledger._store.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE history SET actor = 'nobody'")


@pytest.mark.databases
def test_actions_of_people_on_an_earlier_version_are_not_erased(world: World, home: Home, tmp_path: Path) -> None:
    world.see(*notes(3))
    first, second, _ = (job.job for job in world.ledger.queue.jobs())
    world.ledger.queue.prioritize(first, "operator:anna", "urgent")
    world.ledger.queue.cancel(second, "operator:anna", "not wanted")
    world.deliver(world.claim())
    world.clock.forward(days=100)
    day = world.clock.moment
    world.ingest(*(note(f"n/{number}.md", "v2") for number in range(3)))
    assert chain.verify(home, world.ledger, sign=True).problems == ()
    assert chain.erase(home, world.ledger, day, "operator:anna", "enough") == 3
    assert [event.event for event in world.ledger.history.trail(9)] == ["prioritized", "cancelled", "history erased"]
    assert (chain.verify(home, world.ledger).problems, world.ledger.check()) == ((), [])
    made = export.export(home, world.ledger, tmp_path / "bundle.tar")
    assert verify.bundle(unpack(made, tmp_path / "unpacked")).size > 0


def test_a_row_that_was_erased_without_a_signature_is_found(signed: World, home: Home) -> None:
    with closing(sqlite3.connect(signed.url.removeprefix("sqlite:///"))) as connection, connection:
        connection.executescript("DROP TRIGGER history_no_update")
        connection.execute(
            "UPDATE history SET event = '', actor = '', at = 0, item_id = NULL, job_id = NULL WHERE id = 3"
        )
    assert "Row 3 of the history was erased without a signature" in chain.verify(home, signed.ledger).problems


def test_another_row_in_place_of_an_erased_one_is_found(sqlite_world: World, home: Home) -> None:
    """The erased rows are in any earlier copy, and their hashes stay, so they can be put back and others erased."""
    sqlite_world.ledger.history.note("asked", "operator:anna")
    sqlite_world.ingest(*notes(3))
    sqlite_world.clock.forward(days=100)
    day = sqlite_world.clock.moment
    sqlite_world.ingest(note("n/0.md", "v2"))
    with closing(sqlite3.connect(sqlite_world.url.removeprefix("sqlite:///"))) as connection, connection:
        before = connection.execute("SELECT * FROM history").fetchall()
        assert chain.erase(home, sqlite_world.ledger, day, "operator:anna", "enough") == 3
        connection.executescript("DROP TRIGGER history_no_update; DROP TRIGGER history_no_delete;")
        (back,) = connection.execute("SELECT min(id) FROM history WHERE event = ''").fetchone()
        marks = ", ".join("?" * len(before[0]))
        connection.execute(f"INSERT OR REPLACE INTO history VALUES ({marks})", before[back - 1])
        (own,) = connection.execute("SELECT min(id) FROM history WHERE actor = 'operator:anna'").fetchone()
        assert own < back
        connection.execute("UPDATE history SET event = '', actor = '', at = 0, reason = NULL WHERE id = ?", (own,))
    problem, *_ = chain.verify(home, sqlite_world.ledger).problems
    assert problem == "The erased rows of the history are not those that may be erased"


@pytest.mark.databases
def test_both_databases_have_the_same_history(world: World, home: Home, tmp_path: Path) -> None:
    world.ingest(*notes(3))
    assert chain.verify(home, world.ledger, sign=True).problems == ()
    made = export.export(home, world.ledger, tmp_path / "bundle.tar")
    assert sum(verify.bundle(unpack(made, tmp_path / "unpacked")).rows.values()) == made.rows


@pytest.mark.parametrize("name", ["../out", "sub/file", "/etc/x", ".."])
def test_a_bundle_writes_only_into_its_own_folder(two_sources: World, home: Home, tmp_path: Path, name: str) -> None:
    forged = tmp_path / "forged.tar"
    with tarfile.open(forged, "w") as tar:
        tar.addfile(tarfile.TarInfo(name))
    with pytest.raises(BadInput, match="not an intact audit bundle"):
        compare(home, two_sources.ledger, forged)
    assert sorted(tmp_path.rglob("out")) == []
