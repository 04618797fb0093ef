"""Give attachments the sender and the date of their message, and mail without a date the date of its arrival."""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision = "0007"

_PLACE = {"sqlite": "instr({}, ';PART=')", "postgresql": "strpos({}, ';PART=')"}
_WITH_SENDER = {
    "sqlite": "json_set(coalesce(documents.metadata, '{}'), '$.from', message.author)",
    "postgresql": "jsonb_set(coalesce(documents.metadata, '{}')::jsonb, '{from}', to_jsonb(message.author))::text",
}


def upgrade() -> None:
    """Write the senders and the dates of messages into their attachments, then date both."""
    connection = op.get_bind()
    dialect = connection.dialect.name
    of_item, of_document = (_PLACE[dialect].format(name) for name in ("items.locator", "documents.path"))
    own = "FROM message WHERE message.document_id = documents.id"
    for statement in (
        # An attached message names its own sender.
        f"""CREATE TEMPORARY TABLE message AS
            SELECT documents.id AS document_id, coalesce(theirs.created, carrier.modified) AS sent,
                CASE WHEN own.media_type <> 'message/rfc822' THEN theirs.author END AS author
            FROM documents JOIN items ON items.id = documents.item_id JOIN contents AS own ON own.id = documents.content_id
            JOIN items AS whole ON whole.source_id = items.source_id
                AND whole.locator = substr(items.locator, 1, {of_item} - 1)
            JOIN documents AS carrier ON carrier.item_id = whole.id
            JOIN contents AS theirs ON theirs.id = carrier.content_id
            WHERE {of_item} > 0""",
        "CREATE INDEX message_of ON message (document_id)",
        f"""UPDATE documents SET modified = (SELECT sent {own})
            WHERE EXISTS (SELECT 1 {own} AND sent IS NOT NULL)""",
        f"""UPDATE documents SET metadata = (SELECT {_WITH_SENDER[dialect]} {own})
            WHERE EXISTS (SELECT 1 {own} AND author IS NOT NULL)""",
        "DROP TABLE message",
        f"""UPDATE documents SET moment = (
                SELECT CASE WHEN contents.media_type = 'message/rfc822' THEN coalesce(contents.created, documents.modified)
                    ELSE coalesce(documents.modified, contents.modified, contents.created) END
                FROM contents WHERE contents.id = documents.content_id)
            WHERE moment IS NULL OR {of_document} > 0""",
        *(
            f"""UPDATE {table} SET moment = (SELECT coalesce(moment, 0) FROM documents WHERE id = document_id)
                WHERE moment <> (SELECT coalesce(moment, 0) FROM documents WHERE id = document_id)"""
            for table in ("doc_tags", "doc_folders")
        ),
    ):
        connection.exec_driver_sql(statement)
