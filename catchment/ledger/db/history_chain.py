"""The chain of the history: each row has the hash of its content and of the row before it.

`catchment/audit/verify.py` computes the same hash by itself, since it must run without Catchment; a test compares the two.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import orjson
from sqlalchemy import select, update

from catchment.ledger.db.schema import chain, history, moves

if TYPE_CHECKING:
    from catchment.ledger.db.database import Reading, Writing

ERASED = ""
"""The event of an erased row, of which only the number and the hash are left."""


def link(previous: bytes, row: Sequence[Any]) -> bytes:
    """Return the hash of a row, chained to all previous rows."""
    return hashlib.sha256(previous + orjson.dumps(row)).digest()


def extend(writing: Writing, events: Sequence[tuple[Any, ...]], places: Sequence[tuple[Any, ...]]) -> None:
    """Append the events of a transaction to the chain.

    `places`: the previous locators of moved items, each with the index of its event and the item. They are not part of the
    chain, because they may have to be deleted.
    """
    length, previous = writing.execute(select(chain.c.length, chain.c.hash)).one()
    rows = []
    for number, what in enumerate(events, start=length + 1):
        row = (number, writing.now, *what)
        previous = link(previous, row)
        rows.append((*row, previous))
    writing.insert(history, rows)
    writing.insert(moves, [(length + 1 + index, *place) for index, *place in places])
    writing.execute(update(chain).values(length=length + len(rows), hash=previous))


def walk(
    reading: Reading, report: Callable[[str], None]
) -> Iterator[tuple[Sequence[tuple[Any, ...]], Sequence[bytes]]]:
    """Yield the rows of the history and their hashes, in parts. Passes a sentence for each inconsistency to `report`.

    The hash is also the last column of a row.
    """
    previous, number = b"", 0
    for rows in reading.in_parts(select(history), history.c.id):
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
    length, head = reading.execute(select(chain.c.length, chain.c.hash)).one()
    if length != number or (number and head != previous):
        report(f"The history ends at row {number} and should end at row {length}")
