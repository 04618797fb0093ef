"""A search shows the lanes that end in time, and names the others: a real library, and statements that never end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import text

from catchment.errors import TookTooLong
from catchment.ledger import Vocabulary
from catchment.ledger.library.documents import Library
from catchment.model import Document
from catchment.search.meaning.builtin import BuiltIn
from catchment.search.meaning.fill import fill
from catchment.search.meaning.index import MeaningIndex
from catchment.search.results import MEANING_LATE, Lanes
from catchment.search.search import search
from tests.ledger.world import World, content, delivered, note

NOW = datetime(2026, 3, 11, tzinfo=UTC)
SECONDS = 1.0
ENDLESS = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 10000000000) SELECT max(n) FROM t"
NOTES = {
    "River.md": "The flood gauge of the river was read every hour while the water rose.",
    "Bees.md": "Two swarms of bees moved into the empty hive.",
}


@pytest.fixture
def library(sqlite_world: World) -> World:
    for locator, passage in NOTES.items():
        sqlite_world.see(note(locator, content(passage)))
        batch = sqlite_world.claim()
        done = delivered(batch.jobs[0].id, passage, title=locator.removesuffix(".md"))
        document = Document(passage, "text/markdown", title=locator.removesuffix(".md"))
        sqlite_world.ledger.queue.deliver(batch.token, [replace(done, document=document)])
    fill(sqlite_world.ledger, BuiltIn())
    return sqlite_world


@pytest.fixture
def meaning(library: World) -> MeaningIndex:
    index = MeaningIndex(library.ledger)
    index.warm()
    return index


def never_ends(library: World) -> Callable[..., Any]:
    """Return a function that reads the library until the database stops its statement."""

    def read(*_: object, **__: object) -> None:
        with library.ledger._store.read() as reading:
            reading.execute(text(ENDLESS))

    return read


def test_meaning_answers_if_words_take_too_long(
    library: World, meaning: MeaningIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, stopped = Library.rank, list[float]()

    def rank(index: Any, query: Any, **how: Any) -> Any:
        if "within" in how:
            return whole(index, query, **how)
        began = time.monotonic()
        try:
            return never_ends(library)()
        finally:
            stopped.append(time.monotonic() - began)

    monkeypatch.setattr(Library, "rank", rank)
    results = search(library.ledger, "river", NOW, meaning=meaning, seconds=SECONDS)
    assert [hit.item for hit in results.hits][:1] == ["River.md"]
    assert results.missing == ["search by words: not finished in time"]
    assert stopped and stopped[0] < SECONDS
    with pytest.raises(TookTooLong):
        search(library.ledger, "river", NOW, seconds=SECONDS)
    with pytest.raises(TookTooLong):
        search(library.ledger, "river", NOW, meaning=meaning, lanes=Lanes.WORDS, seconds=SECONDS)


def test_words_answer_if_the_meaning_takes_too_long_and_its_loading_serves_the_next(
    library: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end = threading.Event()

    class Slow(BuiltIn):
        def query(self, text: str) -> Sequence[float]:
            assert may_end.wait(60)
            return super().query(text)

    monkeypatch.setattr("catchment.search.meaning.index.load", lambda _setting: Slow())
    index = MeaningIndex(library.ledger)
    began = time.monotonic()
    results = search(library.ledger, "river", NOW, meaning=index, seconds=SECONDS)
    assert time.monotonic() - began < SECONDS + 1
    assert [hit.item for hit in results.hits] == ["River.md"]
    assert (results.meaning_off, results.missing) == (MEANING_LATE, [f"searched by words only; {MEANING_LATE}"])
    may_end.set()
    with index._lock:
        pass
    results = search(library.ledger, "river", NOW, meaning=index)
    assert (results.missing, results.understood.meaning) == ([], "river")


def test_words_are_searched_as_typed_if_the_vocabulary_takes_too_long(
    library: World, meaning: MeaningIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Vocabulary, "among", never_ends(library))
    for query, expected in (("river", "River.md"), ("what was in the empty hive", "Bees.md")):
        results = search(library.ledger, query, NOW, meaning=meaning, seconds=SECONDS)
        assert [hit.item for hit in results.hits][:1] == [expected]
        assert results.missing == ["word forms and corrections: not finished in time"]


def test_results_do_not_wait_for_the_state_of_the_embeddings(
    library: World, meaning: MeaningIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(library.ledger.embeddings), "lacking", never_ends(library))
    assert search(library.ledger, "river", NOW, meaning=meaning, seconds=SECONDS).hits
    began = time.monotonic()
    assert search(library.ledger, "river", NOW, meaning=meaning, seconds=SECONDS).incomplete == ()
    assert time.monotonic() - began < SECONDS / 2, "asked again at once"
