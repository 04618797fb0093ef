"""The vectors of one space in memory, searched by comparing all of them: exact, and 60 ms for a million.

They are in a mapped file without a name, so that the system can page them out, no other program can change them, and nothing
is left when the process ends. Each vector is compared with its checksum when it is copied from the ledger.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from catchment.ledger import Ledger, Space, Watermark

_BLOCK = 2_048
"""Rows that are converted at once: larger blocks of floats do not fit into the cache, and take twice as long."""
_LEAST_ROWS = 4_096
_PAIRS = 1_000
_FEW = 200
_FLOOR_OF_FEW = 0.2
"""The floor where there are too few vectors to compute one."""
_PARTS_EACH = 8
"""Parts that are looked at for each content that is wanted, because the best parts may belong to few contents."""

_Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Near:
    """A content near a query, with its nearest chunk. `cosine`: 1 for the same direction, 0 for no relation."""

    content_id: int
    chunk_id: int
    cosine: float


class Vectors:
    """The vectors of one space. Not thread-safe."""

    def __init__(self, ledger: Ledger, space: Space) -> None:
        self._ledger = ledger
        self.space = space
        self._empty()

    def _empty(self) -> None:
        self._watermark = Watermark(0, -1)
        self._last = self._count = 0
        self._rows: NDArray[np.int8] = np.empty((0, self.space.dimensions), np.int8)
        self._contents = np.empty(0, np.int64)
        self._chunks = np.empty(0, np.int64)
        self._lengths = np.empty(0, np.float32)
        self._grow(_LEAST_ROWS)
        self._floor: float | None = None

    def _grow(self, rows: int) -> None:
        width = self.space.dimensions
        with tempfile.TemporaryFile() as file:
            os.ftruncate(file.fileno(), rows * width)
            mapped: NDArray[np.int8] = np.memmap(file, np.int8, "r+", shape=(rows, width))
        mapped[: self._count] = self._rows[: self._count]
        self._rows = mapped
        self._contents = np.resize(self._contents, rows)
        self._chunks = np.resize(self._chunks, rows)
        self._lengths = np.resize(self._lengths, rows)

    def refresh(self) -> bool:
        """Read what is new in the ledger; everything, if anything was deleted. Return whether anything changed."""
        watermark = self._ledger.embeddings.watermark()
        if watermark == self._watermark:
            return False
        if watermark.deleted != self._watermark.deleted:
            self._empty()
        for group in self._ledger.embeddings.vectors(self.space, self._last):
            self._append(group)
        self._watermark = watermark
        return True

    def _append(self, group: Sequence[tuple[int, int, int, bytes]]) -> None:
        self._last = max(self._last, group[-1][0])
        stop = self._count + len(group)
        if stop > len(self._rows):
            self._grow(max(stop, 2 * len(self._rows)))
        where = slice(self._count, stop)
        _, contents, chunks, vectors = zip(*group, strict=True)
        block = np.frombuffer(b"".join(vectors), np.int8).reshape(-1, self.space.dimensions)
        self._rows[where] = block
        self._contents[where], self._chunks[where] = contents, chunks
        floats = block.astype(np.float32)
        # A quarter of the time of `np.linalg.norm`.
        self._lengths[where] = np.maximum(np.sqrt(np.einsum("ij,ij->i", floats, floats)), 1.0)
        self._count, self._floor = stop, None

    @property
    def floor(self) -> float:
        """A floor for models without a measured one: the mean and two deviations of the cosines of random pairs."""
        if self._floor is None:
            if self._count < _FEW:
                return _FLOOR_OF_FEW
            random = np.random.default_rng(0)
            one, two = (random.integers(0, self._count, _PAIRS) for _ in range(2))
            pairs = one[one != two], two[one != two]
            first, second = (self._rows[rows].astype(np.float32) / self._lengths[rows, None] for rows in pairs)
            cosines = np.einsum("ij,ij->i", first, second)
            self._floor = float(cosines.mean() + 2 * cosines.std())
        return self._floor

    def nearest(self, query: Sequence[float], limit: int, contents: Collection[int] | None = None) -> list[Near]:
        """Return the nearest contents with the nearest chunk of each, best first. `contents`: only these."""
        rows: NDArray[np.int64] | None = None
        if contents is not None:
            wanted = np.fromiter(contents, np.int64, len(contents))
            rows = np.flatnonzero(np.isin(self._contents[: self._count], wanted))
        total = self._count if rows is None else len(rows)
        if not total:
            return []
        cosines = self._cosines(np.asarray(query, np.float32), rows, total)
        chosen = slice(total) if rows is None else rows
        owners, chunks = self._contents[chosen], self._chunks[chosen]
        count = min(total, _PARTS_EACH * limit)
        while True:
            order = np.argpartition(-cosines, count - 1)[:count]
            # By number where equal, so that the order never changes.
            order = order[np.lexsort((chunks[order], -cosines[order]))]
            best: dict[int, Near] = {}
            for row in order.tolist():
                content = int(owners[row])
                if content not in best:
                    best[content] = Near(content, int(chunks[row]), float(cosines[row]))
            if len(best) >= limit or count == total:
                return list(best.values())[:limit]
            count = min(total, 4 * count)

    def _cosines(self, query: _Floats, rows: NDArray[np.int64] | None, total: int) -> _Floats:
        """Return the cosines of these rows; None: of all."""
        found = np.empty(total, np.float32)
        for start in range(0, total, _BLOCK):
            part = slice(start, min(start + _BLOCK, total))
            some = part if rows is None else rows[part]
            found[part] = self._rows[some].astype(np.float32) @ query / self._lengths[some]
        return found

    def middle(self, content_id: int) -> Sequence[float] | None:
        """Return the mean direction of a content's vectors, of length 1; None if it has none."""
        mine = np.flatnonzero(self._contents[: self._count] == content_id)
        if not len(mine):
            return None
        mean = (self._rows[mine].astype(np.float32) / self._lengths[mine, None]).mean(axis=0)
        length = float(np.linalg.norm(mean))
        return [float(value) for value in mean / length] if length else None
