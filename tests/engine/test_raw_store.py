"""Raw content is kept compressed, within its limit, and survives neither damage, another state of the item nor a revocation."""

from __future__ import annotations

import os
import random
import resource
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from catchment.content.disposable_file import file_size
from catchment.content.raw_store import RawStore
from catchment.errors import BadInput
from catchment.ledger import Ledger
from catchment.model import Item, Priority, RawContent
from catchment.settings import Home, Policy
from catchment.sync.kept_raw import forget_raw
from catchment.sync.preflight import WHOLE
from catchment.sync.revoke import Extent, revoke
from catchment.sync.source_sync import open_sync
from catchment.telemetry.incidents import Verdict
from catchment.views.health import raw_content
from connectors.local_files import LocalFiles, LocalFilesSettings
from tests.documents import raw_contents

SECRET = "The zebrafinch of Winnipeg sings every single morning at the window"
GREAT = 1_000_000_000
ALL = Extent(frozenset({WHOLE}), lambda _locator: True, whole=True)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RawStore]:
    with closing(RawStore(tmp_path / "raw.db", GREAT)) as store:
        yield store


def item(number: int = 1, *, identity: str | None = None, version: str = "1") -> Item:
    return Item(f"INBOX;UID={number}", "INBOX", version, identity)


def raw(words: str) -> RawContent:
    return RawContent(
        words.encode(), "message.eml", metadata={"from": "ada"}, modified=datetime(2026, 1, 2, tzinfo=UTC)
    )


def incompressible(size: int) -> RawContent:
    return RawContent(random.randbytes(size), "picture.png")


def test_content_is_returned_as_fetched_and_only_for_the_same_state(store: RawStore) -> None:
    mail, moved = item(identity="a@b.12"), item(7, identity="a@b.12")
    store.put(
        [(1, mail, raw("the pump drips")), (2, item(2), raw("the pump drips")), (3, item(3), incompressible(99_999))]
    )
    assert store.get(1, mail) == store.get(1, moved) == raw("the pump drips")
    assert store.get(2, item(2)) == raw("the pump drips")
    assert store.get(2, item(2, version="2")) is None
    assert store.get(1, item(identity="a@b.13")) is None
    assert store.get(4, mail) is None
    assert store.holds({1: moved, 2: item(2, version="2"), 3: item(3), 4: item(4)}) == {1, 3}
    store.put([(2, item(2, version="2"), raw("mended"))])
    assert store.get(2, item(2, version="2")) == raw("mended")


@pytest.mark.parametrize(
    "alteration",
    [
        "UPDATE blobs SET data = x'00' || data",
        "UPDATE blobs SET data = 7",
        "UPDATE blobs SET data = CAST(x'ff00' AS TEXT)",
        "UPDATE blobs SET data = (SELECT data FROM blobs WHERE hash = (SELECT hash FROM items WHERE item_id = 2))",
        "UPDATE items SET header = '[]'",
        "UPDATE items SET seal = x'', hash = CAST(x'ff' AS TEXT)",
        "UPDATE items SET hash = (SELECT hash FROM items WHERE item_id = 2)",
        "DELETE FROM blobs",
    ],
)
def test_altered_content_counts_as_missing(store: RawStore, tmp_path: Path, alteration: str) -> None:
    store.put([(1, item(1), raw("the pump drips")), (2, item(2), raw("another"))])
    which = "item_id = 1" if "items SET" in alteration else "hash = (SELECT hash FROM items WHERE item_id = 1)"
    with closing(sqlite3.connect(tmp_path / "raw.db")) as database, database:
        database.execute(f"{alteration} WHERE {which}")
    assert (store.get(1, item(1)), store.get(2, item(2))) == (None, raw("another"))
    store.prune({1})
    store.put([(1, item(1), raw("the pump drips"))])
    assert store.get(1, item(1)) is None or store.get(1, item(1)) == raw("the pump drips")


def test_unneeded_content_goes_before_the_oldest(tmp_path: Path) -> None:
    file = tmp_path / "raw.db"
    with closing(RawStore(file, 500_000)) as store:
        assert not store.put([(n, item(n), incompressible(60_000)) for n in range(1, 8)])
        assert store.put([(n, item(n), incompressible(60_000)) for n in (8, 9, 10, 3)])
        store.prune({8, 9})
        assert store.items() == {2, 3, 4, 5, 6, 7, 10}
        size = file.stat().st_size
        store.put([(n, item(n), incompressible(60_000)) for n in (11, 12)])
        assert file.stat().st_size <= size, "free pages are used again"


def test_deleted_content_is_returned_to_the_disk(store: RawStore, tmp_path: Path) -> None:
    store.put([(n, item(n), incompressible(100_000)) for n in range(5)])
    store.drop(store.items())
    store.prune(())
    assert file_size(tmp_path / "raw.db") < 100_000


def test_two_processes_write_at_once(tmp_path: Path) -> None:
    children = []
    for child in range(2):
        if (pid := os.fork()) == 0:
            try:
                with closing(RawStore(tmp_path / "raw.db", GREAT)) as store:
                    for n in range(40):
                        store.put([(child * 100 + n, item(n), raw(f"number {n}"))])
            finally:
                os._exit(0)
        children.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0, 0]
    with closing(RawStore(tmp_path / "raw.db", GREAT)) as store:
        assert len(store.items()) == 80
        assert store.get(139, item(39)) == raw("number 39")


def test_killed_writer_leaves_whole_content(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            store = RawStore(tmp_path / "raw.db", GREAT)
            for n in range(10_000):
                store.put([(n, item(n), raw(f"number {n}"))])
                if n == 20:
                    os.write(writing, b"x")
        finally:
            os._exit(0)
    os.read(reading, 1)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    with closing(RawStore(tmp_path / "raw.db", GREAT)) as store:
        kept = store.items()
        assert {*range(21)} <= kept and store.thrown_away == 0
        assert all(store.get(n, item(n)) == raw(f"number {n}") for n in kept)


# In a sync


class Letters(LocalFiles):
    """A folder that is read like a host."""

    fetch_in_parser = False

    def scopes(self) -> dict[str, str]:
        return {WHOLE: "all letters"}

    def scope_of(self, locator: str) -> str:
        return WHOLE


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a document and a file that cannot be read."""
    folder = tmp_path / "letters"
    folder.mkdir()
    (folder / "plan.md").write_text(SECRET)
    (folder / "broken.canvas").write_text("{")
    return folder


def sync(home: Home, connector: LocalFiles, name: str = "letters", **policy: bool) -> dict[str, int]:
    with closing(Ledger.open(home.make().database_url)) as ledger:
        source = ledger.sources.put(name, connector.kind, Priority.NORMAL)
        ledger.consents.give(source.id, {WHOLE}, "anna", None)
    with open_sync(home, connector, name, Policy(**policy), Priority.NORMAL) as opened:  # type: ignore[arg-type]
        opened.discover()
        while (token := opened.claim(250)) is not None:
            opened.process(token)
        return opened.finish("completed")


def letters(folder: Path) -> Letters:
    return Letters(LocalFilesSettings(root=folder))


def test_sync_keeps_what_it_fetched_from_hosts(home: Home, folder: Path) -> None:
    assert sync(home, letters(folder))["quarantined"] == 1
    assert raw_contents(home) == {"plan.md": SECRET.encode()}
    (folder / "plan.md").write_text("another")
    sync(home, letters(folder), keep_raw=False)
    assert raw_contents(home)["plan.md"] == b""
    assert raw_content(home)[0].verdict is Verdict.OK


def test_content_with_a_secret_is_not_kept(home: Home, folder: Path) -> None:
    (folder / "keys.md").write_text(f"The token is ghp_{'k7Qz' * 9}, keep it.")
    sync(home, letters(folder))
    assert raw_contents(home).keys() == {"plan.md"}


def test_files_are_kept_only_if_set(home: Home, folder: Path) -> None:
    files = LocalFiles(LocalFilesSettings(root=folder))
    sync(home, files)
    assert not home.raw.exists() and raw_content(home) == []
    (folder / "more.md").write_text("more")
    sync(home, files, keep_raw=True)
    assert raw_contents(home) == {"more.md": b"more"}


def test_limit_of_nothing_keeps_nothing(home: Home, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CATCHMENT_RAW_MB", "0")
    sync(home, letters(folder))
    assert not home.raw.exists()
    monkeypatch.setenv("CATCHMENT_RAW_MB", "a lot")
    with pytest.raises(BadInput, match="whole number of megabytes"):
        Home.default()


def test_full_disk_and_full_store_fail_no_item(home: Home, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "page.html").write_text(f"<p>A page</p><!-- {random.randbytes(2_000_000).hex()} -->")
    sync(home, letters(folder))
    monkeypatch.setenv("CATCHMENT_RAW_MB", "1")
    with closing(Ledger.open(home.database_url)) as ledger:
        forget_raw(home, ledger)
    (folder / "page.html").write_text(f"<p>A page</p><!-- {random.randbytes(2_000_000).hex()} -->")
    (folder / "later.md").write_text("later")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, hard))
    try:
        assert sync(home, letters(folder))["succeeded"] == 2
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert raw_contents(home).keys() == {"plan.md"}
    (folder / "later.md").write_text("later still")
    sync(home, letters(folder))
    assert raw_contents(home)["later.md"] == b"later still"


@pytest.mark.parametrize("is_deep", [False, True])
def test_damaged_file_is_noticed_and_replaced(home: Home, folder: Path, is_deep: bool) -> None:
    sync(home, letters(folder))
    with closing(RawStore(home.raw, GREAT)) as store:
        store.put([(n, item(n), incompressible(20_000)) for n in range(10_000, 10_020)])
        store.erase()
    pages = home.raw.read_bytes()
    home.raw.write_bytes(pages[:8_192] + b"no page" * 2_000 + pages[22_192:] if is_deep else b"no database" * 500)
    assert raw_content(home, deep=is_deep)[0].verdict is Verdict.WARN
    with closing(Ledger.open(home.database_url)) as ledger:
        forget_raw(home, ledger)
    assert raw_content(home, deep=True)[0].verdict is Verdict.OK
    assert raw_contents(home) == {}


def test_sync_replaces_a_damaged_file(home: Home, folder: Path) -> None:
    home.make()
    home.raw.write_bytes(b"no database" * 500)
    assert sync(home, letters(folder))["caches_thrown_away"] == 1
    assert raw_contents(home)["plan.md"] == SECRET.encode()


def test_unusable_file_fails_nothing(home: Home, folder: Path) -> None:
    home.make()
    home.raw.mkdir()
    assert sync(home, letters(folder))["succeeded"] == 1


def test_revocation_leaves_no_raw_content(home: Home, folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "copy.md").write_text(SECRET)
    (other / "own.md").write_text("Only here: the kingfisher of the north mill")
    (folder / "birds.md").write_text("The wryneck of Winnipeg nests in the third apple tree from the gate")
    sync(home, letters(folder))
    sync(home, letters(other), "other")
    with closing(RawStore(home.raw, GREAT)) as store, closing(Ledger.open(home.database_url)) as ledger:
        source = ledger.sources.get("letters")
        mine = set(ledger.purging.ids(source.id, lambda _locator: True))
        samples = store.samples(mine)
        assert len(samples) == 1, "the second content is also that of another source"
        assert all(sample in home.raw.read_bytes() + wal(home) for sample in samples)
        proof = revoke(home, ledger, source, ALL, "anna")
        assert (proof.holds, proof.raw, proof.still["raw"], proof.in_files) == (True, 2, 0, 0)
        assert not any(sample in home.raw.read_bytes() + wal(home) for sample in samples)
        assert revoke(home, ledger, source, ALL, "anna").raw == 0
    assert raw_contents(home) == {"copy.md": SECRET.encode(), "own.md": (other / "own.md").read_bytes()}


def test_bytes_of_raw_content_in_its_file_contradict_the_proof(
    home: Home, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync(home, letters(folder))
    monkeypatch.setattr(RawStore, "samples", lambda _store, _items: [b"SQLite format 3"])
    with closing(Ledger.open(home.database_url)) as ledger:
        proof = revoke(home, ledger, ledger.sources.get("letters"), ALL, "anna")
    assert (proof.holds, proof.in_files) == (False, 1)


def test_content_of_a_removed_source_is_forgotten(home: Home, folder: Path) -> None:
    sync(home, letters(folder))
    with closing(Ledger.open(home.database_url)) as ledger:
        ledger.sources.remove("letters", "anna", "")
        forget_raw(home, ledger)
    assert raw_contents(home) == {}


def wal(home: Home) -> bytes:
    log = home.raw.with_name("raw.db-wal")
    return log.read_bytes() if log.exists() else b""
