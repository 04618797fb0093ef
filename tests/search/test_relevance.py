"""Search finds what a person wants: floors under the figures of `python -m benchmarks.relevance`, with fewer documents."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.relevance.corpus import ingested, write
from benchmarks.relevance.engines import ours
from benchmarks.relevance.scores import Engine, queries, score

FLOORS = {
    "known items": 0.95,
    "word forms": 0.9,
    "typos": 0.9,
    "filters": 0.95,
    "identifiers": 0.95,
    "mail": 0.95,
    "phrases": 0.95,
    "CJK": 0.95,
}
DOCUMENTS = 200


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with ingested(tmp_path_factory.mktemp("relevance"), DOCUMENTS) as (_, _, ledger):
        yield ours(ledger)


@pytest.mark.parametrize("kind", FLOORS)
def test_wanted_documents_are_near_the_top(engine: Engine, kind: str) -> None:
    reached = score(engine, queries()[kind])
    assert reached.recall >= FLOORS[kind], f"not found: {reached.missed}"


def test_every_wanted_document_is_in_the_corpus(tmp_path: Path) -> None:
    folders = write(tmp_path, 0)
    files = {f"{source}/{file.relative_to(folder)}" for source, folder in folders.items() for file in folder.rglob("*")}
    known = {unicodedata.normalize("NFC", path.removeprefix("generated/")) for path in files}
    assert {path for asked in queries().values() for query in asked for path in query.wanted} <= known
