"""Add the tables of search by meaning. The embeddings themselves are made later, in the background."""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"

_BLOB = {"sqlite": "BLOB", "postgresql": "BYTEA"}
_ID = {"sqlite": "INTEGER", "postgresql": "BIGINT"}


def upgrade() -> None:
    """Create the tables, the counters and the default setting."""
    connection = op.get_bind()
    number, blob = _ID[connection.dialect.name], _BLOB[connection.dialect.name]
    for statement in (
        f"CREATE TABLE spaces ( id {number} NOT NULL, name TEXT NOT NULL, setting TEXT NOT NULL,"
        " dimensions INTEGER NOT NULL, PRIMARY KEY (id), UNIQUE (name) )",
        f"CREATE TABLE search_model ( id {number} NOT NULL, setting TEXT NOT NULL, space_id {number},"
        " PRIMARY KEY (id), FOREIGN KEY(space_id) REFERENCES spaces (id) )",
        f"CREATE TABLE embeddings ( id {number} NOT NULL, space_id {number} NOT NULL, content_id {number} NOT NULL,"
        f" chunk_id {number} NOT NULL, part INTEGER NOT NULL, digest {blob} NOT NULL, vector {blob}, refusal TEXT,"
        " PRIMARY KEY (id), CONSTRAINT embeddings_by_chunk UNIQUE (chunk_id, space_id, part),"
        " FOREIGN KEY(space_id) REFERENCES spaces (id), FOREIGN KEY(content_id) REFERENCES contents (id),"
        " FOREIGN KEY(chunk_id) REFERENCES chunks (id) )",
        "CREATE INDEX embeddings_by_content ON embeddings (content_id)",
        "CREATE INDEX embeddings_by_digest ON embeddings (space_id, digest)",
        "CREATE INDEX embeddings_refused ON embeddings (space_id) WHERE refusal IS NOT NULL",
        "INSERT INTO counters (name, value) VALUES ('spaces', 0), ('embeddings', 0), ('embeddings_deleted', 0)",
        "INSERT INTO search_model (id, setting) VALUES (1, 'use')",
    ):
        connection.exec_driver_sql(statement)
