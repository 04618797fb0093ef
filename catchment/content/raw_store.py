"""The raw content of items, kept so that a better parser can read it again without the network.

The file has the latest fetched version of each item, compressed; equal content is stored once. No other data depends on it:
missing, damaged or evicted content is fetched again.
"""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
import zlib
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

from catchment.content.disposable_file import DisposableFile, rows_of, used_bytes
from catchment.model import Item, RawContent

SPARED_BYTES = 500_000_000
"""Free space of the disk below which no raw content is kept."""
_SCHEMA = """
    CREATE TABLE IF NOT EXISTS blobs (hash BLOB PRIMARY KEY, data BLOB NOT NULL);
    CREATE TABLE IF NOT EXISTS items (
        number INTEGER PRIMARY KEY, item_id INTEGER UNIQUE, hash BLOB NOT NULL, header BLOB NOT NULL, seal BLOB NOT NULL
    )
"""
_PRESENT = "SELECT hash FROM blobs WHERE hash IN ({})"
_ITEMS = "SELECT CAST(item_id AS INTEGER) FROM items"
_SEALED = "item_id, CAST(items.hash AS BLOB), CAST(header AS BLOB), CAST(seal AS BLOB)"
_GET = f"SELECT {_SEALED}, CAST(data AS BLOB) FROM items JOIN blobs USING (hash) WHERE item_id = ?"
_HELD = f"SELECT {_SEALED} FROM items JOIN blobs USING (hash) WHERE item_id IN ({{}})"
_SIZED = (
    "SELECT item_id, hash, coalesce(length(header) + length(data), 0) FROM items JOIN blobs USING (hash) "
    "ORDER BY number DESC"
)
_PRUNED_TO = 0.9
_PROBED_BYTES = 4_096
_SAMPLES, _SAMPLE_BYTES = 10, 48


class RawStore(DisposableFile):
    """Raw content by item, up to `most_bytes`.

    Content belongs to the identity of the item when it was fetched or, if it has none, to its locator and version. For an item
    in another state, it counts as missing.
    """

    def __init__(self, path: Path, most_bytes: int) -> None:
        super().__init__(path, _SCHEMA)
        self.most_bytes = most_bytes

    def put(self, fetched: Iterable[tuple[int, Item, RawContent]]) -> bool:
        """Store content by the ID of its item, in one transaction. Return whether the limit is exceeded; then call `prune`."""
        blobs: dict[bytes, bytes] = {}
        rows = []
        if shutil.disk_usage(self._path.parent).free < SPARED_BYTES:
            return False
        for item_id, item, raw in fetched:
            digest, header = _hash(raw.data), header_of(raw)
            blobs[digest] = raw.data
            rows.append((item_id, digest, header, _seal(item_id, item, digest, header)))
        present = self._with_database(lambda database: list(rows_of(database, _PRESENT, list(blobs))))
        new = {digest: _compressed(blobs[digest]) for digest in blobs.keys() - {row[0] for row in present}}
        return self._with_database(lambda database: _put(database, new, rows)) > self.most_bytes

    def get(self, item_id: int, item: Item) -> RawContent | None:
        """Return the content of an item in this state, or None."""
        row = self._with_database(lambda database: database.execute(_GET, (item_id,)).fetchone())
        if row is not None and _matches(row[:-1], item):
            with suppress(zlib.error, TypeError):
                data = zlib.decompress(row[-1])
                if _hash(data) == row[1]:
                    return raw_of(row[2], data)
        return None

    def holds(self, items: Mapping[int, Item]) -> set[int]:
        """Return the IDs of the items with content for these states."""
        rows = self._with_database(lambda database: list(rows_of(database, _HELD, list(items))))
        return {row[0] for row in rows if _matches(row, items[row[0]])}

    def items(self) -> set[int]:
        """Return the IDs of all items with content."""
        return self._with_database(lambda database: {row[0] for row in database.execute(_ITEMS)})

    def samples(self, item_ids: Collection[int]) -> list[bytes]:
        """Return parts of the stored bytes of up to ten contents exclusive to these items, to search for them in the file."""
        return self._with_database(lambda database: _samples(database, set(item_ids)))

    def drop(self, item_ids: Collection[int]) -> None:
        """Delete the content of these items. Equal content of other items stays."""
        self._with_database(lambda database: _drop(database, item_ids))

    def prune(self, unneeded: Collection[int]) -> None:
        """If the content takes more than `most_bytes`, delete that of unneeded items first, then the oldest.

        Free pages are used again; if they are more than half of the file, they are returned to the disk.
        """
        self._with_database(lambda database: _drop(database, _surplus(database, self.most_bytes, set(unneeded))))
        self.shrink()


def header_of(raw: RawContent) -> bytes:
    """Return all facts of an item as it was fetched, without its content."""
    facts = (raw.name, raw.title, raw.media_type, raw.modified, raw.metadata, raw.encoding, raw.address, raw.summary)
    return orjson.dumps(facts)


def raw_of(header: bytes, data: bytes) -> RawContent:
    """Return an item from its facts and its content."""
    name, title, media_type, modified, *rest = orjson.loads(header)  # older rows lack the last ones
    return RawContent(data, name, title, media_type, modified and datetime.fromisoformat(modified), *rest)


def _hash(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _compressed(data: bytes) -> bytes:
    middle = data[len(data) // 2 :][:_PROBED_BYTES]
    probed = len(zlib.compress(middle, 1))
    # Base64, the bulk of a mailbox, has no repetitions. Huffman codes alone reach the same size in a quarter of the time.
    repeats = probed < _PROBED_BYTES // 2 or len(data) <= _PROBED_BYTES
    strategy = zlib.Z_DEFAULT_STRATEGY if repeats else zlib.Z_HUFFMAN_ONLY
    packer = zlib.compressobj(1 if probed < len(middle) else 0, strategy=strategy)
    return packer.compress(data) + packer.flush()


def _seal(item_id: int, item: Item, digest: bytes, header: bytes) -> bytes:
    """Return the digest of a row of `items`, which only fits this state of the item."""
    state = item.identity or f"{item.locator}\n{item.version}"
    return _hash(b"\0".join((b"%d" % item_id, state.encode(errors="surrogatepass"), digest, header)))


def _matches(row: Any, item: Item) -> bool:
    """Return whether a row of `items` is intact, and of this state of the item."""
    item_id, digest, header, seal = row
    # Damage may change the type of a value.
    with suppress(TypeError):
        return bool(seal == _seal(item_id, item, digest, header))
    return False


def _put(
    database: sqlite3.Connection, blobs: Mapping[bytes, bytes], rows: Collection[tuple[int, bytes, bytes, bytes]]
) -> int:
    """Return the bytes in use."""
    with database:
        database.executemany("INSERT OR REPLACE INTO blobs VALUES (?, ?)", blobs.items())
        database.executemany("INSERT OR REPLACE INTO items (item_id, hash, header, seal) VALUES (?, ?, ?, ?)", rows)
    return used_bytes(database)


def _samples(database: sqlite3.Connection, item_ids: set[int]) -> list[bytes]:
    by_hash: dict[bytes, set[int]] = {}
    for item_id, digest in database.execute("SELECT item_id, hash FROM items"):
        by_hash.setdefault(digest, set()).add(item_id)
    exclusive = [digest for digest, users in by_hash.items() if users <= item_ids][:_SAMPLES]
    statement = f"SELECT CAST(hash || substr(data, 1, {_SAMPLE_BYTES}) AS BLOB) FROM blobs WHERE hash IN ({{}})"
    return [row[0] for row in rows_of(database, statement, exclusive)]


def _drop(database: sqlite3.Connection, item_ids: Collection[int]) -> None:
    with database:
        database.executemany("DELETE FROM items WHERE item_id = ?", [(item_id,) for item_id in item_ids])
        database.execute("DELETE FROM blobs WHERE hash NOT IN (SELECT hash FROM items)")


def _surplus(database: sqlite3.Connection, most_bytes: int, unneeded: set[int]) -> list[int]:
    """Return the items to delete, so that there is room for new content."""
    if used_bytes(database) <= most_bytes:
        return []
    rows = sorted(database.execute(_SIZED), key=lambda row: row[0] in unneeded)
    counted: set[bytes] = set()
    room = most_bytes * _PRUNED_TO
    surplus = []
    for item_id, digest, length in rows:
        if digest in counted:
            continue
        if length <= room:
            room -= length
            counted.add(digest)
        else:
            surplus.append(item_id)
    return surplus
