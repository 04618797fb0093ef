"""Damage that SQLite passes over: a file that was cut within a page, and a log that is broken before its end."""

from __future__ import annotations

import ctypes
import os
import sqlite3
import struct
import sys
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from catchment.errors import LedgerCorrupt, LedgerError, LedgerUnavailable
from catchment.ledger.db.checkpoints import log_of
from catchment.ledger.db.database import DAMAGED, Reading, Store
from catchment.runtime import atomic_files

# https://www.sqlite.org/fileformat2.html#the_write_ahead_log and https://www.sqlite.org/walformat.html
_LOG_HEADER = struct.Struct(">8I")
_FRAME_HEADER = struct.Struct(">6I")
_INDEX_BYTES = 48
_OTHERS = 64
"""After so many frames of an earlier log this one has ended: a log is written anew from its beginning, and seldom as far."""
_MAGIC = {"<": 0x377F0682, ">": 0x377F0683}
"""How a log begins, by the order of bytes of the machine that made it; only this machine's kind is read here."""


def require_undamaged(store: Store) -> None:
    """Raise LedgerCorrupt where SQLite would go on without a word with less than there was; see `is_cut` and `_is_broken`.

    The log is copied first, for SQLite throws it away with the last connection: who asks again goes on from before the break.
    """
    if store.file is None:
        return
    try:
        with store.read() as reading:
            reading.connection.exec_driver_sql("SELECT count(*) FROM sqlite_master")
            _require_log(log_of(store.file), _page_size(reading))
        if is_cut(store):
            raise LedgerCorrupt(DAMAGED)
    except LedgerError as error:
        # What SQLite says of a format that it does not know is no more than an error.
        if type(error) is LedgerError:
            raise LedgerCorrupt(DAMAGED) from error
        raise


def _require_log(log: Path, page: int) -> None:
    if not log.exists() or not _is_broken(log, page):
        return
    kept = log.with_name(f"{log.name}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%S-%f}")
    with atomic_files.explained():
        atomic_files.write(kept, log.read_bytes())
    raise LedgerCorrupt(
        f"The ledger's log is damaged, and what was written last is lost; the log is kept as {kept.name}: "
        "sync every source, which goes on from before, or bring a backup back with `catchment restore FILE`"
    )


def is_cut(store: Store) -> bool:
    """Whether the end of the last page of the file is missing, in place of which SQLite reads zeros."""
    if store.file is None:
        return False
    with store.read() as reading:
        page, pages = _page_size(reading), int(reading.connection.exec_driver_sql("PRAGMA page_count").scalar_one())
    size = store.file.stat().st_size
    if size % page == 0 or size > pages * page:
        return False
    log = log_of(store.file)
    if log.exists() and log.stat().st_size:
        # A disk that was full in the middle of a page leaves this too: the log has that page still, and now it is written.
        try:
            with store.translated(), closing(sqlite3.connect(store.file, isolation_level=None)) as database:
                _, in_log, moved = database.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except LedgerUnavailable:
            return False  # The disk is full still: until there is room the log has it.
        if in_log != moved:
            return False
    return store.file.stat().st_size < pages * page


def _page_size(reading: Reading) -> int:
    return int(reading.connection.exec_driver_sql("PRAGMA page_size").scalar_one())


@dataclass(frozen=True, slots=True)
class _Index:
    """What SQLite makes of a log: how many frames of which generation it goes by."""

    frames: int
    salts: list[int]

    @classmethod
    def of(cls, log: Path) -> _Index | None:
        """As the processes that use the log share it; None where it cannot be known.

        SQLite has it in memory. A file handle of ours would let go of SQLite's locks when it is closed.
        """
        if not sys.platform.startswith("linux"):
            return None
        shared = str(log.with_name(f"{log.name.removesuffix('-wal')}-shm").resolve())
        for line in Path("/proc/self/maps").read_text(encoding="utf-8", errors="surrogateescape").splitlines():
            span, _, offset, _, _, *path = line.split(maxsplit=5)
            if path == [shared] and int(offset, 16) == 0:
                header = ctypes.string_at(int(span.partition("-")[0], 16), _INDEX_BYTES)
                (frames,) = struct.unpack_from("=I", header, 16)
                return cls(frames, list(struct.unpack_from(">2I", header, 32)))
        return None


def _is_broken(log: Path, page: int) -> bool:
    """Whether the log goes on after the frame that SQLite takes for its last: with a commit, and what was begun after that.

    A power cut leaves such a thing of the last commit only, which nobody was told of: each commit is on the disk before the
    next is begun.
    """
    index = _Index.of(log)
    return index is not None and _goes_on(log, index, page) and _Index.of(log) == index


def _goes_on(log: Path, index: _Index, page: int) -> bool:
    frames = (log.stat().st_size - _LOG_HEADER.size) // (_FRAME_HEADER.size + page)
    if frames <= index.frames:
        return False
    with log.open("rb", buffering=0) as file:
        header = file.read(_LOG_HEADER.size)
        if len(header) < _LOG_HEADER.size:
            return False  # emptied by another process meanwhile
        *begin, first, second = _LOG_HEADER.unpack(header)
        order = "<" if sys.byteorder == "little" else ">"
        # Of a log whose own header is damaged SQLite takes nothing; what the first frame says is believed then.
        whole = begin[0] == _MAGIC[order] and _sums(header[:24], (0, 0), order) == (first, second)
        salts = index.salts if whole else None
        before, others = None, 0
        for frame in range(index.frames, frames):
            at = _LOG_HEADER.size + frame * (_FRAME_HEADER.size + page)
            if len(header := os.pread(file.fileno(), _FRAME_HEADER.size, at)) < _FRAME_HEADER.size:
                return False
            _, pages_then, *found, first, second = _FRAME_HEADER.unpack(header)
            salts = salts or found
            others = 0 if found == salts else others + 1
            if others > _OTHERS:
                return False
            if before is not None and found == salts:
                proved = os.pread(file.fileno(), 8, at) + os.pread(file.fileno(), page, at + _FRAME_HEADER.size)
                if _sums(proved, before, order) == (first, second):
                    return True
            before = (first, second) if pages_then and found == salts else None
    return False


def _sums(data: bytes, before: tuple[int, int], order: str) -> tuple[int, int]:
    """What SQLite proves the frames of a log by, each with all before it."""
    first, second = before
    words = iter(struct.unpack(f"{order}{len(data) // 4}I", data))
    for word, other in zip(words, words, strict=True):
        first = (first + word + second) & 0xFFFFFFFF
        second = (second + other + first) & 0xFFFFFFFF
    return first, second
