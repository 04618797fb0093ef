"""The options of `search`, and `related` by meaning, on a library with embeddings."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from catchment.ledger import Ledger
from catchment.runtime.home import Home
from catchment.search.meaning.builtin import BuiltIn
from catchment.search.meaning.fill import fill
from catchment.search.results import Hit
from console.library.search import show_hit
from tests.console.test_open import ingest

if TYPE_CHECKING:
    from tests.console.conftest import Cli


@pytest.fixture
def embedded(filled: Path) -> Path:
    with closing(Ledger.open(Home(filled).database_url)) as ledger:
        fill(ledger, BuiltIn())
    return filled


def test_every_hit_is_one_line_of_ndjson(filled: Path, cli: Cli) -> None:
    lines = cli("search", "hive", "--ndjson").out.splitlines()
    assert [json.loads(line) for line in lines] == cli("search", "hive", "--json").json
    assert len(lines) == 2
    assert cli("search", "zebra", "--ndjson").out == ""


def test_others_of_the_same_archive_are_one_line(filled: Path, cli: Cli) -> None:
    for name in ("1.md", "2.md", "n/3.md"):
        ingest(filled, "folder", "local_files", f"old.zip!/{name}", {}, text=f"a girder of {name}")
    ingest(filled, "folder", "local_files", "4.md", {}, text="girder of the barn")
    lines = cli("search", "girder").out.splitlines()
    assert [line for line in lines if line.startswith("  +")] == ["  +2 in old.zip: 2.md (4), n/3.md (5)"]
    assert len(cli("search", "girder", "--json").json) == 4
    assert "shows 2 results" in cli("search", "girder", "--open", "3").err


def test_meaning_alone_loads_the_model(embedded: Path, cli: Cli) -> None:
    first = cli("search", "Bienen im Frühling", "--meaning", "--json").json[0]
    assert (first["lexical_rank"], first["semantic_rank"]) == (None, 1)
    assert first["cosine"] > 0.2
    assert "by meaning" in cli("search", "Bienen im Frühling", "--meaning").out


def test_without_the_running_system_words_answer(embedded: Path, cli: Cli) -> None:
    response = cli("search", "swarm")
    assert response.out.startswith("Swarm  ")
    assert response.err == ("searched by words only; page: not running; start Catchment with `catchment up --detach`\n")
    assert cli("search", "swarm", "--words").err == ""


def test_meaning_without_embeddings_exits_with_10(filled: Path, cli: Cli) -> None:
    response = cli("search", "swarm", "--meaning")
    assert (response.code, "not made yet" in response.err) == (10, True)


def test_lanes_exclude_each_other(filled: Path, cli: Cli) -> None:
    assert cli("search", "swarm", "--words", "--meaning").code == 2


def test_explanation_shows_words_filters_and_ranks(embedded: Path, cli: Cli) -> None:
    query = ("search", "swarms", "tag:bees", "--words", "--explain")
    out = cli(*query).out
    assert "swarms (forms: swarm)" in out
    assert "tag:bees" in out
    assert "words: rank 1, score" in out
    found = cli(*query, "--json").json
    assert list(found) == [
        "hits",
        "total",
        "understood",
        "is_partial",
        "meaning_off",
        "is_capped",
        "incomplete",
        "late",
    ]
    assert found["understood"]["filters"] == ["tag:bees"]
    assert found["understood"]["words"][0]["forms"] == ["swarm"]
    explained = cli("search", "when do bees leave", "--meaning", "--explain").out
    assert "meaning: rank 1, cosine" in explained


def test_excluded_word_is_no_option(filled: Path, cli: Cli) -> None:
    for words in (("hive", "-winter"), ("-winter", "hive", "--words"), ("--", "hive", "-winter")):
        assert [hit["title"] for hit in cli("search", "--json", *words).json] == ["Swarm"]


def test_misspelling_is_reported_once(filled: Path, cli: Cli) -> None:
    assert cli("search", "swarn", "hives", "--words").err == "showing results for swarm instead of swarn\n"


def test_hits_of_a_sentence_are_the_best_of_many(filled: Path, cli: Cli) -> None:
    response = cli("search", "where", "is", "the", "quiet", "swarm", "--words", "--limit", "1")
    assert response.err == "the best 1; the next: --page 2\n"
    assert cli("search", "shed", "swarm", "--words").err == (
        "no document has all the words; these have some of them or a similar meaning\n"
    )


def test_found_words_have_a_colour_or_brackets(filled: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    query = ("search", "may", "--words")
    assert "left the hive in [May], see" in cli(*query).out
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "left the hive in \x1b[33mMay\x1b[0m, see" in cli(*query).out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "[May]" in cli(*query).out


def test_result_without_a_text_has_no_empty_line(capsys: pytest.CaptureFixture[str]) -> None:
    picture = Hit(7, "map.png", "notes", "a/map.png", "", 1.0, (), None, 1, "image/png", None, None)
    show_hit(picture)
    show_hit(replace(picture, snippet="a [1] of [maps]", marks=((9, 15),)))
    first, last = "map.png  7\n  notes: a/map.png\n", "  a [1] of [maps]\n"
    assert capsys.readouterr().out == first + first + last


@pytest.mark.parametrize(
    ("query", "problem"),
    [("***", "has no words"), ("??? source:notes", "has no words"), ("-hive", "excludes words only")],
)
def test_query_without_words_explains_itself(filled: Path, cli: Cli, query: str, problem: str) -> None:
    response = cli("search", "--", query)
    assert (response.code, response.out) == (0, "")
    assert response.err.startswith(f"nothing to search for: the query {problem}; example: ")


def test_symbol_that_occurs_nowhere_is_not_found(filled: Path, cli: Cli) -> None:
    assert cli("search", "🦖", "source:notes").err == "nothing found\n"


def test_related_lists_similar_documents_and_near_duplicates(filled: Path, cli: Cli) -> None:
    draft = "Order new frames for the hive before the flowering season, and paint the boxes."
    ingest(filled, "notes", "obsidian", "draft.md", {}, draft)
    ingest(filled, "notes", "obsidian", "final.md", {}, draft + " Soon.")
    assert cli("related", "draft.md").err.startswith("search by meaning: the embeddings are not made yet")
    with closing(Ledger.open(Home(filled).database_url)) as ledger:
        fill(ledger, BuiltIn())
    relations = cli("related", "draft.md", "--json").json
    assert (relations[0]["relation"], relations[0]["item"]) == ("near-duplicate", "final.md")
    assert 0.9 <= relations[0]["cosine"] <= 1.0
    assert {one["relation"] for one in relations[1:]} <= {"similar"}
    assert "draft.md" not in {one["item"] for one in relations}
    linked = cli("related", "Hive.md", "--json").json
    assert [one["relation"] for one in linked if one["item"] == "Bees/Swarm.md"] == ["linked from"]


@pytest.mark.parametrize("query", ["x" * 100_000, '"' * 99, "zz AND (yy", "\u202e\x1b[2J", "'); DROP TABLE jobs; --"])
def test_hostile_query_is_one_without_results(embedded: Path, cli: Cli, query: str) -> None:
    response = cli("search", "--json", "--explain", "--", query)
    assert (response.code, response.json["hits"]) == (0, [])
