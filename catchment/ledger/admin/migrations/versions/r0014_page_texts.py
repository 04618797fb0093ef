"""Make room for the text on pictures of pages. It is recognized later, in the background."""

from __future__ import annotations

from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Create the table, empty."""
    connection = op.get_bind()
    number, end = ("INTEGER", "WITHOUT ROWID") if connection.dialect.name == "sqlite" else ("BIGINT", "")
    connection.exec_driver_sql(
        f"""CREATE TABLE page_texts ( content_hash TEXT NOT NULL, page {number} NOT NULL, waits BOOLEAN NOT NULL,
            picture TEXT, recognizer TEXT, text TEXT, confidence FLOAT, turn INTEGER, words TEXT, problem TEXT, lacks TEXT,
            PRIMARY KEY (content_hash, page) ) {end}"""
    )
    connection.exec_driver_sql("CREATE INDEX page_texts_waiting ON page_texts (page, content_hash) WHERE waits")
    connection.exec_driver_sql("CREATE INDEX page_texts_by_picture ON page_texts (picture) WHERE picture IS NOT NULL")
    connection.exec_driver_sql("ALTER TABLE search_model ADD COLUMN recognition TEXT NOT NULL DEFAULT 'auto'")
