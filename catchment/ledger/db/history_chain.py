"""The chain of the history: each row has the hash of its content and of the row before it.

`catchment/audit/verify.py` computes the same hash by itself, since it must run without Catchment; a test compares the two.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import orjson

ERASED = ""
"""The event of an erased row, of which only the number and the hash are left."""


def link(previous: bytes, row: Sequence[Any]) -> bytes:
    """Return the hash of a row, chained to all previous rows."""
    return hashlib.sha256(previous + orjson.dumps(row)).digest()


def chained(events: Iterable[tuple[Any, ...]], length: int, previous: bytes, now: int) -> list[tuple[Any, ...]]:
    """Return the rows that extend a history of `length` rows by these events; `previous` is the hash of its last row."""
    rows = []
    for number, event in enumerate(events, start=length + 1):
        row = (number, now, *event)
        previous = link(previous, row)
        rows.append((*row, previous))
    return rows


def checked(
    parts: Iterable[Sequence[tuple[Any, ...]]], length: int, head: bytes, report: Callable[[str], None]
) -> Iterator[tuple[Sequence[tuple[Any, ...]], Sequence[bytes]]]:
    """Yield the rows of the history and their hashes, in parts. Passes a sentence for each inconsistency to `report`.

    The hash is also the last column of a row. `length`, `head`: the number of rows and the last hash, as stored beside them.
    """
    previous, number = b"", 0
    for rows in parts:
        proofs = [row[-1] for row in rows]
        if set(map(type, proofs)) != {bytes}:
            # SQLite stores any type in any column.
            proofs = [proof if type(proof) is bytes else b"" for proof in proofs]
        for row, proof in zip(rows, proofs, strict=True):
            number += 1
            try:
                is_linked = link(previous, row[:-1]) == proof
            except TypeError:
                is_linked = False
            if row[0] != number:
                report(f"Row {number} of the history is missing")
                number = row[0]
            elif not is_linked and row[3] != ERASED:
                report(f"Row {number} of the history was changed")
            previous = proof
        yield rows, proofs
    if length != number or (number and head != previous):
        report(f"The history ends at row {number} and should end at row {length}")
