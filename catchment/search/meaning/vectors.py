"""The vectors of one space in memory, searched by comparing all of them.

A document is as near as its best part, and nearer if other parts and its title are. Where the parts are many, the bits of
their signs are compared first, and only the best of those exactly.

They are in mapped files without a name, so that the system can page them out, no other program can change them, and the files
vanish when the process ends. Each vector is compared with its checksum when it is copied from the ledger.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from catchment.ledger import Ledger, Space, Vector, Watermark

_BLOCK = 2_048
"""Rows that are converted at once: larger blocks of floats do not fit into the cache, and take twice as long."""
_LEAST_ROWS = 4_096
_PAIRS = 1_000
_FEW = 200
_PART, _PARTS, _TITLE = 0.5, 0.3, 0.2
"""Shares of the nearest part, of the nearest parts in the mean, and of the nearest title."""
_SEVERAL = 8
"""Number of nearest parts that show the subject of a document."""
_PARTS_EACH = 8
"""Parts that are looked at for each content that is wanted, because the best parts may belong to few contents."""
_MANY = 400_000
"""Rows from which the bits are compared first."""
_NONE = 0
"""No content has this number."""
_RESCORED = 2_000
"""Rows that are compared exactly after their bits, at least."""

_ANSWER = 10
"""Deviations above the mean from which a passage is as near as an answer."""

_Floats = NDArray[np.float32]
_Numbers = NDArray[np.int64]


class Chance(NamedTuple):
    """Mean and deviation of the cosines of unrelated texts."""

    mean: float
    deviation: float

    @property
    def floor(self) -> float:
        """The cosine below which a passage may be near by chance."""
        return self.mean + 2 * self.deviation

    def scaled(self, cosine: float) -> float:
        """Return a score from 0, as by chance, to 1, as near as an answer is to its question."""
        return min(max((cosine - self.mean) / (_ANSWER * self.deviation), 0.0), 1.0)


_OF_FEW = Chance(0.05, 0.075)
"""Where there are too few vectors to compute it."""


@dataclass(frozen=True, slots=True)
class Near:
    """A content near a query, with its nearest chunk, or None if only its title is known.

    `cosine`: from -1 to 1. `part`: the place of the nearest part in the chunk.
    """

    content_id: int
    chunk_id: int | None
    cosine: float
    part: int = 0


class _Best(NamedTuple):
    """The nearest row of a content, with the place in its chunk. `mean`: the cosine of its nearest rows, in the mean."""

    cosine: float
    mean: float
    chunk: int
    place: int


class _Rows:
    """Vectors of one length, each with the number of its content."""

    def __init__(self, width: int) -> None:
        self.last = self.count = 0
        self._width = width
        self._rows: NDArray[np.int8] = np.empty((0, width), np.int8)
        self._bits: NDArray[np.uint8] = np.empty((0, width // 8), np.uint8)
        self._lengths = np.empty(0, np.float32)
        self._contents = self._chunks = np.empty(0, np.int64)

    def append(self, group: Sequence[Vector]) -> None:
        self.last = group[-1].id
        stop = self.count + len(group)
        if stop > len(self._rows):
            self._grow(max(stop, 2 * len(self._rows), _LEAST_ROWS))
        span = slice(self.count, stop)
        block = np.frombuffer(b"".join(entry.vector for entry in group), np.int8).reshape(-1, self._width)
        self._rows[span] = block
        self._contents[span] = [entry.content_id for entry in group]
        self._chunks[span] = [entry.chunk_id for entry in group]
        floats = block.astype(np.float32)
        # A quarter of the time of `np.linalg.norm`.
        self._lengths[span] = np.maximum(np.sqrt(np.einsum("ij,ij->i", floats, floats)), 1.0)
        if len(self._bits):
            self._bits[span] = np.packbits(block > 0, axis=1)
        self.count = stop

    def forget(self, newer: Sequence[Vector]) -> None:
        """Let the rows of the same chunks belong to no content."""
        chunks = [entry.chunk_id for entry in newer]
        self._contents[: self.count][np.isin(self._chunks[: self.count], chunks)] = _NONE

    def _grow(self, rows: int) -> None:
        mapped = _mapped(np.int8, rows, self._width)
        mapped[: self.count] = self._rows[: self.count]
        self._rows = mapped
        self._lengths = np.resize(self._lengths, rows)
        self._contents, self._chunks = np.resize(self._contents, rows), np.resize(self._chunks, rows)
        if rows > _MANY and self._width % 8 == 0:
            self._bits = _mapped(np.uint8, rows, self._width // 8)
            for start in range(0, self.count, _BLOCK):
                part = slice(start, min(start + _BLOCK, self.count))
                self._bits[part] = np.packbits(self._rows[part] > 0, axis=1)

    def of(self, contents: Collection[int]) -> _Numbers:
        """Return the rows of these contents."""
        owners = self._contents[: self.count]
        numbers = np.fromiter(contents, np.int64, len(contents))
        if not len(owners) or not len(numbers):
            return np.empty(0, np.int64)
        is_member = np.zeros(max(int(owners.max()), int(numbers.max())) + 1, np.bool_)
        is_member[numbers] = True
        return np.flatnonzero(is_member[owners])

    def nearest(self, query: _Floats, limit: int, rows: _Numbers | None) -> _Numbers:
        """Return the contents of the nearest rows, or of the nearest among `rows`: at least `limit` if there are as many."""
        total = self.count if rows is None else len(rows)
        if total > _MANY and len(self._bits):
            rows = self._by_bits(query, max(_RESCORED, _PARTS_EACH * limit), rows)
            total = len(rows)
        if not total:
            return np.empty(0, np.int64)
        owners, cosines = self._contents[slice(total) if rows is None else rows], self.cosines(query, rows)
        count = min(total, _PARTS_EACH * limit)
        while True:
            contents = np.unique(owners[np.argpartition(-cosines, count - 1)[:count]])
            if len(contents) >= limit or count == total:
                return contents
            count = min(total, 4 * count)

    def _by_bits(self, query: _Floats, limit: int, rows: _Numbers | None) -> _Numbers:
        signs = np.packbits(query > 0).view(np.uint64)
        bits = self._bits[: self.count].view(np.uint64)
        distances = np.empty(self.count if rows is None else len(rows), np.uint16)
        for start in range(0, len(distances), 8 * _BLOCK):
            part = slice(start, start + 8 * _BLOCK)
            block = bits[part] if rows is None else bits[rows[part]]
            distances[part] = np.bitwise_count(block ^ signs).sum(axis=1, dtype=np.uint16)
        nearest = np.argpartition(distances, limit)[:limit]
        return nearest if rows is None else rows[nearest]

    def best(self, query: _Floats, contents: Collection[int]) -> dict[int, _Best]:
        """Return the nearest rows of each of these contents."""
        rows = self.of(contents)
        cosines, chunks = self.cosines(query, rows), self._chunks[rows]
        # The parts of a chunk are stored together and in order.
        places = rows - np.maximum.accumulate(np.where(np.diff(chunks, prepend=-1) != 0, rows, 0))
        # By number where equal, so that the chunk never changes.
        order = np.lexsort((chunks, -cosines, self._contents[rows]))
        owners, cosines = self._contents[rows][order], cosines[order]
        first = np.flatnonzero(np.diff(owners, prepend=-1))
        counts = np.diff(first, append=len(rows))
        is_near = np.arange(len(rows)) - np.repeat(first, counts) < _SEVERAL
        means = np.add.reduceat(np.where(is_near, cosines, 0), first) / np.minimum(counts, _SEVERAL)
        its = cosines[first], means, chunks[order][first], places[order][first]
        return dict(zip(owners[first].tolist(), map(_Best, *(values.tolist() for values in its)), strict=True))

    def cosines(self, query: _Floats, rows: _Numbers | None) -> _Floats:
        """Return the cosines of these rows; None: of all."""
        cosines = np.empty(self.count if rows is None else len(rows), np.float32)
        for start in range(0, len(cosines), _BLOCK):
            part = slice(start, min(start + _BLOCK, len(cosines)))
            selection = part if rows is None else rows[part]
            cosines[part] = self._rows[selection].astype(np.float32) @ query / self._lengths[selection]
        return cosines

    def directions(self, rows: _Numbers) -> _Floats:
        """Return these vectors with length 1."""
        return self._rows[rows].astype(np.float32) / self._lengths[rows, None]


class Vectors:
    """The vectors of one space. Not thread-safe."""

    def __init__(self, ledger: Ledger, space: Space) -> None:
        self._ledger = ledger
        self.space = space
        self._empty()

    def _empty(self) -> None:
        self._watermark = Watermark(0, 0, -1)
        self._parts, self._titles = _Rows(self.space.dimensions), _Rows(self.space.dimensions)
        self._random: Chance | None = None

    def refresh(self) -> None:
        """Read the new vectors from the ledger, or all of them if any were deleted."""
        watermark = self._ledger.embeddings.watermark()
        if watermark == self._watermark:
            return
        if watermark.deleted != self._watermark.deleted:
            self._empty()
        for group in self._ledger.embeddings.vectors(self.space, self._parts.last):
            self._parts.append(group)
        for group in self._ledger.embeddings.title_vectors(self.space, self._titles.last):
            self._titles.forget(group)
            self._titles.append(group)
        self._watermark, self._random = watermark, None

    @property
    def random(self) -> Chance:
        """The cosines of random pairs."""
        if self._random is None:
            count = self._parts.count
            if count < _FEW:
                return _OF_FEW
            random = np.random.default_rng(0)
            left, right = (random.integers(0, count, _PAIRS) for _ in range(2))
            first, second = (self._parts.directions(rows) for rows in (left[left != right], right[left != right]))
            cosines = np.einsum("ij,ij->i", first, second)
            self._random = Chance(float(cosines.mean()), float(cosines.std()))
        return self._random

    def nearest(
        self, query: Sequence[float], limit: int, contents: Collection[int] | None = None, also: Collection[int] = ()
    ) -> list[Near]:
        """Return the `limit` contents nearest to a text, with the nearest chunk of each, best first.

        `contents`: only these. `also`: these too, if they have a vector.
        """
        vector = np.asarray(query, np.float32)
        near = {*also}
        for rows in (self._parts, self._titles):
            near.update(rows.nearest(vector, limit, None if contents is None else rows.of(contents)).tolist())
        near.discard(_NONE)
        parts, titles = self._parts.best(vector, near), self._titles.best(vector, near)
        results = []
        for content in near:
            part, title = parts.get(content), titles.get(content)
            if part is not None:
                cosine = _PART * part.cosine + _PARTS * part.mean + _TITLE * (title or part).cosine
                results.append(Near(content, part.chunk, cosine, part.place))
            elif title is not None:
                # Less than with a part, because any short text is near another one.
                results.append(Near(content, None, (1 - _TITLE) * title.cosine))
        results.sort(key=lambda result: (-result.cosine, result.content_id))
        others = {*also}
        return [*results[:limit], *(result for result in results[limit:] if result.content_id in others)]

    def related(self, content_id: int, limit: int) -> list[Near]:
        """Return the contents nearest to another by their parts, best first, without itself."""
        rows = self._parts.of([content_id])
        mean = self._parts.directions(rows).sum(axis=0)
        length = float(np.linalg.norm(mean))
        if not length:
            return []
        near = self._parts.nearest(mean / length, limit + 1, None)
        best = self._parts.best(mean / length, near.tolist())
        results = [
            Near(content, part.chunk, part.cosine, part.place)
            for content, part in best.items()
            if content != content_id
        ]
        return sorted(results, key=lambda result: (-result.cosine, result.content_id))[:limit]


def _mapped(kind: Any, rows: int, width: int) -> NDArray[Any]:
    with tempfile.TemporaryFile() as file:
        os.ftruncate(file.fileno(), rows * width)
        return np.memmap(file, kind, "r+", shape=(rows, width))
