"""The checkpoints of a home only grow. After any restore, rotation or kill, the audit is right and finds each forgery."""

from __future__ import annotations

import base64
import json
import os
import random
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from catchment.audit import chain, comparison, export, signing, verify
from catchment.audit.signed_log import Restoration, TreeHead, about, digest, dumped, read
from catchment.audit.tree import Tree
from catchment.errors import ConfigError, HomeUnavailable, LedgerCorrupt, Refused, TryAgain
from catchment.ledger import Ledger
from catchment.ledger.admin import backup as copies
from catchment.ledger.db.history_chain import link
from catchment.runtime import atomic_files
from catchment.runtime.home import Home
from catchment.views.health import LastCheck
from deployments.actions import backups
from deployments.actions.desk import Desk
from tasks import upkeep
from tests.ledger.world import Clock, World, note
from web.__main__ import desk_of

WHO = "operator:anna"
SEEDS = [pytest.param(seed, marks=pytest.mark.full if seed < 3 else pytest.mark.long) for seed in range(60)]


class KilledError(BaseException):
    """Ends a call where a kill would."""


@dataclass
class House:
    """A home with its ledger, and the expected result of its audit."""

    home: Home
    clock: Clock
    world: World
    signed: int = 0
    restored: list[tuple[str, int, int]] = field(default_factory=list)
    """The row of each restore ever done here, and its numbers."""
    versions: int = 0

    @classmethod
    def new(cls, folder: Path) -> House:
        home = Home(folder).make()
        clock = Clock()
        return cls(home, clock, World(home.database_url, clock, Ledger.open(home.database_url, clock=clock)))

    @property
    def ledger(self) -> Ledger:
        return self.world.ledger

    @property
    def desk(self) -> Desk:
        return desk_of(self.home)

    def work(self) -> None:
        self.versions += 1
        self.world.ingest(note("n/0.md", f"v{self.versions} {self.home.path.name}"))
        self.clock.forward(days=1)

    def sign(self) -> None:
        assert chain.verify(self.home, self.ledger, sign=True).problems == ()
        self.signed = self.rows

    @property
    def rows(self) -> int:
        return self.ledger.history.latest()

    def back_up(self, file: Path) -> Path:
        self.ledger.close()
        backups.make(self.desk, WHO, target=file)
        self.world.reopen()
        return file

    def restore(self, file: Path) -> Restoration:
        replaced = self.rows
        self.ledger.close()
        done = backups.restore(self.desk, file, WHO, "because").signed
        self.reopen()
        self.signed = done.rows + 1
        self.restored.append((done.row, done.rows, replaced))
        return done

    def reopen(self) -> None:
        self.world.reopen()
        self.world.source = self.ledger.sources.get("notes")
        self.world.sync = self.world.begin()

    def check(self) -> chain.Verified:
        """Verify, and compare the result with the actions so far."""
        found = chain.verify(self.home, self.ledger)
        assert found.problems == ()
        with self.ledger.trail() as trail:
            kept = {proof.hex() for _, proofs in trail.history(lambda _: None) for proof in proofs}
        assert (found.rows, found.signed) == (self.rows, self.signed)
        told = [(one.row, one.rows, one.replaced) for one in found.restored]
        assert told == [one for one in self.restored if one[0] in kept]
        return found


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House.new(tmp_path / "home")
    made.work()
    yield made
    made.ledger.close()


@pytest.fixture
def other(tmp_path: Path) -> Iterator[House]:
    made = House.new(tmp_path / "other")
    made.work()
    yield made
    made.ledger.close()


def test_restore_is_told_and_is_no_problem(house: House, tmp_path: Path) -> None:
    house.sign()
    copy = house.back_up(tmp_path / "copy.db")
    rows = house.signed
    house.work()
    house.sign()
    before, lines = house.rows, house.home.checkpoints.read_bytes()
    done = house.restore(copy)
    assert (done.rows, done.replaced, done.signed, done.home, done.problem) == (rows, before, rows, None, None)
    assert house.home.checkpoints.read_bytes().startswith(lines)
    [event] = house.ledger.history.trail(1)
    assert (event.event, event.actor) == ("restored", WHO)
    assert event.reason == f"{done}; because"
    bundle = export.export(house.home, house.ledger, tmp_path / "bundle.tar").file
    (unpacked := tmp_path / "unpacked").mkdir()
    comparison.unpack(bundle, unpacked)
    assert [row[-1] for row in verify.bundle(unpacked).shown] == [event.reason]
    part = export.export(house.home, house.ledger, tmp_path / "part.tar", "notes", house.clock.moment).file
    (of_source := tmp_path / "part").mkdir()
    comparison.unpack(part, of_source)
    assert [row[-1] for row in verify.bundle(of_source).shown] == [event.reason]
    assert house.check().checkpoints == 4
    house.work()
    house.sign()
    house.check()


@pytest.mark.postgres
def test_restore_on_postgresql_is_told_and_is_no_problem(empty_database: str, tmp_path: Path) -> None:
    Home(tmp_path / "home").make().use_database(empty_database)
    house = House.new(tmp_path / "home")
    house.work()
    house.sign()
    copy, rows = house.back_up(tmp_path / "copy.db"), house.rows
    house.work()
    house.sign()
    before = house.rows
    done = house.restore(copy)
    assert (done.signed, done.replaced, done.problem) == (done.rows, before, None) and done.rows <= rows
    assert house.check().checkpoints == 2
    house.ledger.close()


def test_restore_into_another_home_keeps_the_former_checkpoints(house: House, other: House, tmp_path: Path) -> None:
    house.sign()
    key = signing.public_key(house.home).key
    other.sign()
    done = other.restore(house.back_up(tmp_path / "copy.db"))
    assert (done.home, done.signed, done.problem) == (key, house.signed, None)
    theirs = json.loads(house.home.checkpoints.read_bytes().splitlines()[0])
    stored = [json.loads(line) for line in other.home.checkpoints.read_bytes().splitlines()]
    assert theirs | {"former": True} in stored
    other.check()
    other.work()
    other.sign()
    export.export(other.home, other.ledger, tmp_path / "bundle.tar")
    assert chain.erase(other.home, other.ledger, other.clock.moment, WHO, "") > 0
    assert chain.verify(other.home, other.ledger, sign=True).problems == ()


def test_restore_into_a_new_home_with_the_same_key_continues_its_checkpoints(house: House, tmp_path: Path) -> None:
    house.sign()
    copy, lines = house.back_up(tmp_path / "copy.db"), house.home.checkpoints.read_bytes()
    fresh = Home(tmp_path / "fresh").make()
    shutil.copy(house.home.audit / "key", fresh.audit / "key")
    done = backups.restore(desk_of(fresh), copy, WHO).signed
    assert (done.home, done.signed) == (None, house.signed)
    assert fresh.checkpoints.read_bytes().startswith(lines)
    with closing(Ledger.inspect(fresh)) as ledger:
        assert chain.verify(fresh, ledger).problems == ()


def test_rotated_key_survives_a_restore(house: House, tmp_path: Path) -> None:
    house.sign()
    copy = house.back_up(tmp_path / "copy.db")
    signing.rotate(house.home)
    house.restore(copy)
    house.check()
    house.work()
    house.clock.forward(days=200)
    assert chain.erase(house.home, house.ledger, house.clock.moment, WHO, "") > 0


def test_replaced_ledger_can_be_restored_with_its_checkpoints(house: House, tmp_path: Path) -> None:
    copy = house.back_up(tmp_path / "copy.db")
    house.work()
    house.sign()
    assert chain.erase(house.home, house.ledger, house.clock.moment, WHO, "") > 0
    rows, signed = house.rows, house.signed
    house.restore(copy)
    [aside] = house.home.path.glob("replaced-*")
    done = house.restore(aside / "ledger.db")
    assert (done.rows, done.signed, done.problem) == (rows, signed, None)
    house.check()


def test_ledger_swapped_by_hand_is_a_problem_until_it_is_restored(house: House, tmp_path: Path) -> None:
    house.sign()
    rows = house.rows
    house.ledger.close()
    shutil.copy(house.home.path / "ledger.db", tmp_path / "older.db")
    house.reopen()
    house.work()
    house.sign()
    house.ledger.close()
    shutil.copy(tmp_path / "older.db", house.home.path / "ledger.db")
    house.world.reopen()
    [problem] = chain.verify(house.home, house.ledger).problems
    assert problem == f"The history ended at row {house.signed} when it was signed, and ends at row {rows}"
    done = house.restore(house.home.path / "ledger.db")
    assert (done.rows, done.signed) == (rows, rows)
    house.check()


def test_backup_whose_history_was_forged_is_restored_and_named_for_ever(
    house: House, other: House, tmp_path: Path
) -> None:
    house.sign()
    copy, signed = house.back_up(tmp_path / "copy.db"), house.signed
    rewrite(copy, lambda rows: rows[2].__setitem__(9, "forged"))
    os.truncate(copy, copy.stat().st_size // 4096 * 4096)
    copies.seal(copy)
    for one in (house, other):
        done = one.restore(copy)
        assert done.problem == f"The first {signed} rows of the history are not those that were signed"
        one.work()
        [problem] = chain.verify(one.home, one.ledger, sign=True).problems
        assert problem.startswith(f"The backup of {done.made} was not intact when it was restored: The first")
        again = one.restore(one.back_up(tmp_path / f"{one.home.path.name}.db"))
        assert again.problem == problem


@pytest.mark.parametrize("kept", ["file", "none", "first"])
def test_forgery_that_the_checkpoints_of_the_home_disprove_is_named(house: House, tmp_path: Path, kept: str) -> None:
    """A copy without its checkpoints, or without the last of them, proves no rows that this home has signed otherwise."""
    house.sign()
    first = house.home.checkpoints.read_bytes()
    house.work()
    house.sign()
    copy, signed = house.back_up(tmp_path / "copy.db"), house.signed
    with closing(sqlite3.connect(copy)) as connection, connection:
        if kept == "file":
            connection.execute("DROP TABLE backup")
        elif kept == "none":
            connection.execute("DELETE FROM backup WHERE name = 'checkpoints'")
        else:
            connection.execute("UPDATE backup SET data = ? WHERE name = 'checkpoints'", (first,))
    rewrite(copy, lambda rows: rows[-2].__setitem__(9, "forged"))
    os.truncate(copy, copy.stat().st_size // 4096 * 4096)
    copies.seal(copy)
    problem = house.restore(copy).problem
    assert problem == f"The first {signed} rows of the history are not those that were signed"
    found = chain.verify(house.home, house.ledger)
    assert found.problems and not found.is_older


def forged(house: House, file: Path, checkpoints: bytes | None) -> Path:
    """Return a backup with a changed row, sealed anew; with other checkpoints, or with its own."""
    copy = house.back_up(file)
    rewrite(copy, lambda rows: rows[-2].__setitem__(9, "forged"))
    if checkpoints is not None:
        with closing(sqlite3.connect(copy)) as connection, connection:
            connection.execute("UPDATE backup SET data = ? WHERE name = 'checkpoints'", (checkpoints,))
    os.truncate(copy, copy.stat().st_size // 4096 * 4096)
    copies.seal(copy)
    return copy


def test_restored_forgery_stays_one_however_its_ledger_is_restored_again(house: House, tmp_path: Path) -> None:
    house.work()
    house.sign()
    good = house.back_up(tmp_path / "good.db")
    assert house.restore(forged(house, tmp_path / "forged.db", None)).problem
    bare = house.back_up(tmp_path / "bare.db")
    with closing(sqlite3.connect(bare)) as connection, connection:
        connection.execute("DELETE FROM backup WHERE name = 'checkpoints'")
    os.truncate(bare, bare.stat().st_size // 4096 * 4096)
    copies.seal(bare)
    house.ledger.close()
    aside = Path(shutil.copy(house.home.path / "ledger.db", tmp_path / "aside.db"))
    house.world.reopen()
    for again in (house.home.path / "ledger.db", bare, aside):
        assert house.restore(again).problem
        assert chain.verify(house.home, house.ledger).problems
        assert house.restore(good).problem is None
        house.check()
        house.work()
        house.sign()


@pytest.mark.parametrize("continued", [False, True])
def test_forged_backup_under_a_key_of_a_stranger_is_named(house: House, tmp_path: Path, continued: bool) -> None:
    """Rows that this home has signed cannot be other ones in the home that has them from it."""
    house.work()
    house.sign()
    stranger = Ed25519PrivateKey.generate()
    file = tmp_path / "forged.db"
    forged(house, file, None)
    size, root, _ = root_of(file)
    lines = house.home.checkpoints.read_bytes() if continued else b""
    file.unlink()
    done = house.restore(forged(house, file, lines + signed_line(stranger, size, root, lines)))
    assert done.problem
    assert continued or done.home
    assert chain.verify(house.home, house.ledger).problems


def signed_line(key: Ed25519PrivateKey, size: int, root: bytes, before: bytes) -> bytes:
    """Return a checkpoint as another home with this key would add it."""
    public = key.public_key().public_bytes_raw()
    text = verify.checkpoint(size, root, f"after {digest(before)}")
    signature = base64.b64encode(verify.key_id(public) + key.sign(text.encode())).decode()
    return dumped({"key": base64.b64encode(public).decode(), "note": f"{text}\n\u2014 {verify.ORIGIN} {signature}\n"})


def test_restore_brings_no_replaced_key_back(house: House, tmp_path: Path) -> None:
    house.sign()
    old = (house.home.audit / "key").read_bytes()
    signing.rotate(house.home)
    present = (house.home.audit / "key").read_bytes()
    copy = house.back_up(tmp_path / "copy.db")
    (house.home.audit / "key").write_bytes(old)
    house.ledger.close()
    with pytest.raises(ConfigError, match="was replaced by another one"):
        backups.restore(house.desk, copy, WHO)
    (house.home.audit / "key").write_bytes(present)
    house.world.reopen()
    assert house.restore(copy).problem is None
    house.check()


@pytest.mark.parametrize("damage", ["garbage", "folder", "none"])
def test_damaged_key_ends_with_its_remedy(house: House, tmp_path: Path, damage: str) -> None:
    house.sign()
    copy, key = house.back_up(tmp_path / "copy.db"), house.home.audit / "key"
    key.unlink()
    if damage == "garbage":
        key.write_text("garbage")
    elif damage == "folder":
        key.mkdir()
    for use in (lambda: signing.public_key(house.home), lambda: signing.rotate(house.home)):
        with pytest.raises(ConfigError, match="move it and `audit/checkpoints` away"):
            use()
    if damage != "none":
        key.rename(tmp_path / "key")
    house.home.checkpoints.rename(tmp_path / "checkpoints")
    assert house.restore(copy).problem is None
    house.check()


def test_backup_put_in_place_of_the_ledger_is_restored_and_replaces_no_setting(house: House, tmp_path: Path) -> None:
    (house.home.path / "sources.yaml").write_text("# before\n")
    house.sign()
    copy = house.back_up(tmp_path / "copy.db")
    house.work()
    house.sign()
    house.ledger.close()
    (house.home.path / "sources.yaml").write_text("# edited since\n")
    shutil.copy(copy, house.home.path / "ledger.db")
    house.world.reopen()
    assert chain.verify(house.home, house.ledger).is_older
    assert house.ledger.finish_restore(house.home.user_files) is None
    assert house.restore(house.home.path / "ledger.db").problem is None
    house.check()


@pytest.mark.parametrize("value", ["'text'", "7", "NULL", "x'ff'"])
@pytest.mark.parametrize("name", ["made", "checkpoints"])
def test_backup_with_odd_entries_is_refused_or_restored(house: House, tmp_path: Path, name: str, value: str) -> None:
    house.sign()
    copy = house.back_up(tmp_path / "copy.db")
    with closing(sqlite3.connect(copy)) as connection, connection, suppress(sqlite3.IntegrityError):
        connection.execute(f"UPDATE backup SET data = {value} WHERE name = '{name}'")
    os.truncate(copy, copy.stat().st_size // 4096 * 4096)
    copies.seal(copy)
    with suppress(LedgerCorrupt):
        house.restore(copy)


def test_two_backups_are_restored_one_after_the_other(house: House, tmp_path: Path) -> None:
    """Signatures made after the restore of one backup are about other rows than those of the other backup."""
    older = house.back_up(tmp_path / "older.db")
    house.work()
    house.sign()
    house.work()
    newer = house.back_up(tmp_path / "newer.db")
    shutil.copy(newer, tmp_path / "file.db")
    os.truncate(tmp_path / "file.db", newer.stat().st_size // 4096 * 4096)
    with closing(sqlite3.connect(tmp_path / "file.db")) as connection, connection:
        connection.execute("DROP TABLE backup")
    for copy in (newer, tmp_path / "file.db"):
        house.restore(older)
        house.work()
        house.sign()
        assert house.restore(copy).problem is None
        house.check()


def test_erased_history_is_signed_anew_without_its_checkpoints(house: House) -> None:
    house.work()
    house.clock.forward(days=200)
    erased = chain.erase(house.home, house.ledger, house.clock.moment, WHO, "")
    house.home.checkpoints.unlink()
    for signed in (0, house.rows):
        found = chain.verify(house.home, house.ledger, sign=True)
        assert (found.problems, found.erased, found.signed) == ((), erased, signed)


@pytest.mark.parametrize("step", range(1, 9))
def test_restore_killed_anywhere_leaves_an_intact_audit(house: House, tmp_path: Path, step: int) -> None:
    house.sign()
    copy = house.back_up(tmp_path / "copy.db")
    house.work()
    house.sign()
    rows = house.rows
    house.ledger.close()
    with killed_at(step):
        backups.restore(house.desk, copy, WHO)
    with closing(Ledger.open(house.home)) as ledger:
        found = chain.verify(house.home, ledger)
        is_done = bool(found.restored)
        assert (found.problems, found.rows == rows) == ((), not is_done)
        ledger.finish_restore(house.home.user_files)
        found = chain.verify(house.home, ledger, sign=True)
        assert found.problems == ()
    backups.restore(house.desk, copy, WHO)
    with closing(Ledger.open(house.home)) as ledger:
        found = chain.verify(house.home, ledger, sign=True)
        assert (found.problems, len(found.restored)) == ((), 1)


@contextmanager
def killed_at(step: int) -> Iterator[None]:
    """Raise where a kill would end the process: before the replacement of file number `step`, if there are so many."""
    left = [step]
    replace = Path.replace

    def fatal(path: Path, target: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            raise KilledError
        return replace(path, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "replace", fatal)
        with suppress(KilledError):
            yield


def test_daily_check_signs_a_restored_history_and_tells_forgery_from_damage(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CATCHMENT_HOME", str(house.home.path))
    house.restore(house.back_up(tmp_path / "copy.db"))
    house.work()
    assert upkeep._check_ledger() == 0
    house.signed = house.rows
    house.check()
    house.ledger.close()
    rewrite(house.home.path / "ledger.db", lambda rows: rows[1].__setitem__(2, "forged"))
    assert upkeep._check_ledger() > 0
    checked = LastCheck.read(house.home)
    assert checked and (checked.broken, checked.differences > 0) == (0, True)


def test_backup_during_an_erasure_and_a_signature_proves_its_rows(house: House, tmp_path: Path) -> None:
    """The checkpoints are read after the ledger is copied: those of later rows are left out, the permission is included."""
    house.work()
    house.sign()
    assert chain.erase(house.home, house.ledger, house.clock.moment, WHO, "") > 0
    rows = house.rows

    def later(rows: int) -> dict[str, bytes]:
        house.work()
        house.sign()
        return {"checkpoints": about(signing.log_and_key(house.home)[0], rows)}

    house.ledger.back_up(tmp_path / "copy.db", {}, later)
    done = house.restore(tmp_path / "copy.db")
    assert (done.rows, done.problem) == (rows, None)
    house.check()


# Keys


@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_rotation_killed_anywhere_leaves_a_key_that_signs(house: House, step: int) -> None:
    house.sign()
    old = signing.public_key(house.home).key
    with killed_at(step):
        signing.rotate(house.home)
    house.check()
    assert (signing.public_key(house.home).key == old) is (step < 3)
    house.sign()
    assert len((house.home.audit / "key").read_text().split()) == 1
    house.work()
    house.sign()
    signing.rotate(house.home)
    house.check()


def test_late_signature_is_by_the_present_key(house: House, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The key is replaced while an export, the daily check and an erase have read the history and not signed it yet."""
    house.work()
    signing_then = signing.signing

    @contextmanager
    def late(home: Home, **options: Any) -> Iterator[signing.Signer]:
        signing.rotate(home)
        with signing_then(home, **options) as signer:
            yield signer

    for module in (chain, export):
        monkeypatch.setattr(module, "signing", late)
    house.sign()
    made = export.export(house.home, house.ledger, tmp_path / "bundle.tar")
    assert chain.erase(house.home, house.ledger, house.clock.moment, WHO, "") > 0
    assert chain.verify(house.home, house.ledger).problems == ()
    folder = tmp_path / "unpacked"
    folder.mkdir()
    subprocess.run(["tar", "-xf", made.file, "-C", folder], check=True)
    monkeypatch.undo()
    lines = [json.loads(line) for line in house.home.checkpoints.read_bytes().splitlines()]
    key = json.loads((folder / "manifest.json").read_bytes())["key"]
    assert key in [line["key"] for line in lines]
    verify.bundle(folder, key)


def test_nothing_is_signed_over_a_restore(house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = house.back_up(tmp_path / "copy.db")
    house.sign()
    checked = chain._checked

    def slow(*arguments: Any) -> Any:
        found = checked(*arguments)
        monkeypatch.undo()
        house.restore(copy)
        return found

    monkeypatch.setattr(chain, "_checked", slow)
    with pytest.raises(TryAgain, match="restored meanwhile"):
        chain.verify(house.home, house.ledger, sign=True)
    house.check()


def test_processes_that_sign_at_once_add_all_their_lines(house: House) -> None:
    house.sign()
    house.ledger.close()
    children = []
    for number in range(6):
        child = os.fork()
        if child == 0:
            try:
                for _ in range(5):
                    if number % 3 == 0:
                        signing.rotate(house.home)
                    else:
                        with signing.signing(house.home) as signer:
                            signer.remember(TreeHead(0, verify.NO_LEAVES))
            finally:
                os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    house.world.reopen()
    house.check()
    assert len(house.home.checkpoints.read_bytes().splitlines()) == 1 + 2 * 5 * 2 + 4 * 5


def test_first_signatures_at_once_create_one_key(tmp_path: Path) -> None:
    home = Home(tmp_path / "home").make()
    children = []
    for _ in range(6):
        child = os.fork()
        if child == 0:
            try:
                with signing.signing(home) as signer:
                    signer.remember(TreeHead(0, verify.NO_LEAVES))
            finally:
                os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    lines, key = signing.log_and_key(home)
    assert [line.key for line in read(lines)] == [key] * 6


def test_full_disk_while_signing_leaves_valid_checkpoints(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    house.sign()

    def full(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic_files, "write", full)
    for act in (
        lambda: chain.verify(house.home, house.ledger, sign=True),
        lambda: signing.rotate(house.home),
    ):
        with pytest.raises(HomeUnavailable):
            act()
    monkeypatch.undo()
    house.check()


def test_history_without_rows_can_be_signed(tmp_path: Path) -> None:
    home = Home(tmp_path / "home").make()
    with closing(Ledger.open(home)) as ledger:
        assert chain.verify(home, ledger, sign=True).problems == ()
        for _ in range(2):
            ledger.history.note("backed up", WHO)
            assert chain.verify(home, ledger, sign=True).problems == ()


def test_rows_that_become_erasable_meanwhile_are_permitted_too(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    house.work()
    day = house.clock.moment
    checked = chain._checked

    def slow(*arguments: Any) -> Any:
        found = checked(*arguments)
        house.work()
        return found

    monkeypatch.setattr(chain, "_checked", slow)
    assert chain.erase(house.home, house.ledger, day, WHO, "") == 6
    monkeypatch.undo()
    assert chain.verify(house.home, house.ledger).problems == ()


def test_two_erasures_at_once_are_not_mixed(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    house.work()
    early = house.clock.moment
    house.work()
    checked = chain._checked

    def slow(*arguments: Any) -> Any:
        found = checked(*arguments)
        monkeypatch.undo()
        chain.erase(house.home, house.ledger, early, WHO, "")
        return found

    monkeypatch.setattr(chain, "_checked", slow)
    house.work()
    with pytest.raises(TryAgain, match="another process erased rows"):
        chain.erase(house.home, house.ledger, house.clock.moment, WHO, "")
    assert chain.verify(house.home, house.ledger).problems == ()


# Forgers


def rewrite(file: Path, forge: Callable[[list[list[Any]]], object]) -> None:
    """Change the rows of the history, and compute all hashes again, as a program that may write the ledger can."""
    columns = "id, at, actor, event, source_id, item_id, job_id, sync_id, attempt, reason"
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.executescript("DROP TRIGGER history_no_update; DROP TRIGGER history_no_delete; BEGIN")
        triggers = copies_of_triggers()
        rows = [list(row) for row in connection.execute(f"SELECT {columns} FROM history ORDER BY id")]
        forge(rows)
        previous, made = b"", []
        for number, row in enumerate(rows, 1):
            row[0] = number
            previous = link(previous, row)
            made.append((*row, previous))
        connection.execute("DELETE FROM history")
        connection.executemany(f"INSERT INTO history VALUES ({', '.join('?' * 11)})", made)
        connection.execute("UPDATE chain SET length = ?, hash = ?", (len(made), previous))
        connection.execute("COMMIT")
        for trigger in triggers:
            connection.execute(trigger)


def copies_of_triggers() -> tuple[str, ...]:
    from catchment.ledger.jobs import history

    return history._SQLITE


def root_of(file: Path) -> tuple[int, bytes, bytes]:
    """Return the size and the root of a history, and the hash of its last row."""
    tree, proof = Tree(), b""
    with closing(sqlite3.connect(file)) as connection:
        for (proof,) in connection.execute("SELECT hash FROM history ORDER BY id"):
            tree.extend([proof], [False])
    return tree.size, tree.root(), proof


class Forger:
    """Writes lines with a new key, or with a stolen one."""

    def __init__(self, seed: str = "") -> None:
        self.key = (
            Ed25519PrivateKey.from_private_bytes(base64.b64decode(seed)) if seed else Ed25519PrivateKey.generate()
        )
        self.bytes = self.key.public_key().public_bytes_raw()
        self.public = base64.b64encode(self.bytes).decode()

    def line(self, before: bytes, size: int, root: bytes, *more: str, chained: bool = True) -> bytes:
        after = [f"after {base64.b64encode(sha256(before).digest()).decode()}"] if chained else []
        text = verify.checkpoint(size, root, *after, *more)
        signature = base64.b64encode(verify.key_id(self.bytes) + self.key.sign(text.encode())).decode()
        note = f"{text}\n\u2014 {verify.ORIGIN} {signature}\n"
        return json.dumps({"key": self.public, "note": note}, ensure_ascii=False).encode() + b"\n"


def forgeries(house: House, old_seed: str, stranger: bytes, chance: random.Random) -> Iterator[str]:
    """Forge a closed home in each way. Yields the name of the forgery; the home is as before afterwards."""
    ledger, log = house.home.path / "ledger.db", house.home.checkpoints
    before, lines = ledger.read_bytes(), log.read_bytes().splitlines(keepends=True)
    signed = house.signed

    def forge(rows: list[list[Any]]) -> None:
        rows[chance.randrange(signed)][2] = "forged"

    def undo() -> None:
        ledger.write_bytes(before)
        log.write_bytes(b"".join(lines))

    def logs() -> Iterator[tuple[str, list[bytes]]]:
        at = chance.randrange(len(lines))
        if len(lines) > 1:
            middle = chance.randrange(len(lines) - 1)
            yield "line removed", lines[:middle] + lines[middle + 1 :]
            yield "lines exchanged", [*lines[:middle], lines[middle + 1], lines[middle], *lines[middle + 2 :]]
        yield "line repeated", [*lines[: at + 1], *lines[at:]]
        yield "line repeated at the end", [*lines, lines[at]]
        yield "line of another home", [*lines, stranger]
        yield (
            "line of another home as a former one",
            [*lines, json.dumps(json.loads(stranger) | {"former": True}).encode()],
        )

    for name, forged in logs():
        log.write_bytes(b"".join(forged))
        yield name
        undo()
    rewrite(ledger, forge)
    yield "history rewritten"
    own, thief = Forger(), Forger(old_seed)
    size, root, proof = root_of(ledger)
    whole = b"".join(lines)
    for forger in (own, thief):
        who = "own" if forger is own else "old"
        restored = Restoration("2026-01-01T00:00:00Z", size - 1, size, size, proof.hex())
        mark = f"restored {json.dumps({name: getattr(restored, name) for name in restored.__slots__})}"
        present = signing.log_and_key(house.home)[1]
        for start in (b"", whole, lines[0]):
            head = start + forger.line(start, size, root)
            restore = start + forger.line(start, size, root, mark)
            loose = start + forger.line(start, size, root, mark, chained=False)
            next_key = forger.line(head, 0, verify.NO_LEAVES, f"next {present}")
            for name, forged_log in {
                "checkpoint": head,
                "restore": restore,
                "restore without the lines before": loose,
                "announcement": head + next_key,
                "restore before a checkpoint": restore + lines[-1],
                "loose restore before a checkpoint": loose + lines[-1],
                "announcement before a checkpoint": head + next_key + lines[-1],
            }.items():
                log.write_bytes(forged_log)
                yield f"{name} by the {who} key after {len(start)} bytes"
    undo()
    if signed > 3:
        rewrite(ledger, lambda rows: rows.__delitem__(slice(signed - 2, None)))
        yield "history cut"
    undo()


def test_backup_of_another_home_is_not_held_to_what_this_home_has_signed(
    house: House, other: House, tmp_path: Path
) -> None:
    """Also if the first rows of both histories are the same by chance, as here."""
    for each in (house, other):
        each.sign()
    signing.rotate(other.home)
    other.clock.forward(days=1)
    for each in (house, other):
        each.work()
    house.sign()
    assert house.rows == other.rows
    house.restore(other.back_up(tmp_path / "copy.db"))
    assert [restoration.problem for restoration in house.check().restored] == [None]


@pytest.mark.parametrize("seed", SEEDS)
def test_audit_is_right_after_any_order_of_actions_and_finds_each_forgery(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    houses = [House.new(tmp_path / name) for name in ("one", "two")]
    kept: list[Path] = []
    old_seeds = {}
    for house in houses:
        house.work()
        house.sign()
        old_seeds[house.home.path] = (house.home.audit / "key").read_text()
        signing.rotate(house.home)
    for number in range(14):
        house = chance.choice(houses)
        match chance.choice(
            ["work", "work", "sign", "rotate", "kill", "backup", "restore", "restore", "erase", "export"]
        ):
            case "work":
                house.work()
            case "sign":
                house.sign()
            case "rotate":
                signing.rotate(house.home)
            case "kill":
                with killed_at(chance.randrange(1, 4)):
                    signing.rotate(house.home)
            case "backup":
                kept.append(house.back_up(tmp_path / f"{number}.db"))
            case "restore" if kept:
                house.restore(chance.choice(kept))
            case "erase":
                size = house.rows
                if chain.erase(house.home, house.ledger, house.clock.moment, WHO, ""):
                    house.signed = size
            case "export":
                export.export(house.home, house.ledger, tmp_path / f"{number}.tar")
                house.signed = house.rows
        house.check()
    unseen = []
    for house, another in (houses, houses[::-1]):
        house.ledger.close()
        stranger = another.home.checkpoints.read_bytes().splitlines()[-1]
        for forgery in forgeries(house, old_seeds[house.home.path], stranger, chance):
            with closing(Ledger.inspect(house.home)) as ledger:
                if not chain.verify(house.home, ledger).problems:
                    unseen.append((house.home.path.name, forgery))
        with closing(Ledger.inspect(house.home)) as ledger:
            assert chain.verify(house.home, ledger).problems == ()
    assert unseen == []


def test_backup_forged_with_a_replaced_key_is_not_proven(house: House, tmp_path: Path) -> None:
    house.sign()
    thief = Forger((house.home.audit / "key").read_text())
    copy = house.back_up(tmp_path / "copy.db")
    signing.rotate(house.home)
    rewrite(copy, lambda rows: rows[1].__setitem__(2, "forged"))
    with closing(sqlite3.connect(copy)) as connection, connection:
        size, root, _ = root_of(copy)
        connection.execute("UPDATE backup SET data = ? WHERE name = 'checkpoints'", (thief.line(b"", size, root),))
    os.truncate(copy, copy.stat().st_size // 4096 * 4096)
    copies.seal(copy)
    done = house.restore(copy)
    assert (done.home, "a key that this home has replaced" in str(done.problem)) == (thief.public, True)
    [problem] = chain.verify(house.home, house.ledger).problems
    assert problem.startswith(f"The backup of {done.made} was not intact when it was restored: its checkpoints are by")


def test_checkpoints_of_an_older_version_stay_valid_and_are_signed_by_the_next(house: House) -> None:
    house.sign()
    present = Forger((house.home.audit / "key").read_text())
    former = Forger()
    size, root, _ = root_of(house.home.path / "ledger.db")
    lines = [
        former.line(b"", size, root, f"next {present.public}", chained=False),
        present.line(b"", size, root, chained=False),
    ]
    log = house.home.checkpoints
    log.write_bytes(b"".join(lines))
    house.check()
    log.write_bytes(lines[0])
    [problem] = chain.verify(house.home, house.ledger).problems
    assert problem.startswith("The last checkpoint was signed with another key") and "`audit/checkpoints`" in problem
    log.write_bytes(b"".join(lines))
    house.work()
    house.sign()
    assert house.check().checkpoints == 3
    log.write_bytes(b"".join([lines[1], *log.read_bytes().splitlines(keepends=True)[2:]]))
    assert chain.verify(house.home, house.ledger).problems


@pytest.mark.parametrize("line", [b"", b"{}", b"[]", b"\xff", b'{"note": "", "key": "a"}', b'{"note": 1, "key": 2}'])
def test_damaged_checkpoints_are_named_and_healed_by_a_restore(house: House, tmp_path: Path, line: bytes) -> None:
    house.sign()
    copy = house.back_up(tmp_path / "copy.db")
    with house.home.checkpoints.open("ab") as log:
        log.write(line + b"\n")
    assert chain.verify(house.home, house.ledger).problems == ("Checkpoint 2: is unreadable",)
    with pytest.raises(Refused, match="last checkpoint is not valid"):
        signing.rotate(house.home)
    house.restore(copy)
    house.check()


def test_lost_key_is_named_and_a_restore_goes_on_with_a_new_one(house: House, tmp_path: Path) -> None:
    house.sign()
    copy = house.back_up(tmp_path / "copy.db")
    (house.home.audit / "key").unlink()
    [problem] = chain.verify(house.home, house.ledger).problems
    assert "bring back the file `audit/key`" in problem
    for asked in (signing.public_key, signing.rotate):
        with pytest.raises(ConfigError, match=r"audit/key: missing; .* `audit/checkpoints` away"):
            asked(house.home)
    assert house.restore(copy).problem is None
    house.check()


@pytest.mark.parametrize("rows", ["3", "x", 1 << 70, -5, None])
def test_absurd_restore_by_a_stranger_is_found(house: House, rows: object) -> None:
    house.sign()
    before = house.home.checkpoints.read_bytes()
    mark = {"made": "", "rows": rows, "replaced": 0, "signed": 0, "row": "zz"}
    size = rows + 1 if isinstance(rows, int) else 4
    line = Forger().line(before, size, b"", f"restored {json.dumps(mark)}")
    house.home.checkpoints.write_bytes(before + line)
    assert chain.verify(house.home, house.ledger).problems


def test_planted_restore_is_not_signed(house: House) -> None:
    """The table of a backup in the ledger, which a killed restore leaves, makes no program sign a forged history."""
    house.sign()
    house.ledger.close()
    file = house.home.path / "ledger.db"
    rewrite(file, lambda rows: rows[1].__setitem__(2, "forged"))
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("CREATE TABLE backup (name TEXT PRIMARY KEY, data BLOB NOT NULL)")
        connection.execute("INSERT INTO backup VALUES ('checkpoints', x''), ('restoring', x'')")
    house.world.reopen()
    assert house.ledger.finish_restore(house.home.user_files) == []
    assert chain.verify(house.home, house.ledger, sign=True).problems
    with pytest.raises(Refused):
        chain.erase(house.home, house.ledger, house.clock.moment, WHO, "")
