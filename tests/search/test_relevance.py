"""Search finds the expected documents: floors under the figures of `python -m benchmarks.relevance`, with fewer documents."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
import yaml

from benchmarks.relevance.corpus import DOCUMENTS as FILE
from benchmarks.relevance.corpus import ingested, write
from benchmarks.relevance.engines import embedded, ours
from benchmarks.relevance.scores import Engine, answer, held_out, queries, score
from catchment.ledger import Ledger
from tests.ledger.conftest import empty_database, new_postgres, postgres  # noqa: F401 - fixtures

pytestmark = pytest.mark.long

FLOORS = {
    "known items": 0.95,
    "word forms": 0.9,
    "typos": 0.9,
    "unknown words": 0.9,
    "filters": 0.95,
    "identifiers": 0.95,
    "mail": 0.95,
    "phrases": 0.95,
    "CJK": 0.95,
}
BY_MEANING = {**FLOORS, "paraphrases": 0.65, "across languages": 0.8}
DOCUMENTS = 200


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    with ingested(tmp_path_factory.mktemp("relevance"), DOCUMENTS) as (_, _, ledger):
        yield ledger


@pytest.fixture(scope="module")
def engine(library: Ledger) -> Engine:
    return ours(library)


@pytest.fixture(scope="module")
def with_meaning(library: Ledger) -> Engine:
    return ours(library, embedded(library))


@pytest.mark.parametrize("kind", FLOORS)
def test_wanted_documents_are_near_the_top(engine: Engine, kind: str) -> None:
    reached = score([answer(engine, query) for query in queries()[kind]])
    assert reached.recall >= FLOORS[kind], f"not found: {reached.missed}"


@pytest.mark.parametrize("kind", BY_MEANING)
def test_meaning_adds_paraphrases_and_loses_nothing(with_meaning: Engine, kind: str) -> None:
    reached = score([answer(with_meaning, query) for query in queries()[kind]])
    assert reached.recall >= BY_MEANING[kind], f"not found: {reached.missed}"


@pytest.mark.postgres
def test_postgresql_finds_what_sqlite_finds(
    engine: Engine,
    empty_database: str,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CATCHMENT_DATABASE_URL", empty_database)
    with ingested(tmp_path, DOCUMENTS) as (_, _, ledger):
        on_postgres = ours(ledger)
        differing = [
            query.text
            for query in chain(*queries().values(), *held_out().values())
            if answer(engine, query).place != answer(on_postgres, query).place
        ]
    assert differing == []


def test_every_wanted_document_is_in_the_corpus(tmp_path: Path) -> None:
    folders = write(tmp_path, 0)
    files = {f"{source}/{file.relative_to(folder)}" for source, folder in folders.items() for file in folder.rglob("*")}
    known = {unicodedata.normalize("NFC", path.removeprefix("generated/")) for path in files}
    asked = chain(*queries().values(), *held_out().values())
    assert {path for query in asked for path in query.wanted} <= known


def test_each_distractor_is_long_and_holds_all_words_of_a_question() -> None:
    groups = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    texts = groups["distractors"].values()
    words = [set(query.text.lower().split()) for query in held_out()["distractors"]]
    asked = [sum(question <= set(re.findall(r"\w+", text.lower())) for question in words) for text in texts]
    assert asked == [1] * 12
    assert all(3_000 <= len(text) <= 6_000 for text in texts)


def test_title_documents_do_not_name_their_subject() -> None:
    titles = yaml.safe_load(FILE.read_text(encoding="utf-8"))["titles"]
    for path, text in titles.items():
        _, _, body = text.rpartition("---\n")
        assert set(Path(path).stem.lower().split()).isdisjoint(re.findall(r"\w+", body.lower())), path
