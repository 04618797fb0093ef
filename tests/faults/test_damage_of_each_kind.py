"""Damage to every type of location in a ledger's files is reported with a remedy or harmless, and can be restored."""

from __future__ import annotations

import random
import shutil
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.faults.damages import HOW, Files, damaged, places
from tests.faults.workshop import Came, Texts, Workshop, texts_of

_ENDINGS = ("", "-wal", "-shm")
_RESTORE = "catchment restore"


_PLACES = [
    *(
        "magic",
        "page size",
        "versions",
        "reserved",
        "page count",
        "free list",
        "schema cookie",
        "encoding",
        "first page",
    ),
    *("table's root", "table's leaf", "overflow", "index's root", "index's leaf", "history's leaf", "words' root"),
    *("words' leaf", "words' index", "letters", "sums of words", "jobs", "documents", "counters", "schema"),
    *("free trunk", "free leaf"),
]
_SHORT = {
    *(("schema cookie", "noise"), ("counters", "another's"), ("words' index", "another's"), ("overflow", "torn")),
    ("schema", "one byte"),
}
"""The damage tested by ordinary runs: one of each response, and former defects."""


def _each(names: list[str]) -> list[object]:
    return [
        pytest.param(
            name, how, marks=pytest.mark.long if (name, how) in _SHORT else pytest.mark.soak, id=f"{name}, {how}"
        )
        for name in names
        for how in HOW
    ]


@dataclass
class Ledgers:
    """Saved ledgers with their texts: a closed one, and one with its last syncs only in its log."""

    closed: Path
    texts: Texts
    logged: Path
    """The state after a kill: the second half of the papers is only in the log."""
    after: Texts
    taken: socket.socket = field(default_factory=socket.socket)

    @property
    def commands(self) -> list[list[str]]:
        """User commands that read, write and start. The port is in use, so that no server is started."""
        looking = [["ledger", "check", "--deep"], ["status"], ["search", "paper"], ["jobs", "list", "--limit", "5"]]
        port = str(self.taken.getsockname()[1])
        return [*looking, ["quarantine", "retry", "--all"], ["up", "--detach", "--port", port]]


@pytest.fixture(scope="module")
def ledgers(shop: Workshop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledgers]:
    random.seed("ledgers")
    folder = tmp_path_factory.mktemp("ledgers")
    shop.papers.mkdir()
    (shop.place / "kept").mkdir(parents=True)
    for n in range(130):
        (shop.papers / f"{n}.md").write_text(_paper(n))
    (shop.papers / "水.md").write_text("# 水 paper\n\n" + "水文学は水の科学である。" * 100)
    shop.well("sync")
    (shop.papers / "long.md").write_text("# The last paper\n\n" + "A paper of many words. " * 1_000)
    shop.well("sync")
    with closing(sqlite3.connect(shop.home / "ledger.db")) as database:
        database.execute("CREATE TABLE let_go AS SELECT text FROM contents")
        database.execute("DROP TABLE let_go")
    shop.well("back_up")
    shop.save(folder / "closed")
    texts = shop.texts()
    for n in range(5):
        (shop.papers / f"{n}.md").write_text(_paper(n, "second"))
    with closing(sqlite3.connect(shop.home / "ledger.db")) as database:
        # The log persists while a connection is open.
        database.execute("SELECT count(*) FROM sources").fetchone()
        shop.well("sync")
        (shop.papers / "5.md").write_text(_paper(5, "second"))
        shop.well("sync")
        shop.save(folder / "logged")
    after = shop.texts()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield Ledgers(folder / "closed", texts, folder / "logged", after, taken)


def _paper(n: int, word: str = "first") -> str:
    return f"# Paper {n}\n\n" + f"The {word} paper number {n}. " * 80


def _put(shop: Workshop, files: Files) -> None:
    for ending, data in files.items():
        shop.home.joinpath(f"ledger.db{ending}").write_bytes(data)


def _files(shop: Workshop) -> Files:
    there = {ending: shop.home / f"ledger.db{ending}" for ending in _ENDINGS}
    return {ending: file.read_bytes() for ending, file in there.items() if file.exists()}


def _each_says_what_helps(commands: list[list[str]], came: list[Came]) -> bool:
    """Check that each failed command named the remedy in one line; return whether any command reported the damage."""
    told = False
    for words, one in zip(commands, came, strict=True):
        code, err = one.done["code"], one.done["err"]
        about = (words, code, err)
        if words[0] == "up" and code == 10:
            assert "in use by another program" in err, about
        elif code == 0:
            assert "restore" not in err, about
        elif code == 10:
            # SQLite can read, but not write, a file with a newer format version in its header.
            assert err == "catchment: ledger: file cannot be read or written; check its disk and owner\n", about
            told = True
        else:
            told = True
            assert code == 1, about
            assert words[0] == "ledger" or len(err.splitlines()) == 1, about
            assert words[0] == "ledger" or _RESTORE in err, about
            assert err.startswith(("catchment: ledger: ", "invariant violated: ")), about
    return told


def _a_restore_brings_all_back(shop: Workshop, texts: Texts) -> None:
    restored, looked = shop.do(["restore", str(shop.place / "kept" / "copy.db")], "look")
    assert restored.done["code"] == 0, restored
    assert texts_of(looked) == texts


@pytest.mark.parametrize(("place", "how"), _each(_PLACES))
def test_damage_to_each_ledger_location_is_reported_or_harmless(
    shop: Workshop, ledgers: Ledgers, place: str, how: str
) -> None:
    shop.begin_from(ledgers.closed)
    found = places(shop.home / "ledger.db")
    assert sorted(found) == sorted(_PLACES)
    try:
        broken = damaged(_files(shop), found[place], how)
    except ValueError:
        pytest.skip("what is there would be the same")
    _put(shop, broken)
    *came, looked = shop.do(*ledgers.commands, "look")
    if came[0].done["code"] == 0:
        assert not _each_says_what_helps(ledgers.commands, came)
        texts = texts_of(looked)
        assert texts.keys() == ledgers.texts.keys()
        # A changed bit in a text may only alter the case of a letter or a separator between words.
        assert how == "one byte" or texts == ledgers.texts
    else:
        assert _each_says_what_helps(ledgers.commands, came)
        assert len(_files(shop)[""]) == len(broken[""]), "it was not made anew"
    _a_restore_brings_all_back(shop, ledgers.texts)


@pytest.mark.parametrize(
    "share",
    [pytest.param(0.9, marks=pytest.mark.long), *(pytest.param(n, marks=pytest.mark.soak) for n in (0.0, 0.5))],
)
def test_truncated_log_yields_an_earlier_snapshot(shop: Workshop, ledgers: Ledgers, share: float) -> None:
    shop.begin_from(ledgers.logged)
    files = _files(shop)
    _put(shop, {"-wal": files["-wal"][: int(len(files["-wal"]) * share)]})
    # The snapshot may be in the middle of a sync; the next sync takes over its jobs.
    assert not _each_says_what_helps(ledgers.commands[1:], shop.do(*ledgers.commands[1:]))
    shop.well("sync")
    assert shop.texts() == ledgers.after


@pytest.mark.long
def test_log_of_another_ledger_is_reported_and_unchanged(shop: Workshop, ledgers: Ledgers, tmp_path: Path) -> None:
    shop.begin_from(ledgers.closed)
    with closing(sqlite3.connect(tmp_path / "other.db", isolation_level=None)) as other:
        other.execute("PRAGMA page_size = 8192")
        other.execute("PRAGMA journal_mode = WAL")
        other.execute("CREATE TABLE other AS SELECT 1 AS number")
        shutil.copy(tmp_path / "other.db-wal", shop.home / "ledger.db-wal")
    came = shop.do(*ledgers.commands)
    assert _each_says_what_helps(ledgers.commands, came)
    _a_restore_brings_all_back(shop, ledgers.texts)
