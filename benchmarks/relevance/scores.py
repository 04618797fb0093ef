"""The queries with their expected documents, and the scores of an engine."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

QUERIES = Path(__file__).with_name("queries.yaml")
Engine = Callable[[str], Sequence[str]]
"""Returns the paths of the documents for a query, best first."""
_DEPTH = 5


@dataclass(frozen=True, slots=True)
class Query:
    """A query, and the documents that the user expects."""

    text: str
    wanted: frozenset[str]


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of an engine to a query. `place`: of the first expected document, from 1; None if it is not among the hits.

    `recall`: the share of the expected documents in the first five hits.
    """

    query: str
    place: int | None
    recall: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Score:
    """Means over queries; times in ms. `first`: how often the first hit is an expected document.

    `missed`: queries with an expected document that is not among the first hits.
    """

    first: float
    recall: float
    reciprocal_rank: float
    p50: float
    p95: float
    missed: tuple[str, ...]


def queries() -> dict[str, list[Query]]:
    """Return the queries by class, without the held-out ones."""
    return _read()[0]


def held_out() -> dict[str, list[Query]]:
    """Return the queries by class that were not known to the authors of the rules."""
    return _read()[1]


def _read() -> list[dict[str, list[Query]]]:
    parts: Iterable[dict[str, dict[str, str | list[str]]]] = yaml.safe_load_all(QUERIES.read_text(encoding="utf-8"))
    return [
        {
            name: [Query(text, frozenset([one] if isinstance(one, str) else one)) for text, one in pairs.items()]
            for name, pairs in classes.items()
        }
        for classes in parts
    ]


def answer(engine: Engine, query: Query) -> Answer:
    """Run a query once as a warm-up, and then timed."""
    engine(query.text)
    begun = time.perf_counter()
    found = engine(query.text)
    seconds = time.perf_counter() - begun
    places = [place for place, path in enumerate(found, 1) if path in query.wanted]
    recall = sum(place <= _DEPTH for place in places) / len(query.wanted)
    return Answer(query.text, places[0] if places else None, recall, seconds)


def score(answers: Sequence[Answer]) -> Score:
    """Return the score of an engine by its answers."""
    p50, p95 = percentiles([one.seconds for one in answers])
    mean = statistics.fmean
    return Score(
        mean(one.place == 1 for one in answers),
        mean(one.recall for one in answers),
        mean(1 / one.place if one.place else 0.0 for one in answers),
        p50,
        p95,
        tuple(one.query for one in answers if one.recall < 1),
    )


def percentiles(seconds: Sequence[float]) -> tuple[float, float]:
    """Median and p95 in milliseconds."""
    cuts = statistics.quantiles(seconds, n=20, method="inclusive")
    return cuts[9] * 1_000, cuts[18] * 1_000
