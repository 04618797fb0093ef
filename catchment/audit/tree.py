"""The tree (RFC 6962) over the history while it is read: its root, and the cover, which proves some rows without the others."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from hashlib import sha256

from catchment.audit.verify import NO_LEAVES, node

_BLOCK = 1_024
_Cover = list[bytes] | None
"""The roots of the largest branches without a shown leaf, from left to right; None for a branch that shows none."""
_Branch = tuple[int, bytes, _Cover]
"""The number of leaves, the root and the cover."""


class Tree:
    """A growing tree. Keeps one branch for each bit of its size, and up to 1,024 new leaves."""

    def __init__(self) -> None:
        self.size = 0
        self._branches: list[_Branch] = []
        self._leaves: list[bytes] = []
        self._shown: list[bool] = []

    def extend(self, proofs: Sequence[bytes], shown: Sequence[bool]) -> None:
        """Append the rows with these chained hashes. `shown`: whether a bundle shows each."""
        self.size += len(proofs)
        self._leaves += [sha256(b"\0" + proof).digest() for proof in proofs]
        self._shown += shown
        while len(self._leaves) >= _BLOCK:
            branch = _branch(self._leaves[:_BLOCK], self._shown[:_BLOCK])
            del self._leaves[:_BLOCK], self._shown[:_BLOCK]
            while self._branches and self._branches[-1][0] == branch[0]:
                branch = _joined(branch, self._branches.pop())
            self._branches.append(branch)

    def root(self) -> bytes:
        """Return the root; without leaves, the hash of an empty text."""
        return self._whole()[1]

    def cover(self) -> list[bytes]:
        """Return the roots of the largest branches without a shown leaf, from left to right."""
        _, root, cover = self._whole()
        return [root] if cover is None else cover

    def _whole(self) -> _Branch:
        branches = [*self._branches, *([_branch(self._leaves, self._shown)] if self._leaves else [])]
        return reduce(_joined, reversed(branches)) if branches else (0, NO_LEAVES, [])


def _branch(leaves: list[bytes], shown: list[bool]) -> _Branch:
    if any(shown) and not all(shown):
        branches: list[_Branch] = [
            (1, leaf, [] if is_shown else None) for leaf, is_shown in zip(leaves, shown, strict=True)
        ]
        while len(branches) > 1:
            pairs = iter(branches)
            above = [_joined(right, left) for left, right in zip(pairs, pairs, strict=False)]
            branches = above + branches[len(branches) & ~1 :]
        return branches[0]
    hashes = leaves
    while len(hashes) > 1:
        roots = iter(hashes)
        folded = [sha256(b"\1" + left + right).digest() for left, right in zip(roots, roots, strict=False)]
        # The last hash of an odd number moves up unchanged.
        hashes = folded + hashes[len(hashes) & ~1 :]
    return len(leaves), hashes[0], [] if shown[0] else None


def _joined(right: _Branch, left: _Branch) -> _Branch:
    cover = None
    if left[2] is not None or right[2] is not None:
        cover = [part for _, root, of_branch in (left, right) for part in ([root] if of_branch is None else of_branch)]
    return left[0] + right[0], node(left[1], right[1]), cover
