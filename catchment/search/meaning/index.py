"""Search by meaning in one process: the model and the vectors, loaded once."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import TypeVar

from catchment.errors import MeaningOff, ModelChanged, TookTooLong
from catchment.ledger import DEFAULT_MODEL, FEW, OFF, Ledger, Space, time_left
from catchment.search.meaning.choice import load
from catchment.search.meaning.fill import embed, embed_titles
from catchment.search.meaning.meaning_status import IS_OFF
from catchment.search.meaning.models import Model
from catchment.search.meaning.vectors import Chance, Near, Vectors
from catchment.search.results import MEANING_LATE

_QUERIES_KEPT = 256
_AT_ONCE = 8
_WAIT_SECONDS = 2.0
"""Wait for another search. A model behind a slow server must not delay results by words."""
_THREADS = ThreadPoolExecutor(4)
"""For searches with a time limit, which neither a model nor the loading of vectors heeds."""
_REST = 20
"""A result of `lacking` is kept for this many times the duration of its computation."""
_CHANCE = {DEFAULT_MODEL: Chance(0.1, 0.05)}
"""Measured: nine of ten paraphrases are two deviations above, and most passages about another subject are not."""

T = TypeVar("T")


class MeaningIndex:
    """Finds the contents near a text or near another content. Thread-safe.

    Follows the ledger: finds new embeddings at once, drops deleted embeddings, and uses a new model once all its embeddings
    exist. Every method raises MeaningOff with the reason if meaning cannot be used now.
    """

    def __init__(self, ledger: Ledger, loaded: MeaningIndex | None = None) -> None:
        """`loaded`: uses the model of this one, and waits for it."""
        self._ledger = ledger
        self._owner = loaded or self
        self._lock: threading.Lock = threading.Lock() if loaded is None else loaded._lock
        self._model: Model | None = None
        self._vectors: Vectors | None = None
        self._is_loading = self._has_answered = False
        self._complete_to = 0
        """The ID up to which all chunks have embeddings."""
        self._named_to = -1
        """The `last_title` up to which all names have embeddings."""
        self._lacking, self._lacking_not_before = tuple[str, ...](), 0.0
        self._lacking_at: object = None
        self._query = lru_cache(_QUERIES_KEPT)(self._embedded)

    def warm(self) -> None:
        """Load the model and the vectors, so that the next search is fast."""
        self.nearest("search", 1)

    def nearest(
        self, text: str, limit: int, contents: Collection[int] | None = None, also: Collection[int] = ()
    ) -> list[Near]:
        """Return the `limit` contents nearest to a text, best first, with their nearest chunks.

        `contents`: only these. `also`: these too, if they have a vector.
        """

        def ask() -> list[Near]:
            vectors = self._current()
            self._owner._loaded(vectors.space)
            return vectors.nearest(self._owner._query(text), limit, contents, also)

        return self._in_time(ask)

    def related(self, content_id: int, limit: int) -> list[Near]:
        """Return the contents nearest to another, best first, without itself. Empty if it has no embeddings yet."""
        return self._in_time(lambda: self._current().related(content_id, limit))

    def embed_few(self) -> None:
        """Make the missing embeddings if they are few, as after a save; otherwise leave them to a run of the flow `embed`."""
        embeddings = self._ledger.embeddings
        last, named, searched = embeddings.last_passage(), embeddings.watermark().last_title, embeddings.searched()
        is_complete = (last, named) == (self._complete_to, self._named_to)
        if is_complete or searched is None or searched != embeddings.wanted():
            return
        with self._lock:
            space = self._current().space
            model = self._loaded(space)
        passages = embeddings.missing(space, self._complete_to, FEW + 1)
        if len(passages) > FEW:
            self._complete_to = passages[0].chunk_id - 1
        else:
            with suppress(ModelChanged):
                embed_titles(self._ledger, model, space, lambda: self._lock)
                for start in range(0, len(passages), _AT_ONCE):
                    embed(self._ledger, model, space, passages[start : start + _AT_ONCE], lambda: self._lock)
            self._complete_to, self._named_to = last, named

    def lacking(self) -> tuple[str, ...]:
        """Return the names of sources of which the last search by meaning did not know all passages."""
        vectors, now = self._vectors, time.monotonic()
        state = self._ledger.embeddings.last_passage(), self._ledger.embeddings.watermark()
        if vectors is not None and state != self._lacking_at and now >= self._lacking_not_before:
            try:
                self._lacking, self._lacking_at = tuple(self._ledger.embeddings.lacking(vectors.space)), state
            finally:
                # A second for a million passages, while they are embedded.
                self._lacking_not_before = time.monotonic() + _REST * (time.monotonic() - now)
        return self._lacking

    @property
    def chance(self) -> Chance:
        """The distribution of the cosines of unrelated texts."""

        def ask() -> Chance:
            vectors = self._vectors or self._current()
            return _CHANCE.get(vectors.space.setting) or vectors.random

        return self._in_time(ask)

    def _in_time(self, ask: Callable[[], T]) -> T:
        """Call a function with the lock. Raises MeaningOff at the end of the `time_limit`; the call goes on in its thread."""
        if (left := time_left()) == math.inf:
            return self._locked(ask)
        # A thread has no time limit of its own: what it loads serves the next search.
        future = _THREADS.submit(self._locked, ask)
        try:
            return future.result(max(left, 0))
        except TimeoutError:
            future.cancel()
            raise MeaningOff(MEANING_LATE) from None

    def _locked(self, ask: Callable[[], T]) -> T:
        # Loading takes seconds; until then, a search uses words.
        if not self._lock.acquire(timeout=0 if self._owner._is_loading else _WAIT_SECONDS):
            raise MeaningOff("search by meaning: the model is loading or busy; try again in a moment")
        try:
            return ask()
        except TookTooLong:
            raise MeaningOff(MEANING_LATE) from None
        finally:
            self._lock.release()

    @contextmanager
    def _loading(self) -> Iterator[None]:
        self._owner._is_loading = True
        try:
            yield
        finally:
            self._owner._is_loading = False

    def _loaded(self, space: Space) -> Model:
        if self._model is None or self._model.setting != space.setting:
            self._model, self._has_answered = load(space.setting), False
            self._query.cache_clear()
        if self._model.name != space.model:
            raise MeaningOff("search by meaning: the model has changed; it is used once the new embeddings exist")
        return self._model

    def _embedded(self, text: str) -> Sequence[float]:
        assert self._model is not None
        if self._has_answered:
            return self._model.query(text)
        # The first query loads the model.
        with self._loading():
            vector = self._model.query(text)
        self._has_answered = True
        return vector

    def _current(self) -> Vectors:
        if self._ledger.embeddings.setting == OFF:
            raise MeaningOff(IS_OFF)
        space = self._ledger.embeddings.searched()
        if space is None:
            raise MeaningOff("search by meaning: the embeddings are not made yet; see `catchment status`")
        if self._vectors is None or self._vectors.space != space:
            self._vectors = Vectors(self._ledger, space)
            self._complete_to, self._named_to, self._lacking_at = 0, -1, None
            with self._loading():
                self._vectors.refresh()
        else:
            self._vectors.refresh()
        return self._vectors
