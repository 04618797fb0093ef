"""Search by meaning in a large library of random vectors: how long it takes, and how much memory."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from multiprocessing import get_context
from zlib import crc32

import numpy as np
import psutil

from benchmarks.relevance.scores import percentiles
from catchment.ledger import Embedding, Ledger, Passage
from catchment.search.meaning.builtin import BuiltIn
from catchment.search.meaning.fill import embed_titles
from catchment.search.meaning.index import MeaningIndex
from catchment.search.meaning.models import Refusal, quantized
from catchment.search.search import search

_AT_ONCE = 64
_FIND = 20
_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_CENTRE = 0.3
"""How much of the direction of a real text each vector has: with none, no passage would be near a query."""


class Imitation:
    """The name of the built-in model, with random vectors; its real ones would take an hour for a million."""

    setting, name, dimensions = BuiltIn.setting, BuiltIn.name, BuiltIn.dimensions

    def __init__(self) -> None:
        self._centre = np.asarray(BuiltIn().query("the"), np.float32) * _CENTRE * self.dimensions**0.5

    def passages(self, texts: Sequence[str]) -> list[bytes | Refusal | None]:
        """Return the same vectors for the same texts."""
        random = np.random.default_rng(crc32("\n".join(texts).encode()))
        vectors = random.standard_normal((len(texts), self.dimensions)) + self._centre
        return [quantized(vector) for vector in vectors.tolist()]

    def query(self, text: str) -> Sequence[float]:
        """Raise: queries use the real model."""
        raise NotImplementedError


def make(ledger: Ledger, parts: int) -> None:
    """Store a vector for each name, and this number for each passage, except for the last ones of the library."""
    model, last = Imitation(), 0
    space = ledger.embeddings.space(model.name, model.setting, model.dimensions)
    embed_titles(ledger, model, space)
    most = ledger.embeddings.last_passage() - _AT_ONCE
    while passages := ledger.embeddings.missing(space, last, _AT_ONCE):
        last = passages[-1].chunk_id
        wanted = [passage for passage in passages if passage.chunk_id <= most]
        ledger.embeddings.put(space, _rows(model, wanted, parts))
    ledger.embeddings.complete(space)


def _rows(model: Imitation, passages: Sequence[Passage], parts: int) -> list[Embedding]:
    texts = [f"{passage.chunk_id} {part}" for passage in passages for part in range(parts)]
    vectors = iter(zip(texts, model.passages(texts), strict=True))
    rows = []
    for passage in passages:
        for part in range(parts):
            text, vector = next(vectors)
            assert isinstance(vector, bytes)
            digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
            rows.append(Embedding(passage.content_id, passage.chunk_id, part, digest, vector))
    return rows


def measure(url: str, queries: Mapping[str, Sequence[str]]) -> Mapping[str, float]:
    """Measure the searches of a ledger in a separate process. Times in ms, memory in MB."""
    with ProcessPoolExecutor(1, get_context("spawn")) as one:
        return one.submit(_measure, url, queries).result()


def _measure(url: str, queries: Mapping[str, Sequence[str]]) -> Mapping[str, float]:
    with closing(Ledger.inspect(url)) as ledger, closing(Ledger.inspect(url)) as other:
        meaning = MeaningIndex(other)
        before, figures = _memory(), {"load": _milliseconds(meaning.warm)}
        figures |= {name: value - before[name] for name, value in _memory().items()}
        for kind, group in queries.items():
            figures |= _percentiles(kind, group, lambda text: search(ledger, text, _NOW, meaning=meaning))
        texts = [text for group in queries.values() for text in group]
        # The queries are cached now, so the model has no work.
        figures |= _percentiles("nearest", texts, lambda text: meaning.nearest(text, _FIND))
        model = BuiltIn()
        figures["load of the model"] = _milliseconds(lambda: model.query("search"))
        figures |= _percentiles("the model", texts, model.query)
        figures["new passages"] = _refresh(other, meaning)
    return figures


def _refresh(ledger: Ledger, meaning: MeaningIndex) -> float:
    """Return the duration of the first search after new embeddings."""
    space = ledger.embeddings.searched()
    assert space is not None
    ledger.embeddings.put(space, _rows(Imitation(), ledger.embeddings.missing(space, 0, _AT_ONCE), 1))
    return _milliseconds(lambda: meaning.nearest("search", _FIND))


def _memory() -> dict[str, float]:
    used = psutil.Process().memory_info()
    return {"private MB": (used.rss - used.shared) / 1e6, "mapped MB": used.shared / 1e6}


def _percentiles(name: str, texts: Sequence[str], find: Callable[[str], object]) -> dict[str, float]:
    seconds = [_milliseconds(partial(find, text)) / 1_000 for text in texts]
    p50, p95 = percentiles(seconds)
    return {f"{name}, p50": p50, f"{name}, p95": p95}


def _milliseconds(act: Callable[[], object]) -> float:
    begun = time.perf_counter()
    act()
    return 1_000 * (time.perf_counter() - begun)
