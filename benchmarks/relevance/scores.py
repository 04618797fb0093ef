"""The queries with their expected documents, and the scores of an engine."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
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
class Score:
    """Means over the queries of a class; times in ms. `missed`: queries whose documents are not all among the first hits."""

    first: float
    recall: float
    reciprocal_rank: float
    p50: float
    p95: float
    missed: tuple[str, ...]


def queries() -> dict[str, list[Query]]:
    """The queries by class."""
    classes: dict[str, dict[str, str | list[str]]] = yaml.safe_load(QUERIES.read_text(encoding="utf-8"))
    return {
        name: [
            Query(text, frozenset([wanted] if isinstance(wanted, str) else wanted)) for text, wanted in pairs.items()
        ]
        for name, pairs in classes.items()
    }


def score(engine: Engine, asked: Sequence[Query]) -> Score:
    """Run each query once as a warm-up, and then timed.

    `first`: the first hit is an expected document. `recall`: the share of the expected documents in the first five hits.
    """
    firsts, recalls, ranks, seconds, missed = [], [], [], [], []
    for query in asked:
        engine(query.text)
        begun = time.perf_counter()
        found = engine(query.text)
        seconds.append(time.perf_counter() - begun)
        places = [place for place, path in enumerate(found, 1) if path in query.wanted]
        firsts.append(float(places[:1] == [1]))
        recalls.append(sum(place <= _DEPTH for place in places) / len(query.wanted))
        ranks.append(1 / places[0] if places else 0.0)
        if recalls[-1] < 1:
            missed.append(query.text)
    p50, p95 = percentiles(seconds)
    mean = statistics.fmean
    return Score(mean(firsts), mean(recalls), mean(ranks), p50, p95, tuple(missed))


def percentiles(seconds: Sequence[float]) -> tuple[float, float]:
    """Median and p95 in milliseconds."""
    cuts = statistics.quantiles(seconds, n=20, method="inclusive")
    return cuts[9] * 1_000, cuts[18] * 1_000
