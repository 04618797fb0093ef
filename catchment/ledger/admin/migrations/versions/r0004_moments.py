"""Add the time of each document, and the indexes for filters of a search."""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Create the column and the indexes, and date all documents."""
    for statement in (
        "ALTER TABLE documents ADD COLUMN moment BIGINT",
        """UPDATE documents SET moment = (
            SELECT CASE WHEN contents.media_type = 'message/rfc822' THEN contents.created
                ELSE coalesce(documents.modified, contents.modified, contents.created) END
            FROM contents WHERE contents.id = documents.content_id)""",
        "CREATE INDEX documents_latest ON documents (moment, content_id) WHERE removed_at IS NULL",
        "CREATE INDEX contents_by_type ON contents (media_type, language)",
        "CREATE INDEX tags ON entities (kind, value, content_id) WHERE kind = 'tag'",
    ):
        op.get_bind().exec_driver_sql(statement)
