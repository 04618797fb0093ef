"""The checker finds violated invariants; each test violates one directly in the database."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from itertools import product
from pathlib import Path

import pytest
from sqlalchemy import text

from catchment.errors import IllegalTransition, LedgerCorrupt
from catchment.ledger import Ledger
from catchment.ledger.admin import index_check
from catchment.ledger.db.job_states import ARROWS, move
from catchment.ledger.db.schema import jobs
from catchment.model import JobState
from tests.ledger.world import PARSE_ERROR, Clock, World, note, notes

BREACHES = {
    "UPDATE jobs SET token = NULL WHERE id = 3": "Job 3 is running and has no lease",
    "UPDATE jobs SET token = 9 WHERE id = 1": "Job 1 is not running and has a lease",
    "UPDATE jobs SET finished_at = NULL WHERE id = 1": "Job 1 is finished without a finish time, or unfinished with one",
    "UPDATE jobs SET attempt = 0 WHERE id = 2": "Job 2 was started without an attempt",
    "UPDATE jobs SET current = 0 WHERE id = 2": "Item 2 has no current job",
    "UPDATE jobs SET current = 0 WHERE id = 5": "Job 5 is unfinished and was replaced by another",
    "UPDATE items SET version = 'v9' WHERE id = 3": "Item 3 differs in version from its current job",
    "UPDATE items SET state = 'missing' WHERE id = 3": "Job 3 waits for an item that is missing at the source",
    "DELETE FROM documents WHERE id = 2": "Job 2 has succeeded and its item has no document",
    "UPDATE jobs SET state = 'cancelled' WHERE id = 2": "Document 2 belongs to no successful job",
    "UPDATE items SET state = 'deleted' WHERE id = 1": "Document 1 is in the library although its item is deleted",
    "UPDATE items SET content_hash = 'x' WHERE id = 2": "Item 2 and its document differ in content",
    "UPDATE documents SET moment = 7 WHERE id = 2": "Document 2 has a different time from its content",
    "UPDATE documents SET content_id = 1": "Content 2 belongs to no document",
    "UPDATE documents SET content_id = 1, properties = id": "Document 1 and another with the same content differ in names",
    "UPDATE documents SET aliases = 'x', content_id = 2 WHERE id = 1": (
        "Document 1 and another with the same content differ in names"
    ),
    "UPDATE contents SET media_type = 'message/rfc822' WHERE id = 2": "Content 2 is a mail message without a conversation",
    "DELETE FROM quarantine": "Job 4 is quarantined without an open entry",
    "UPDATE jobs SET state = 'skipped' WHERE id = 4": (
        "The quarantine entry of job 4 is open, but the job is not quarantined"
    ),
    "DELETE FROM chunks WHERE id = 2": "Passage 2 is in the index, but not in the library",
    "INSERT INTO chunks VALUES (77, 1, 0, 3, '')": "Passage 77 is in the library, but not in the index",
    "INSERT INTO chunk_pairs (rowid, pairs) VALUES (78, '水')": (
        "Passage 78 is in the index of word parts, but not in the library"
    ),
    "UPDATE counters SET value = 4 WHERE name = 'jobs'": "The counter of jobs is too low",
    "DELETE FROM counters WHERE name = 'token'": "The counter of token is too low",
    "UPDATE documents SET removed_at = 5 WHERE id = 1": "The name of document 1 is in the index, but not in the library",
}


def test_every_violation_is_reported_with_its_first_row(sqlite_world: World, tmp_path: Path) -> None:
    world = sqlite_world
    world.ingest(note("a.md"), note("b.md"))
    world.see(note("c.md"), note("d.md"), note("e.md"))
    batch = world.claim(2)
    world.ledger.queue.fail(batch.token, 4, PARSE_ERROR, retry_at=None)
    assert world.ledger.check(deep=True) == []
    world.ledger.close()
    for number, (breach, finding) in enumerate(BREACHES.items()):
        copy = tmp_path / f"{number}.db"
        shutil.copy2(world.url.removeprefix("sqlite:///"), copy)
        with closing(sqlite3.connect(copy)) as connection, connection:
            connection.execute(breach)
        with closing(Ledger.inspect(f"sqlite:///{copy}")) as ledger:
            assert finding in ledger.check(), breach


@pytest.mark.parametrize("change", ["contents SET text = 'Other words'", "documents SET properties = 'other'"])
def test_the_deep_check_reads_every_word_and_every_attempt(sqlite_world: World, change: str) -> None:
    sqlite_world.ingest(*notes(2))
    with closing(sqlite3.connect(sqlite_world.url.removeprefix("sqlite:///"))) as connection, connection:
        connection.execute(f"UPDATE {change}")
        (guard,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'history_no_update'").fetchone()
        connection.execute("DROP TRIGGER history_no_update")
        connection.execute("UPDATE history SET attempt = 5 WHERE event = 'pending'")
        connection.execute(guard)
        connection.execute("INSERT INTO links VALUES (99, 0, 'url', 'x', '', '', 0, 0, 'x')")
    findings = sqlite_world.ledger.check(deep=True)
    assert "The word index differs from the texts" in findings
    assert "The attempts of job 1 decreased" in findings
    assert "A row refers to a missing row" in findings


@pytest.mark.postgres
@pytest.mark.parametrize(
    "change",
    [
        "contents SET text = 'Other words'",
        "documents SET properties = 'other'",
        "index_words SET doc = doc + 1 WHERE term = 'says'",
        "index_words SET doc = doc + 1 WHERE term = ''",
    ],
)
def test_deep_check_on_postgresql_compares_words_and_their_counts(
    empty_postgres: str, postgres_ledger: Ledger, clock: Clock, change: str
) -> None:
    world = World(empty_postgres, clock, postgres_ledger)
    world.ingest(*notes(3))
    world.lose("n/1.md")
    world.settle()
    assert postgres_ledger.vocabulary.among({"md"}) == {"md": 2}
    assert postgres_ledger.check(deep=True) == []
    with postgres_ledger._store.engine.begin() as connection:
        connection.execute(text(f"UPDATE {change}"))
    assert postgres_ledger.check(deep=True) == ["The word index differs from the texts"]


UNSEEN = {
    "DROP TRIGGER history_no_update": "The tables do not match this version of Catchment",
    "DROP INDEX links_by_name": "The tables do not match this version of Catchment",
    "UPDATE contents SET title = CAST(x'ff41' AS TEXT)": "The table contents contains invalid text",
    "UPDATE items SET attributes = '{}}'": "The table items contains invalid text",
    "DELETE FROM chunk_index_idx": "The word index contains unreachable words",
}


@pytest.mark.parametrize("breach", UNSEEN, ids=lambda breach: breach[:60])
def test_deep_check_finds_damage_that_page_checks_miss(sqlite_world: World, breach: str) -> None:
    sqlite_world.ingest(*notes(3), text=" ".join(f"word{n}" for n in range(2_000)))
    assert sqlite_world.ledger.check(deep=True) == []
    with closing(sqlite3.connect(sqlite_world.url.removeprefix("sqlite:///"))) as connection, connection:
        connection.execute(breach)
    (finding,) = sqlite_world.ledger.check(deep=True)
    assert finding.startswith(UNSEEN[breach])


@pytest.mark.parametrize("missing", [1, 100, 8_191])
def test_file_with_a_truncated_last_page_is_damaged(sqlite_world: World, missing: int) -> None:
    sqlite_world.ingest(*notes(3))
    sqlite_world.ledger.close()
    file = Path(sqlite_world.url.removeprefix("sqlite:///"))
    os.truncate(file, file.stat().st_size - missing)
    for look in (Ledger.open, Ledger.inspect):
        with pytest.raises(LedgerCorrupt, match="catchment restore"):
            look(sqlite_world.url)


@pytest.mark.parametrize("words", [2, 20_000])
def test_page_truncated_by_a_full_disk_is_read_from_the_log(sqlite_world: World, words: int) -> None:
    sqlite_world.ingest(*notes(3), text="long " * words)
    with Path(sqlite_world.url.removeprefix("sqlite:///")).open("ab") as file:
        file.write(b"half of a page")
    Ledger.open(sqlite_world.url).close()
    assert sqlite_world.ledger.check(deep=True) == []


def test_a_text_of_megabytes_is_compared_in_one_pass(sqlite_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_check, "_LARGE", 20)
    sqlite_world.ingest(*notes(2), text="What a large text says")
    assert sqlite_world.ledger.check(deep=True) == []
    with closing(sqlite3.connect(sqlite_world.url.removeprefix("sqlite:///"))) as connection, connection:
        before = connection.execute("SELECT * FROM sqlite_master").fetchall()
        connection.execute("UPDATE contents SET text = replace(text, 'large', 'small')")
    assert sqlite_world.ledger.check(deep=True) == ["The word index differs from the texts"]
    with closing(sqlite3.connect(sqlite_world.url.removeprefix("sqlite:///"))) as connection:
        assert connection.execute("SELECT * FROM sqlite_master").fetchall() == before


@pytest.mark.parametrize(("text", "other"), [("水文学", "words"), ("words", "水文学")])
def test_deep_check_finds_missing_and_stale_bigrams(sqlite_world: World, text: str, other: str) -> None:
    sqlite_world.ingest(note("a.md"), note("水.md"), text=text)
    with closing(sqlite3.connect(sqlite_world.url.removeprefix("sqlite:///"))) as connection, connection:
        connection.execute("UPDATE contents SET text = ?", (other,))
        connection.execute("UPDATE documents SET title = '', path = 'b.md' WHERE id = 2")
    findings = sqlite_world.ledger.check(deep=True)
    assert "Passage 1 differs from the index of word parts" in findings
    assert "The name of document 2 differs from the index of word parts" in findings


def test_job_follows_only_the_documented_transitions(sqlite_world: World) -> None:
    with sqlite_world.ledger._store.write() as writing:
        for old, new in product(JobState, repeat=2):
            if new in ARROWS[old]:
                assert list(move(writing, jobs.c.id == 1, {old}, new, actor="test")) == []
            else:
                with pytest.raises(IllegalTransition, match="nothing was changed"):
                    move(writing, jobs.c.id == 1, {old}, new, actor="test")
