"""Vectors in memory: growth, and the two stages of a search of many."""

from __future__ import annotations

import numpy as np
import pytest

from catchment.ledger import Vector
from catchment.search.meaning import vectors
from catchment.search.meaning.models import quantized

_WIDTH, _COUNT, _QUERIES, _BEST = 256, 20_000, 40, 10


@pytest.fixture(scope="module")
def clustered() -> tuple[list[Vector], np.ndarray]:
    """Return vectors around common directions, and queries near some of them."""
    random = np.random.default_rng(7)
    centres = random.standard_normal((200, _WIDTH))
    floats = centres[random.integers(0, 200, _COUNT)] + random.standard_normal((_COUNT, _WIDTH))
    rows = [Vector(n, n, n, _vector(each)) for n, each in enumerate(floats, 1)]
    queries = floats[random.integers(0, _COUNT, _QUERIES)] + 0.5 * random.standard_normal((_QUERIES, _WIDTH))
    lengths = np.linalg.norm(queries, axis=1, keepdims=True)
    return rows, (queries / lengths).astype(np.float32)


def _vector(floats: np.ndarray) -> bytes:
    found = quantized(floats.tolist())
    assert isinstance(found, bytes)
    return found


def _filled(rows: list[Vector]) -> vectors._Rows:
    made = vectors._Rows(_WIDTH)
    for start in range(0, len(rows), 3_000):
        made.append(rows[start : start + 3_000])
    return made


def _best(rows: vectors._Rows, query: np.ndarray) -> list[int]:
    best = rows.best(query, rows.nearest(query, _BEST, None).tolist())
    return sorted(best, key=lambda one: (-best[one][0], one))[:_BEST]


def test_bits_first_finds_what_an_exact_search_finds(
    clustered: tuple[list[Vector], np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    given, queries = clustered
    exact = _filled(given)
    monkeypatch.setattr(vectors, "_MANY", 5_000)
    monkeypatch.setattr(vectors, "_RESCORED", 1_000)
    fast = _filled(given)
    assert len(fast._bits) >= _COUNT > 0 == len(exact._bits)
    found = 0
    for query in queries:
        wanted, got = _best(exact, query), _best(fast, query)
        both = {*wanted} & {*got}
        found += len(both)
        assert [one for one in got if one in both] == [one for one in wanted if one in both]
    assert found / (_QUERIES * _BEST) >= 0.98


def test_bits_first_can_be_limited_to_some_contents(
    clustered: tuple[list[Vector], np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    given, queries = clustered
    exact = _filled(given)
    monkeypatch.setattr(vectors, "_MANY", 5_000)
    fast = _filled(given)
    even = range(2, _COUNT, 2)
    for query in queries[:5]:
        wanted, got = (set(rows.nearest(query, 1, rows.of(even)).tolist()) for rows in (exact, fast))
        assert wanted == got and all(one % 2 == 0 for one in got)


def test_rows_grow_beyond_their_first_size(clustered: tuple[list[Vector], np.ndarray]) -> None:
    given, _ = clustered
    rows = _filled(given)
    for one in (given[0], given[4_095], given[4_096], given[-1]):
        query = np.frombuffer(one.vector, np.int8).astype(np.float32)
        best = rows.best(query / np.linalg.norm(query), [one.content_id])[one.content_id]
        assert (best.chunk, best.cosine) == (one.chunk_id, pytest.approx(1, abs=1e-5))


def test_the_best_row_of_a_content_and_its_nearest_rows_in_the_mean() -> None:
    random = np.random.default_rng(3)
    floats = random.standard_normal((40, _WIDTH))
    owners = [1] * 20 + [2] * 3 + [3] + [1] * 16
    rows = _filled(
        [
            Vector(n, owner, 100 + n // 4, _vector(each))
            for n, (owner, each) in enumerate(zip(owners, floats, strict=True), 1)
        ]
    )
    query = random.standard_normal(_WIDTH).astype(np.float32)
    query /= np.linalg.norm(query)
    found = rows.best(query, [2, 1, 3])
    cosines = rows.cosines(query, None)
    for owner, best in found.items():
        its = sorted((cosines[n] for n, one in enumerate(owners) if one == owner), reverse=True)
        at = int(np.argmax(np.where(np.equal(owners, owner), cosines, -2)))
        assert (best.cosine, best.mean) == (pytest.approx(its[0]), pytest.approx(np.mean(its[:8])))
        assert best.chunk == 100 + (at + 1) // 4
    assert [*found] == [1, 2, 3] and rows.best(query, []) == {}
