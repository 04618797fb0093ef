"""Add a checksum to each embedding, and forget the texts that a server refused: a passing failure may have been the cause."""

from __future__ import annotations

import hashlib
import struct

from alembic import op
from sqlalchemy import Connection, text

revision = "0005"
down_revision = "0004"

_BLOB = {"sqlite": "BLOB", "postgresql": "BYTEA"}
_AT_ONCE = 4_000
_ROWS = text(
    "SELECT embeddings.id, space_id, content_id, chunk_id, part, digest, vector, refusal FROM embeddings"
    " JOIN spaces ON spaces.id = space_id WHERE embeddings.id > :after"
    " AND (vector IS NULL OR length(vector) = dimensions) ORDER BY embeddings.id LIMIT :limit"
)
_OF_SERVERS = "space_id IN (SELECT id FROM spaces WHERE setting <> 'use')"


def upgrade() -> None:
    """Create the column and fill it: a few seconds for 100,000 vectors."""
    connection = op.get_bind()
    connection.exec_driver_sql(f"ALTER TABLE embeddings ADD COLUMN checksum {_BLOB[connection.dialect.name]}")
    refused = (
        f"DELETE FROM embeddings WHERE {_OF_SERVERS}"
        f" AND chunk_id IN (SELECT chunk_id FROM embeddings WHERE {_OF_SERVERS} AND refusal IS NOT NULL)"
    )
    number = connection.exec_driver_sql(refused).rowcount
    connection.execute(text("UPDATE counters SET value = value + :n WHERE name = 'embeddings_deleted'"), {"n": number})
    after = 0
    while rows := connection.execute(_ROWS, {"after": after, "limit": _AT_ONCE}).all():
        _fill(connection, [(_checksum(*row), number) for number, *row in rows])
        after = rows[-1].id


def _fill(connection: Connection, values: list[tuple[bytes, int]]) -> None:
    mark = "?" if connection.dialect.name == "sqlite" else "%s"
    connection.exec_driver_sql(f"UPDATE embeddings SET checksum = {mark} WHERE id = {mark}", values)


def _checksum(
    space_id: int, content_id: int, chunk_id: int, part: int, digest: bytes, vector: bytes | None, refusal: str | None
) -> bytes:
    value = (refusal or "").encode() if vector is None else vector
    ids = struct.pack("<4q", space_id, content_id, chunk_id, part)
    return hashlib.blake2b(ids + digest + value, digest_size=8).digest()
