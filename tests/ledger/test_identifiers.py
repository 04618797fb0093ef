"""Identifiers are found by their parts, also after edits and deletions, and in libraries of earlier versions."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from sqlite3 import connect

import pytest

from catchment.ledger import Ledger
from catchment.ledger.library.word_parts import parts, pieces_of
from tests.ledger.test_search import ask, found, put
from tests.ledger.world import Clock, World

CODE = "class HttpClientFactory { void connect() {} }"
PARTS_OF_CODE = "SELECT count(*) FROM chunk_pairs WHERE chunk_pairs MATCH 'client'"


@pytest.mark.parametrize(
    ("word", "pieces"),
    [
        ("HttpClientFactory", ["http", "client", "factory"]),
        ("parseXMLFile", ["parse", "xml", "file"]),
        ("XMLHttpReader", ["xml", "http", "reader"]),
        ("sha256Sum", ["sha256", "sum"]),
        ("x", ["x"]),
        ("Client", ["client"]),
        ("PDFs", ["pdfs"]),
        ("snake_case", ["snake_case"]),
        ("ÄrgerNis", ["ärgernis"]),
    ],
)
def test_identifier_has_parts(word: str, pieces: list[str]) -> None:
    assert pieces_of(word) == pieces


def test_runs_of_parts_are_indexed_and_long_noise_is_not() -> None:
    assert parts("new HttpClientFactory()").split() == ["http", "client", "factory", "httpclient", "clientfactory"]
    assert parts("a plain sentence. Another One, in PDFs of NASA") == ""
    assert parts("aB" * 40) == ""
    assert parts("aB" * 30) == "ba"
    assert parts("水文 and gitHub").split() == ["水文", "文", "git", "hub"]


@pytest.mark.parametrize(
    "query",
    ["client", "http client", "client factory", "ClientFactory", "clients", "fact*", "HTTP", "httpclientfactory"],
)
def test_identifier_is_found_by_its_parts(sqlite_world: World, query: str) -> None:
    put(sqlite_world, "net.java", CODE)
    put(sqlite_world, "other.md", "a fine day")
    results = ask(sqlite_world, query)
    assert [hit.item for hit in results.hits] == ["net.java"]
    assert results.corrected == []


def test_camel_case_finds_snake_case_and_words(sqlite_world: World) -> None:
    put(sqlite_world, "retry.py", "def parse_retry_after(value): ...")
    assert found(sqlite_world, "RetryAfter") == found(sqlite_world, "parseRetryAfter") == ["retry.py"]


def test_quoted_word_is_no_part(sqlite_world: World) -> None:
    put(sqlite_world, "net.java", CODE)
    assert found(sqlite_world, '"client"') == []


def test_whole_word_precedes_part_and_neighbours_precede_scattered_parts(sqlite_world: World) -> None:
    put(sqlite_world, "scattered.java", "class ClientPool {} class HttpReader {}")
    put(sqlite_world, "together.java", CODE)
    put(sqlite_world, "whole.md", "a client of ours")
    for n in range(20):
        put(sqlite_world, f"n/{n}.md", f"another note, number {n}")
    assert found(sqlite_world, "client")[0] == "whole.md"
    assert found(sqlite_world, "http client") == ["together.java", "scattered.java"]


def test_excluded_part_excludes_identifier(sqlite_world: World) -> None:
    put(sqlite_world, "net.java", CODE)
    put(sqlite_world, "plain.md", "connect the hose")
    assert found(sqlite_world, "connect -client") == ["plain.md"]


@pytest.mark.databases
def test_edited_and_deleted_identifiers_leave_the_index(world: World) -> None:
    put(world, "net.java", CODE)
    assert found(world, "client") == ["net.java"]
    put(world, "net.java", "class FileReader { }")
    assert found(world, "client") == []
    assert found(world, "reader") == ["net.java"]
    world.lose("net.java")
    world.settle()
    assert found(world, "reader") == []
    assert world.ledger.check(deep=True) == []


def test_missing_parts_are_reported_by_deep_check(sqlite_world: World) -> None:
    put(sqlite_world, "net.java", CODE)
    file = sqlite_world.url.removeprefix("sqlite:///")
    with closing(connect(file)) as database, database:
        database.execute("INSERT INTO chunk_pairs (chunk_pairs) VALUES ('delete-all')")
    assert [finding for finding in sqlite_world.ledger.check(deep=True) if "word parts" in finding]


def test_library_without_parts_is_migrated_from_its_texts(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    clock = Clock()
    world = World(url, clock, Ledger.open(url, clock=clock))
    put(world, "net/HttpClientFactory.java", CODE)
    put(world, "水文.md", "水文学")
    world.ledger.close()
    with closing(connect(tmp_path / "ledger.db")) as database, database:
        database.execute("UPDATE revision SET version_num = '0001'")
        for table in ("embeddings", "search_model", "spaces"):
            database.execute(f"DROP TABLE {table}")
        database.execute("DELETE FROM counters WHERE name IN ('spaces', 'embeddings', 'embeddings_deleted')")
        for index in ("documents_latest", "contents_by_type"):
            database.execute(f"DROP INDEX {index}")
        database.executescript(
            "DROP TABLE measures; DROP TABLE incidents;"
            "DELETE FROM counters WHERE name IN ('incidents', 'title_embeddings', 'sinks', 'changes');"
            "DROP TABLE refused_documents; DROP TABLE sinks; DROP TABLE outbox;"
            "DROP TABLE doc_tags; DROP TABLE doc_folders; DROP TABLE title_embeddings"
        )
        database.execute("ALTER TABLE syncs DROP COLUMN cause")
        database.execute("ALTER TABLE documents DROP COLUMN moment")
        for table in ("chunk_pairs", "document_pairs"):
            database.execute(f"INSERT INTO {table} ({table}) VALUES ('delete-all')")
        assert database.execute(PARTS_OF_CODE).fetchone() == (0,)
    with closing(Ledger.open(url, clock=clock)) as ledger:
        world = World(url, clock, ledger)
        assert found(world, "client") == ["net/HttpClientFactory.java"]
        assert found(world, "文学") == ["水文.md"]
        assert ledger.check(deep=True) == []
