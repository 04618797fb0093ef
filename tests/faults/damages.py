"""Damage to the files of a ledger: the locations of each type in them, and the ways to corrupt a location."""

from __future__ import annotations

import random
import sqlite3
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

PAGE = 8192

_INTERIOR = {2: 12, 5: 12}
"""The first byte of an interior B-tree page, and the offset of its cell pointers."""

Files = Mapping[str, bytes]
"""The ledger and its companion files by suffix: `` (the ledger itself), `-wal`, `-shm`."""


@dataclass(frozen=True, slots=True)
class Place:
    """A range of bytes in a file, and another range of the same length that can replace it."""

    file: str
    at: int
    size: int
    other: int


def damaged(files: Files, place: Place, how: str) -> Files:
    """Return the files with this place corrupted.

    Raises: ValueError if the bytes would be unchanged.
    """
    data = files[place.file]
    was, other = (data[at : at + place.size] for at in (place.at, place.other))
    is_now = HOW[how](was, other)
    if is_now == was:
        raise ValueError("there it is so already")
    return {**files, place.file: data[: place.at] + is_now + data[place.at + place.size :]}


def _one_byte(was: bytes, _: bytes) -> bytes:
    # Choose among the nonzero bytes.
    at = random.choice([n for n, byte in enumerate(was) if byte] or [0])
    return was[:at] + bytes([was[at] ^ 1 << random.randrange(8)]) + was[at + 1 :]


HOW: Mapping[str, Callable[[bytes, bytes], bytes]] = {
    "one byte": _one_byte,
    "zeros": lambda was, _: bytes(len(was)),
    "noise": lambda was, _: random.randbytes(len(was)),
    "another's": lambda _, other: other,
    "torn": lambda was, other: was[: len(was) // 2] + other[len(was) // 2 :],
}


def places(file: Path) -> dict[str, Place]:
    """Return one place of each type in a ledger without a log."""
    with closing(sqlite3.connect(file)) as database:
        roots = dict(database.execute("SELECT name, rootpage FROM sqlite_master WHERE rootpage > 0").fetchall())
    data = file.read_bytes()
    trunk, free = struct.unpack_from(">2I", data, 32)
    assert free > 2, "the ledger has no free pages"
    (leaf,) = struct.unpack_from(">I", data, (trunk - 1) * PAGE + 8)
    trees = {
        "table's root": roots["contents"],
        "table's leaf": _below(data, roots["contents"]),
        "overflow": _overflow(data, roots["contents"]),
        "index's root": roots["sqlite_autoindex_contents_1"],
        "index's leaf": _below(data, roots["sqlite_autoindex_contents_1"]),
        "history's leaf": _below(data, roots["history"]),
        "words' root": roots["chunk_index_data"],
        "words' leaf": _below(data, roots["chunk_index_data"]),
        "words' index": roots["chunk_index_idx"],
        "letters": _below(data, roots["chunk_pairs_data"]),
        "sums of words": roots["chunk_index_docsize"],
        "jobs": _below(data, roots["jobs"]),
        "documents": _below(data, roots["documents"]),
        "counters": roots["counters"],
        "schema": _below(data, 1),
        "free trunk": trunk,
        "free leaf": leaf,
    }
    assert len(set(trees.values())) == len(trees), trees
    other = (roots["links"] - 1) * PAGE
    pages = {name: Place("", (number - 1) * PAGE, PAGE, other) for name, number in trees.items()}
    fields = {"magic": (0, 16), "page size": (16, 2), "versions": (18, 2), "reserved": (20, 4), "page count": (28, 4)}
    fields |= {"free list": (32, 8), "schema cookie": (40, 8), "encoding": (56, 4), "first page": (100, PAGE - 100)}
    return {name: Place("", at, size, other + at) for name, (at, size) in fields.items()} | pages


def _cells(data: bytes, page: int) -> Iterator[int]:
    """Return the offsets of a page's cells in the file."""
    begin = (page - 1) * PAGE
    header = begin + (100 if page == 1 else 0)
    (number,) = struct.unpack_from(">H", data, header + 3)
    listed = header + _INTERIOR.get(data[header], 8)
    for cell in struct.unpack_from(f">{number}H", data, listed):
        yield begin + cell


def _below(data: bytes, page: int) -> int:
    """Return the first leaf of the tree with this root page."""
    while data[(page - 1) * PAGE + (100 if page == 1 else 0)] in _INTERIOR:
        (page,) = struct.unpack_from(">I", data, next(_cells(data, page)))
    return page


def _overflow(data: bytes, root: int) -> int:
    """Return an overflow page of the last row, which is the longest."""
    page = root
    while data[(page - 1) * PAGE] in _INTERIOR:
        (page,) = struct.unpack_from(">I", data, (page - 1) * PAGE + 8)
    # The last cell of a row with overflow ends with the overflow page number.
    cells = sorted(_cells(data, page))
    ends = [*cells[1:], page * PAGE]
    for end in ends:
        (number,) = struct.unpack_from(">I", data, end - 4)
        if 1 < number <= len(data) // PAGE and data[(number - 1) * PAGE] == 0:
            return int(number)
    raise AssertionError("no row is longer than a page")
