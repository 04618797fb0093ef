"""Identifiers are found by their parts, also after edits and deletions, and in libraries of earlier versions."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from sqlite3 import connect

import pytest

from catchment.ledger import Ledger
from catchment.ledger.library import word_parts
from catchment.ledger.library.word_parts import parts, pieces_of
from tests.ledger.older import BEFORE_0009, BEFORE_0014
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
    ("text", "words"),
    [
        ("Ka**tze**nklo", "katzenklo"),
        ("un*glaub*lich **Uhr**werk ***a*b** x", "unglaublich uhrwerk ab"),
        ("~~dele~~ted Donau&shy;dampf", "deleted donaudampf"),
        ('<b>Uhr</b>werk <span class="x">Ä</span>rger H<sub>2</sub>O a<B><i>b</i></b>c', "uhrwerk arger h2o abc"),
        ("жел**ез**о", "железо"),
        ("**Uhr und Werk**zeug", "werkzeug"),
        ("**Uhr** werk, *so*. a * b 2*3 ~~x~~ y a<br>b a<p>b 1<2 snake_case _so_ *.txt a~b AT&T", ""),
    ],
)
def test_words_with_markup_inside_are_indexed_without_it(text: str, words: str) -> None:
    assert parts(text) == words


@pytest.mark.databases
def test_word_with_markup_inside_is_found_as_a_whole(world: World) -> None:
    put(world, "a.md", "das Ka**tze**nklo, ein жел**ез**о", language="de")
    put(world, "b.md", "the <b>Uhr</b>werk is un*glaub*lich ~~dele~~ted")
    for query in ("katzenklo", "железо", "Katzenklos", "katzenk*", "katzenklo das", "Katzenkol"):
        assert found(world, query) == ["a.md"], query
    for query in ("Uhrwerk", "unglaublich uhr", "deleted", "UHRWERK -katzenklo", "the unglaubliche uhrwerk of it"):
        assert found(world, query) == ["b.md"], query
    assert ask(world, "katzenklo").hits[0].snippet == "das [Katzenklo], ein железо"
    assert ask(world, "uhrwerk -unglaublich").total == 0
    assert world.ledger.check(deep=True) == []


@pytest.mark.databases
def test_words_with_markup_of_an_earlier_library_are_found(world: World) -> None:
    put(world, "Uhr**werk**.md", "das Ka**tze**nklo und ein HttpClient")
    with world.ledger._store.write() as writing:
        for table in (word_parts.CHUNKS, word_parts.DOCUMENTS):
            word_parts.clear(writing, table)
        for statement in (*BEFORE_0014, "UPDATE revision SET version_num = '0012'"):
            writing.connection.exec_driver_sql(statement)
    world.ledger.close()
    with closing(Ledger.open(world.url, clock=world.clock)) as ledger:
        migrated = World(world.url, world.clock, ledger)
        for query in ("katzenklo", "uhrwerk", "http"):
            assert found(migrated, query) == ["Uhr**werk**.md"], query
        assert ledger.check(deep=True) == []


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
        for statement in BEFORE_0009:
            database.execute(statement)
        database.execute("UPDATE revision SET version_num = '0001'")
        for table in ("embeddings", "search_model", "spaces"):
            database.execute(f"DROP TABLE {table}")
        database.execute("DELETE FROM counters WHERE name IN ('spaces', 'embeddings', 'embeddings_deleted')")
        for index in ("documents_latest", "contents_by_type"):
            database.execute(f"DROP INDEX {index}")
        database.executescript(
            "DROP TABLE measures; DROP TABLE incidents; DELETE FROM counters WHERE name IN ('incidents', 'title_embeddings');"
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
