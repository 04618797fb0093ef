"""Fold all texts in one way, list the tags and folders of documents in the order of time, and make room for title vectors."""

from __future__ import annotations

from alembic import op

from catchment.ledger.admin import index_check
from catchment.ledger.db.database import Writing
from catchment.ledger.library import word_index

revision = "0007"
down_revision = "0006"

_BLOB = {"sqlite": "BLOB", "postgresql": "BYTEA"}
_ID = {"sqlite": "INTEGER", "postgresql": "BIGINT"}
_WITHOUT_ROWID = {"sqlite": " WITHOUT ROWID", "postgresql": ""}


def upgrade() -> None:
    """Create the tables, and make the indexes anew from the texts of the library."""
    connection = op.get_bind()
    dialect = connection.dialect.name
    number, blob, end = _ID[dialect], _BLOB[dialect], _WITHOUT_ROWID[dialect]
    for table, column in (("doc_tags", "tag"), ("doc_folders", "folder")):
        connection.exec_driver_sql(
            f"CREATE TABLE {table} ( {column} TEXT NOT NULL, moment BIGINT NOT NULL, content_id BIGINT NOT NULL,"
            f" document_id {number} NOT NULL, PRIMARY KEY ({column}, moment, content_id, document_id),"
            f" FOREIGN KEY(document_id) REFERENCES documents (id) ){end}"
        )
        connection.exec_driver_sql(f"CREATE INDEX {table}_by_document ON {table} (document_id, {column})")
    for statement in (
        f"CREATE TABLE title_embeddings ( id {number} NOT NULL, space_id {number} NOT NULL,"
        f" document_id {number} NOT NULL, content_id BIGINT NOT NULL, vector {blob}, checksum {blob} NOT NULL,"
        " PRIMARY KEY (id), CONSTRAINT title_embeddings_by_document UNIQUE (document_id, space_id),"
        " FOREIGN KEY(space_id) REFERENCES spaces (id), FOREIGN KEY(document_id) REFERENCES documents (id) )",
        "INSERT INTO counters (name, value) VALUES ('title_embeddings', 0)",
        "DROP INDEX tags",
        "DROP VIEW chunk_text",
        "DROP VIEW document_names",
        *(f"DROP TABLE {index}" for index in word_index.INDEXES),
    ):
        connection.exec_driver_sql(statement)
    word_index.create(connection)
    index_check.rebuild(Writing(connection, 0))
