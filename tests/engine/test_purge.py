"""Withdrawing consent removes a source from the whole home, with proof; also after a kill and during a sync."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from catchment.content.cache import Cache
from catchment.errors import NoConsent, TryAgain
from catchment.ledger import Ledger, Source
from catchment.model import Priority
from catchment.runtime import heartbeat
from catchment.search.meaning.fill import fill
from catchment.search.meaning.models import Refusal, quantized
from catchment.settings import Home, Policy
from catchment.sync import revoke as revoking
from catchment.sync.preflight import WHOLE
from catchment.sync.revoke import Extent, PurgeProof, revoke
from catchment.sync.source_sync import open_sync
from connectors.local_files import LocalFiles
from tests.hits import find_hits
from tests.waiting import PATIENCE

SECRET = "The zebrafinch of Winnipeg sings every single morning at the window"
SHARED = "This sentence about the pump is in both folders, word by word"
ALL = Extent(frozenset({WHOLE}), lambda _locator: True, whole=True)


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, LocalFiles]:
    """Two sources: `mine` with one file unique to it, `other`, and one file in both."""
    made = {}
    for name in ("mine", "other"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "shared.md").write_text(SHARED)
        made[name] = LocalFiles(LocalFiles.settings(root=folder))
    (tmp_path / "mine" / "zebrafinch.md").write_text(f"# Birds\n\n{SECRET}")
    (tmp_path / "other" / "quote.md").write_text(f"Somebody wrote: {SHARED}")
    return made


@pytest.fixture
def ledger(home: Home, folders: dict[str, LocalFiles]) -> Iterator[Ledger]:
    """A ledger with both sources in the library."""
    for name, folder in folders.items():
        with open_sync(home, folder, name, Policy(), Priority.NORMAL) as sync:
            sync.discover()
            while (token := sync.claim(250)) is not None:
                sync.process(token)
            sync.finish("completed")
    with closing(Ledger.open(home.database_url)) as ledger:
        fill(ledger, Hashes())
        yield ledger


class Hashes:
    """A model with a different vector for each text; its vectors have no meaning."""

    setting, name, dimensions = "use", "hashes", 32

    def passages(self, texts: Sequence[str]) -> list[bytes | Refusal]:
        return [quantized([crc32(text.encode()) * n % 101 - 50.5 for n in range(1, 33)]) for text in texts]

    def query(self, text: str) -> Sequence[float]:
        return [1.0, 0.0]


def vectors(ledger: Ledger) -> int:
    """Return the number of stored vectors."""
    space = ledger.embeddings.searched()
    assert space is not None
    return sum(map(len, ledger.embeddings.vectors(space, 0)))


def names(ledger: Ledger) -> list[bytes]:
    """Return the stored vectors of names."""
    space = ledger.embeddings.searched()
    assert space is not None
    return [one.vector for group in ledger.embeddings.title_vectors(space, 0) for one in group]


@pytest.fixture
def mine(ledger: Ledger) -> Source:
    return ledger.sources.get("mine")


def purge(home: Home, ledger: Ledger, source: Source) -> PurgeProof:
    return revoke(home, ledger, source, ALL, "operator:anna")


def holding(home: Home, words: str) -> list[str]:
    """Return the files of the home that contain these words."""
    return holding_bytes(home, words.encode())


def holding_bytes(home: Home, value: bytes) -> list[str]:
    files = [file for file in home.path.rglob("*") if file.is_file()]
    return sorted(file.name for file in files if value in file.read_bytes())


def names_of_other(ledger: Ledger) -> list[bytes]:
    """Return the vectors of the names that the other source has."""
    titles = [named.title for named in ledger.library.names(ledger.sources.get("other").id)]
    return [vector for vector in Hashes().passages(titles) if isinstance(vector, bytes)]


def test_proof_leaves_the_locks_of_its_process(
    home: Home, ledger: Ledger, mine: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    prove, file = revoking._prove, str(home.path / "ledger.db")
    written_by_others: list[int] = []

    def prove_while_writing(*given: Any) -> PurgeProof:
        with closing(sqlite3.connect(file, isolation_level=None)) as writer:
            writer.execute("BEGIN IMMEDIATE")
            found = prove(*given)
            other = "import sqlite3, sys; sqlite3.connect(sys.argv[1], 0, 0, None).execute('BEGIN IMMEDIATE')"
            command = [sys.executable, "-c", other, file]
            written_by_others.append(subprocess.run(command, capture_output=True, check=False).returncode)
            writer.execute("ROLLBACK")
        return found

    monkeypatch.setattr(revoking, "_prove", prove_while_writing)
    assert purge(home, ledger, mine).holds
    assert written_by_others == [1]


def test_purge_empties_the_home_but_keeps_shared_content(home: Home, ledger: Ledger, mine: Source) -> None:
    assert holding(home, "zebrafinch")
    assert (vectors(ledger), len(names(ledger))) == (3, 4)
    its_name = {*names(ledger)} - {*names_of_other(ledger)}
    assert its_name and all(holding_bytes(home, name) for name in its_name)
    proof = purge(home, ledger, mine)
    assert len(names(ledger)) == 2
    assert not any(holding_bytes(home, name) for name in its_name)
    assert proof.holds
    assert vectors(ledger) == 2
    assert (proof.items, proof.passages, proof.found, proof.in_files, proof.copies) == (2, 1, 0, 0, ())
    assert set(proof.left.values()) == {0}
    assert holding(home, "zebrafinch") == []
    assert {hit.source for hit in find_hits(ledger, "pump")} == {"other"}
    assert [consent.state for consent in ledger.consents.all("mine")] == ["withdrawn"]
    assert ledger.check(deep=True) == []


def test_repeated_purge_reports_the_same(home: Home, ledger: Ledger, mine: Source) -> None:
    purge(home, ledger, mine)
    again = purge(home, ledger, mine)
    assert (again.holds, again.items, again.passages) == (True, 0, 0)


def test_purged_source_is_not_read_without_new_consent(
    home: Home, ledger: Ledger, mine: Source, folders: dict[str, LocalFiles]
) -> None:
    purge(home, ledger, mine)
    with pytest.raises(NoConsent, match="withdrawn"), open_sync(
        home, folders["mine"], "mine", Policy(), Priority.NORMAL
    ):  # fmt: skip
        raise AssertionError("it was read")
    ledger.consents.give(mine.id, {WHOLE}, "operator:anna", None)
    with open_sync(home, folders["mine"], "mine", Policy(), Priority.NORMAL) as sync:
        assert sync.discover().jobs == 2


def test_undelivered_parse_results_are_purged(
    home: Home, ledger: Ledger, mine: Source, folders: dict[str, LocalFiles]
) -> None:
    with closing(Cache(home.cache)) as cache:
        cache.put({"7:1:1": SECRET.encode()})
        assert holding(home, "zebrafinch of Winnipeg")
        assert purge(home, ledger, mine).holds
        assert cache.get(["7:1:1"]) == {}
    assert holding(home, "zebrafinch of Winnipeg") == []


def test_purge_removes_files_beside_the_ledger_but_not_of_others(home: Home, ledger: Ledger, mine: Source) -> None:
    for name in ("mine", "other"):
        home.copies(name).mkdir(parents=True)
        (home.copies(name) / "pack").write_text(f"objects of {name}")
        home.plans.mkdir(exist_ok=True)
        (home.plans / f"{name}.json").write_text(f'{{"source": "{name}", "said": ["zebrafinch.md"]}}')
    purge(home, ledger, mine)
    assert holding(home, "zebrafinch") == ["other.json"]
    assert [folder.name for folder in (home.path / "copies").iterdir()] == ["other"]


def test_backups_that_contain_the_source_are_named(home: Home, ledger: Ledger, mine: Source) -> None:
    backups = home.path / "backups"
    backups.mkdir()
    (backups / "yesterday.db").write_text(f"… {SECRET} …")
    proof = purge(home, ledger, mine)
    assert (proof.holds, proof.copies) == (True, ("backups/yesterday.db",))


def test_short_texts_are_counted_before_and_after(home: Home, folders: dict[str, LocalFiles], tmp_path: Path) -> None:
    for name in ("mine", "other"):
        for file in (tmp_path / name).iterdir():
            file.unlink()
        (tmp_path / name / "both.md").write_text("pump")
    for n in range(3):
        (tmp_path / "mine" / f"{n}.md").write_text(f"eel {n}")
    for name, folder in folders.items():
        with open_sync(home, folder, name, Policy(), Priority.NORMAL) as sync:
            sync.discover()
            while (token := sync.claim(250)) is not None:
                sync.process(token)
            sync.finish("completed")
    with closing(Ledger.open(home.database_url)) as ledger:
        with closing(Cache(home.cache)) as cache:
            cache.put({"7:1:1": b"eel 7"})
        proof = purge(home, ledger, ledger.sources.get("mine"))
        assert (proof.documents, proof.chunks, proof.cached, proof.passages) == (4, 3, 1, 0)
        assert (proof.still, proof.holds) == ({"documents": 0, "chunks": 0, "cached": 0, "raw": 0}, True)
        assert {hit.source for hit in find_hits(ledger, "pump")} == {"other"}


def test_remaining_documents_contradict_the_proof(home: Home, ledger: Ledger, mine: Source) -> None:
    holdings = ledger.purging.holdings(mine.id, ALL.covers)
    assert ledger.purging.remaining(holdings) == (2, 1)
    other = ledger.purging.holdings(ledger.sources.get("other").id, ALL.covers)
    purge(home, ledger, mine)
    assert ledger.purging.remaining(holdings) == (0, 0)
    assert ledger.purging.remaining(other) == (2, 1)


def test_backup_with_short_texts_is_named(home: Home, ledger: Ledger, mine: Source, tmp_path: Path) -> None:
    backups = home.path / "backups"
    backups.mkdir()
    ledger.back_up(backups / "before.db", {})
    part = Extent(frozenset({WHOLE}), lambda locator: locator == "shared.md", whole=False)
    nothing = Extent(frozenset({WHOLE}), lambda locator: False, whole=False)
    assert revoke(home, ledger, mine, nothing, "operator:anna").copies == ()
    assert revoke(home, ledger, mine, part, "operator:anna").copies == ("backups/before.db",)
    proof = purge(home, ledger, mine)
    assert (proof.holds, proof.copies) == (True, ("backups/before.db",))
    ledger.back_up(backups / "after.db", {})
    (backups / "damaged.db").write_bytes(b"SQLite format 3\0" + bytes(5_000))
    assert purge(home, ledger, mine).copies == ("backups/before.db", "backups/damaged.db")


def test_same_words_in_another_source_are_not_a_trace(
    home: Home, ledger: Ledger, mine: Source, tmp_path: Path, folders: dict[str, LocalFiles]
) -> None:
    (tmp_path / "other" / "quoted.md").write_text(f"He said that {SECRET}, and then he left.")
    with open_sync(home, folders["other"], "other", Policy(), Priority.NORMAL) as sync:
        sync.discover()
        while (token := sync.claim(250)) is not None:
            sync.process(token)
        sync.finish("completed")
    proof = purge(home, ledger, mine)
    assert (proof.holds, proof.found, proof.in_files) == (True, 0, 0)
    assert [hit.item for hit in find_hits(ledger, "zebrafinch")] == ["quoted.md"]


def test_running_sync_ends_before_the_purge(
    home: Home, ledger: Ledger, mine: Source, folders: dict[str, LocalFiles], tmp_path: Path
) -> None:
    (tmp_path / "mine" / "new.md").write_text("The zebrafinch has hatched three more")
    began, withdrawn = threading.Event(), threading.Event()

    def work() -> None:
        with open_sync(home, folders["mine"], "mine", Policy(), Priority.NORMAL) as sync:
            sync.discover()
            token = sync.claim(250)
            assert token is not None
            sync.normalize(token)
            began.set()
            withdrawn.wait(PATIENCE)
            sync.process(token)
            assert sync.claim(250) is None
            sync.finish("cancelled")

    worker = threading.Thread(target=work)
    worker.start()
    assert began.wait(PATIENCE)
    withdraw = ledger.consents.withdraw

    def and_tell(source_id: int, scopes: frozenset[str], by: str, reason: str) -> None:
        withdraw(source_id, scopes, by, reason)
        withdrawn.set()

    ledger.consents.withdraw = and_tell  # type: ignore[method-assign,assignment]
    proof = purge(home, ledger, mine)
    worker.join()
    assert (proof.holds, proof.items) == (True, 3)
    assert holding(home, "zebrafinch") == []


def test_unfinished_sync_is_reported_and_cannot_write(
    home: Home, ledger: Ledger, mine: Source, folders: dict[str, LocalFiles], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("catchment.sync.revoke._SYNC_ENDS_SECONDS", 0.2)
    with open_sync(home, folders["mine"], "mine", Policy(), Priority.NORMAL) as sync:
        with pytest.raises(TryAgain, match="repeat the command"):
            purge(home, ledger, mine)
        assert sync.discover().listed == 0
        sync.finish("cancelled")
    assert purge(home, ledger, mine).holds


def test_killed_purge_is_completed_by_the_next(home: Home, ledger: Ledger, mine: Source) -> None:
    ledger.close()
    child = os.fork()
    if child == 0:
        try:
            again = Ledger.open(home.database_url)
            with heartbeat.heard_by(lambda *_: os.kill(os.getpid(), signal.SIGKILL)):
                revoke(home, again, mine, ALL, "operator:anna")
        finally:
            os._exit(0)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    with closing(Ledger.open(home.database_url)) as later:
        assert [consent.state for consent in later.consents.all("mine")] == ["purging"]
        assert purge(home, later, mine).holds
    assert holding(home, "zebrafinch") == []
