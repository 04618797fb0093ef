"""Search by words and by meaning together, with the built-in model."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar, cast

import pytest
from pydantic import TypeAdapter

from catchment.errors import BadInput, MeaningOff
from catchment.ledger import Ledger, Vocabulary
from catchment.model import Document, Entity, EntityKind
from catchment.search.language import parse
from catchment.search.meaning.builtin import BuiltIn
from catchment.search.meaning.fill import fill
from catchment.search.meaning.index import MeaningIndex
from catchment.search.results import Lanes, Results
from catchment.search.search import search
from catchment.search.widened_query import understand
from catchment.views.documents import related
from tests.documents import document_named
from tests.ledger.test_messages import arrive, copied, eml
from tests.ledger.world import Clock, World, delivered, note

NOW = datetime(2026, 3, 11, tzinfo=UTC)
NOTES = {
    "File recovery.md": "Restore a previous version of a note from a snapshot. #computer",
    "Bees.md": "The hive needs more room before the flowering season. Add a box with empty frames.",
    "Fluss.md": "Der Fluss ist nach dem Regen über die Ufer getreten.",
    "Bread.md": "Feed the starter with flour and water, and let the dough rise overnight.",
    "Server.md": "The build server HttpClientFactory logs errors to disk. #computer",
    "Gears.md": "The chain slips under load: replace the worn cassette and adjust the derailleur.",
    "Roof.md": "Rain leaks through the attic ceiling; a tile is cracked. Error of the builder.",
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    url = f"sqlite:///{tmp_path_factory.mktemp('meaning') / 'ledger.db'}"
    clock = Clock()
    with closing(Ledger.open(url, clock=clock, monotonic=clock.steady)) as ledger:
        world = World(url, clock, ledger)
        for locator, text in NOTES.items():
            world.see(note(locator))
            batch = world.claim()
            title = locator.removesuffix(".md")
            tags = [Entity(EntityKind.TAG, "computer", "", 0, 1)] if "#computer" in text else []
            done = delivered(batch.jobs[0].id, text, title=title, entities=tags)
            document = Document(text, "text/markdown", title=title, language="de" if title == "Fluss" else "en")
            ledger.queue.deliver(batch.token, [replace(done, document=document)])
        fill(ledger, BuiltIn())
        yield world


@pytest.fixture(scope="module")
def meaning(library: World) -> MeaningIndex:
    return MeaningIndex(library.ledger)


class Asked:
    """A search of the library, as `search` returns it."""

    def __init__(self, world: World, meaning: MeaningIndex) -> None:
        self.world, self.meaning = world, meaning

    def __call__(self, text: str, lanes: Lanes = Lanes.BOTH, **how: int) -> Results:
        return search(self.world.ledger, text, NOW, meaning=self.meaning, lanes=lanes, **how)  # type: ignore[arg-type]


@pytest.fixture
def ask(library: World, meaning: MeaningIndex) -> Asked:
    return Asked(library, meaning)


def items(results: Results) -> list[str]:
    return [hit.item for hit in results.hits]


@pytest.mark.parametrize(
    ("query", "item"),
    [
        ("how do I get a deleted file back", "File recovery.md"),
        ("my bike's gears skip when pedalling", "Gears.md"),
        ("flood", "Fluss.md"),
        ("Brot backen", "Bread.md"),
    ],
)
def test_document_without_a_common_word_is_found(ask: Asked, query: str, item: str) -> None:
    results = ask(query)
    assert results.hits[0].item == item
    assert (results.hits[0].semantic_rank, results.understood.meaning) == (1, query)


def test_model_gets_the_words_as_typed_and_corrected_and_no_filters(ask: Asked) -> None:
    assert ask("cracked ceilign ceilignless lang:en -snow").understood.meaning == "cracked ceilign ceilignless ceiling"
    assert ask("where is the ceilign cracked").understood.meaning == "where is the ceilign cracked"


def test_hits_name_their_lanes(ask: Asked) -> None:
    first, *others = ask("attic ceiling").hits
    assert (first.item, first.lexical_rank, first.semantic_rank) == ("Roof.md", 1, 1)
    assert first.cosine is not None and first.lexical_score is not None
    assert all(hit.lexical_rank is None and hit.semantic_rank for hit in others)
    (words,) = ask("attic ceiling", Lanes.WORDS).hits
    assert (words.lexical_rank, words.semantic_rank, words.cosine) == (1, None, None)


def test_hits_for_a_word_that_occurs_nowhere_are_told_from_others(ask: Asked) -> None:
    assert ask("flood").notice == "no document has these words; these have a similar meaning"
    assert ask("attic ceiling").notice == ""
    assert ask("attic", Lanes.MEANING).notice == ""


def test_hit_by_meaning_shows_the_near_part(tmp_path: Path) -> None:
    url, clock = f"sqlite:///{tmp_path / 'ledger.db'}", Clock()
    with closing(Ledger.open(url, clock=clock, monotonic=clock.steady)) as ledger:
        world = World(url, clock, ledger)
        world.see(note("a.md"))
        text = "\n\n".join(f"# {n}\n\n{line} " + line * 3 for n, line in enumerate(NOTES.values()))
        ledger.queue.deliver((batch := world.claim()).token, [delivered(batch.jobs[0].id, text)])
        fill(ledger, BuiltIn())
        query, meaning = "my bike's gears skip when pedalling", MeaningIndex(ledger)
        (hit,) = search(ledger, query, NOW, meaning=meaning, lanes=Lanes.MEANING).hits
        assert hit.lexical_rank is None
        assert hit.snippet.lstrip("… 5").startswith("The chain slips under load")


@pytest.mark.parametrize("query", ["Severn river", "river severn OR humber"])
@pytest.mark.parametrize("by_conversation", [False, True])
def test_typed_word_precedes_its_correction_that_is_nearer(tmp_path: Path, query: str, by_conversation: bool) -> None:
    url, clock = f"sqlite:///{tmp_path / 'ledger.db'}", Clock()
    with closing(Ledger.open(url, clock=clock, monotonic=clock.steady)) as ledger:
        world = World(url, clock, ledger)
        texts = {f"{n}.md": f"Severe floods of the River Wye {n}" for n in range(8)}
        for locator, text in {**texts, "typed.md": "Licence 2026 for boats, costs of the river: the Severn"}.items():
            if locator == "typed.md":
                fill(ledger, BuiltIn())  # it has no vectors, while the others have
            world.see(note(locator, text))
            ledger.queue.deliver((batch := world.claim()).token, [delivered(batch.jobs[0].id, text)])
        results = Asked(world, MeaningIndex(ledger))(query, by_conversation=by_conversation)
        assert [word.corrections for word in results.corrected] == [("severe",)]
        assert results.hits[0].item == "typed.md"
        assert {hit.item for hit in results.hits[1:]} == {*texts} and results.total == len(results.hits)
        scores = [hit.score for hit in results.hits]
        assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize(
    ("query", "reason", "first"),
    [
        ('"the build server"', "phrase", "Server.md"),
        ("casset*", "prefix", "Gears.md"),
        ("HttpClientFactory", "identifier", "Server.md"),
        ("cassette", None, "Gears.md"),
        ("http client factory", None, "Server.md"),
        ("file recovery", None, "File recovery.md"),
        ("rising bread dough", None, "Bread.md"),
        ("bred dough", None, "Bread.md"),
    ],
)
def test_document_with_the_words_is_first(ask: Asked, query: str, reason: str | None, first: str) -> None:
    results = ask(query)
    assert results.understood.literal == reason
    assert items(results)[0] == items(ask(query, Lanes.WORDS))[0] == first


def test_word_that_occurs_nowhere_does_not_count_beside_others(ask: Asked) -> None:
    results = ask("disk error zeppelin")
    assert results.is_partial
    assert [hit.item for hit in results.hits if hit.lexical_rank] == ["Server.md", "Roof.md"]
    assert set(items(ask("disk error", Lanes.WORDS))) == {"Server.md"}
    several = ask("disk error zeppelin airship", Lanes.WORDS)
    assert items(several) == ["Server.md", "Roof.md"], "more and rarer words come first"
    pages = [ask("disk error zeppelin", Lanes.WORDS, limit=1, offset=offset) for offset in range(3)]
    assert [(page.is_partial, items(page)) for page in pages] == [
        (True, ["Server.md"]),
        (True, ["Roof.md"]),
        (True, []),
    ]


@pytest.mark.parametrize(
    ("query", "is_sentence"),
    [
        ("replace worn cassette derailleur", True),
        ("where is the river", True),
        ("what leaks", True),
        ("cracked tile", False),
        ("rain attic ceiling", False),
        ("the", False),
        ('"the build server" logs errors on disk', False),
        ("casset* and the worn chain", False),
        ("rain OR snow attic ceiling", False),
        ("BGBl I: 1963, 2", False),
        ("Art. 12 Abs. 3 GG", False),
        ("what is new in version 3.11", True),
    ],
)
def test_sentences_are_matched_softly(library: World, query: str, is_sentence: bool) -> None:
    typed = parse(query, {"notes": "obsidian"}, NOW)
    assert understand(typed, library.ledger.vocabulary).is_sentence is is_sentence


class _German:
    """The vocabulary of a thousand German passages."""

    counts: ClassVar = {"it": 3, "is": 3, "abteilung": 9, "die": 800}

    def languages(self) -> set[str]:
        return {"de"}

    def passages(self) -> int:
        return 1_000

    def among(self, words: Collection[str]) -> dict[str, int]:
        return {word: count for word, count in self.counts.items() if word in words}

    def beginning(self, prefixes: Collection[str]) -> dict[str, list[str]]:
        return {prefix: [] for prefix in prefixes}

    def letters(self, first: str) -> set[str]:
        return set(first)


@pytest.mark.parametrize(
    ("query", "subject"),
    [("IT Abteilung", ["IT", "Abteilung"]), ("is it Abteilung", ["Abteilung"]), ("die Abteilung", ["Abteilung"])],
)
def test_lone_rare_stop_word_counts(query: str, subject: list[str]) -> None:
    asked = understand(parse(query, {}, NOW), cast(Vocabulary, _German()))
    assert [group[0].text for group in asked.query.wanted] == subject


def test_list_of_a_tag_reads_no_languages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(_German, "languages")
    asked = understand(parse("tag:river", {}, NOW), cast(Vocabulary, _German()))
    assert (asked.query.wanted, asked.words) == ((), ())


def test_sentence_finds_documents_without_all_its_words(ask: Asked) -> None:
    by_words = ask("what leaks through the ceiling when storms come", Lanes.WORDS)
    assert (items(by_words), by_words.is_partial) == (["Roof.md"], True)
    assert items(ask("ceiling storms", Lanes.WORDS)) == ["Roof.md"], "as no document has both"
    assert items(ask('"ceiling" storms', Lanes.WORDS)) == ["Roof.md"]
    assert items(ask('"ceiling storms"', Lanes.WORDS)) == []


@pytest.mark.parametrize("query", ["HttpClientFactory", "casset*"])
def test_found_identifier_or_prefix_gets_nothing_by_meaning(ask: Asked, query: str) -> None:
    assert items(ask(query)) == items(ask(query, Lanes.WORDS))


def test_correction_counts_less_than_the_word(ask: Asked) -> None:
    (right,), (wrong,) = (ask(query, Lanes.WORDS).hits for query in ("derailleur", "deraileur"))
    assert right.item == wrong.item == "Gears.md"
    assert wrong.score == pytest.approx(0.36 * right.score)


def test_name_without_text_is_found_by_some_words(tmp_path: Path) -> None:
    url, clock = f"sqlite:///{tmp_path / 'ledger.db'}", Clock()
    with closing(Ledger.open(url, clock=clock, monotonic=clock.steady)) as ledger:
        world = World(url, clock, ledger)
        world.see(note("Gauge.md"))
        ledger.queue.deliver((batch := world.claim()).token, [delivered(batch.jobs[0].id, "", title="Gauge")])
        assert [hit.item for hit in search(ledger, "gauge zeppelin", NOW).hits] == ["Gauge.md"]


@pytest.mark.parametrize("lanes", [Lanes.BOTH, Lanes.MEANING])
def test_nothing_lacks_the_quoted_text(ask: Asked, lanes: Lanes) -> None:
    assert items(ask('"previous version" of a file', lanes)) == ["File recovery.md"]
    assert items(ask('"no such words" deleted file', lanes)) == []


def test_exact_query_that_words_do_not_find_finds_nothing_far(ask: Asked) -> None:
    for query in ("#4711", "xq_zzy.py", '"qwertz uiop"'):
        results = ask(query)
        assert all(hit.cosine >= results.understood.floor for hit in results.hits), query  # type: ignore[operator]


@pytest.mark.parametrize("query", ["where is my gym membership card", "guitar chords for beginners", "submarine"])
def test_query_without_words_and_near_meaning_finds_nothing(ask: Asked, query: str) -> None:
    assert items(ask(query)) == []


def test_short_text_and_name_alone_are_not_near_by_meaning(tmp_path: Path) -> None:
    url, clock = f"sqlite:///{tmp_path / 'ledger.db'}", Clock()
    with closing(Ledger.open(url, clock=clock, monotonic=clock.steady)) as ledger:
        world = World(url, clock, ledger)
        for locator, text in {"prefect-ui.png": "", "short.md": "x"}.items():
            world.see(note(locator))
            ledger.queue.deliver((batch := world.claim()).token, [delivered(batch.jobs[0].id, text, title=locator)])
        fill(ledger, BuiltIn())
        meaning = MeaningIndex(ledger)
        for query, item in (("moussaka", "prefect-ui.png"), ("crossword", "short.md")):
            assert items(search(ledger, query, NOW, meaning=meaning)) == []
            assert item in items(search(ledger, query, NOW, meaning=meaning, lanes=Lanes.MEANING))


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ("tag:computer", {"File recovery.md", "Server.md"}),
        ("-tag:computer lang:en", {"Bees.md", "Bread.md", "Gears.md", "Roof.md"}),
        ("lang:de", {"Fluss.md"}),
        ("path:nowhere", set()),
    ],
)
def test_filters_restrict_the_meaning(ask: Asked, filters: str, expected: set[str]) -> None:
    results = ask(f"how do I get a deleted file back {filters}", Lanes.MEANING)
    assert set(items(results)) <= expected
    assert set(items(ask(f"recover a deleted note {filters}"))) <= expected


def test_excluded_words_restrict_the_meaning(ask: Asked) -> None:
    assert items(ask("get a deleted file back"))[0] == "File recovery.md"
    assert "File recovery.md" not in items(ask("get a deleted file back -snapshot"))
    assert "File recovery.md" not in items(ask("get a deleted file back -snapshot", Lanes.MEANING))


def test_filter_alone_needs_no_meaning(ask: Asked) -> None:
    assert len(ask("tag:computer").hits) == 2
    assert ask("tag:computer").understood.meaning is None


@pytest.mark.full
@pytest.mark.parametrize("query", ["error", "the", "how do I get a deleted file back", '"error"', "rain flour disk"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_pages_never_repeat_a_result(ask: Asked, query: str, size: int) -> None:
    whole = ask(query, limit=100)
    assert whole.total == len(whole.hits)
    pages = [ask(query, limit=size, offset=offset) for offset in range(0, whole.total + size, size)]
    assert [item for page in pages for item in items(page)] == items(whole)
    assert {page.total for page in pages} == {whole.total}


def test_deleted_document_is_not_found_by_meaning(tmp_path: Path) -> None:
    clock = Clock()
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with closing(Ledger.open(url, clock=clock, monotonic=clock.steady)) as ledger:
        world = World(url, clock, ledger)
        world.ingest(note("a.md"), text="The river burst its banks after the rain.")
        fill(ledger, BuiltIn())
        meaning = MeaningIndex(ledger)
        assert items(search(ledger, "flood", NOW, meaning=meaning)) == ["a.md"]
        world.lose("a.md")
        world.settle()
        world.deliver(world.claim())
        assert items(search(ledger, "flood", NOW, meaning=meaning)) == []


@pytest.mark.parametrize("query", ["flood", "river", "river in:old", "river flood rain"])
@pytest.mark.parametrize("lanes", Lanes)
def test_copies_of_a_message_are_one_hit_of_both_lanes(tmp_path: Path, query: str, lanes: Lanes) -> None:
    clock = Clock()
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with closing(Ledger.open(url, clock=clock, monotonic=clock.steady)) as ledger:
        world = World(url, clock, ledger)
        message = eml(1, "The river burst its banks after the rain, and the cellar is full of water.", subject="Works")
        arrive(world, ("a", message), ("old/a", copied(message)))
        arrive(world, ("b", copied(message)), ("c", eml(2, "Bread needs flour and time.", subject="Bread")))
        fill(ledger, BuiltIn())
        meaning = MeaningIndex(ledger)
        results = search(ledger, query, NOW, meaning=meaning, lanes=lanes)
        assert len([hit for hit in results.hits if hit.title == "Works"]) <= 1
        assert len(results.hits) == results.total
        if lanes is not Lanes.WORDS or query.startswith("river "):
            assert {item for _, item in results.hits[0].places} == {"a", "b", "old/a"}
        near = related(ledger, document_named(ledger, "b"), meaning)
        assert [each.item for each in near.documents if each.relation == "same content"] == ["a", "old/a"]
        assert not [each for each in near.documents if each.relation == "near-duplicate"]


def test_without_embeddings_words_answer_and_the_reason_is_given(tmp_path: Path) -> None:
    clock = Clock()
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with closing(Ledger.open(url, clock=clock, monotonic=clock.steady)) as ledger:
        world = World(url, clock, ledger)
        world.ingest(note("a.md"), text="The river burst its banks.")
        results = search(ledger, "river", NOW, meaning=MeaningIndex(ledger))
        assert items(results) == ["a.md"]
        assert results.meaning_off and "not made yet" in results.meaning_off
        with pytest.raises(MeaningOff):
            search(ledger, "river", NOW, meaning=MeaningIndex(ledger), lanes=Lanes.MEANING)


def test_results_survive_json(ask: Asked) -> None:
    adapter = TypeAdapter(Results)
    for query in ("attic ceiling", "tag:computer", "corodded girdr", '"x'):
        results = ask(query)
        assert adapter.validate_json(adapter.dump_json(results)) == results


HOSTILE: Sequence[str] = (
    "x" * 100_000,
    "word " * 20_000,
    '"' * 1_001,
    '"unbalanced',
    "\x00\x01\x1b[2J\u202e",
    "\ud800",
    "title:\ud800 -tag:\udcff path:\x00 word",
    "a AND (b OR NOT c) NEAR(d, 2)",
    "'); DROP TABLE documents; --",
    "* ^ : { } [ ]",
    "-" * 300,
    "OR OR OR",
    "\U0010ffff" * 50,
)


@pytest.mark.parametrize("query", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("lanes", Lanes)
def test_hostile_queries_are_text(ask: Asked, query: str, lanes: Lanes) -> None:
    results = ask(query, lanes)
    assert len(results.hits) <= results.total


def test_misspelled_filter_is_refused_in_every_lane(ask: Asked) -> None:
    for lanes in Lanes:
        with pytest.raises(BadInput):
            ask("tga:computer river", lanes)
