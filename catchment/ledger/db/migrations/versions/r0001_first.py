"""The first tables, the index of words, and the guards of the history. Frozen: later changes are later revisions."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

SQLITE = (
    """CREATE VIEW chunk_text AS
    SELECT chunks.id, chunks.heading, substr(contents.text, chunks.start + 1, chunks.stop - chunks.start) AS text
    FROM chunks JOIN contents ON contents.id = chunks.content_id""",
    """CREATE VIEW document_names AS SELECT id, title, aliases, path, properties FROM documents WHERE removed_at IS NULL""",
    """CREATE VIRTUAL TABLE chunk_index
    USING fts5(heading, text, content = 'chunk_text', content_rowid = 'id',
    tokenize = 'unicode61 remove_diacritics 2')""",
    """CREATE VIRTUAL TABLE document_index
    USING fts5(title, aliases, path, properties, content = 'document_names', content_rowid = 'id',
    tokenize = 'unicode61 remove_diacritics 2')""",
    "CREATE VIRTUAL TABLE chunk_pairs USING fts5(pairs, content = '', detail = none, tokenize = 'ascii')",
    "CREATE VIRTUAL TABLE document_pairs USING fts5(pairs, content = '', detail = none, tokenize = 'ascii')",
    """CREATE TRIGGER history_no_update BEFORE UPDATE ON history
    BEGIN SELECT RAISE(ABORT, 'the history is append-only'); END""",
    """CREATE TRIGGER history_no_delete BEFORE DELETE ON history
    BEGIN SELECT RAISE(ABORT, 'the history is append-only'); END""",
)

POSTGRES = (
    """CREATE VIEW chunk_text AS
    SELECT chunks.id, chunks.heading, substr(contents.text, chunks.start + 1, chunks.stop - chunks.start) AS text
    FROM chunks JOIN contents ON contents.id = chunks.content_id""",
    """CREATE VIEW document_names AS SELECT id, title, aliases, path, properties FROM documents WHERE removed_at IS NULL""",
    "CREATE TABLE chunk_index (id BIGINT PRIMARY KEY, words TSVECTOR NOT NULL)",
    "CREATE INDEX chunk_index_words ON chunk_index USING gin (words)",
    "CREATE TABLE document_index (id BIGINT PRIMARY KEY, words TSVECTOR NOT NULL)",
    "CREATE INDEX document_index_words ON document_index USING gin (words)",
    "CREATE TABLE chunk_pairs (id BIGINT PRIMARY KEY, pairs TSVECTOR NOT NULL)",
    "CREATE INDEX chunk_pairs_pairs ON chunk_pairs USING gin (pairs)",
    "CREATE TABLE document_pairs (id BIGINT PRIMARY KEY, pairs TSVECTOR NOT NULL)",
    "CREATE INDEX document_pairs_pairs ON document_pairs USING gin (pairs)",
    """CREATE FUNCTION history_is_append_only() RETURNS trigger LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION 'the history is append-only'; END $$""",
    """CREATE TRIGGER history_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON history
    FOR EACH STATEMENT EXECUTE FUNCTION history_is_append_only()""",
)

COUNTERS = ("sources", "syncs", "items", "jobs", "contents", "chunks", "documents", "holds", "token", "slots")


def only(where: str) -> dict[str, Any]:
    """A partial index, on either database."""
    return {"sqlite_where": sa.text(where), "postgresql_where": sa.text(where)}


def upgrade() -> None:  # noqa: PLR0915 - one table after another
    """Make everything; `revision` is there already."""
    op.create_table(
        "chain",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("length", sa.BigInteger(), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.CheckConstraint("id = 1", name="only_one"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "contents",
        sa.Column("id", NUMBER, autoincrement=False, nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("normalizer", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("media_type", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=True),
        sa.Column("language", sa.Text(), nullable=True),
        sa.Column("author", sa.Text(), nullable=True),
        sa.Column("created", sa.BigInteger(), nullable=True),
        sa.Column("modified", sa.BigInteger(), nullable=True),
        sa.Column("properties", sa.Text(), nullable=True),
        sa.Column("warnings", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("hash", "normalizer", name="contents_by_hash"),
    )
    op.create_table(
        "counters",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "history",
        sa.Column("id", NUMBER, autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("source_id", sa.BigInteger(), nullable=True),
        sa.Column("item_id", sa.BigInteger(), nullable=True),
        sa.Column("job_id", sa.BigInteger(), nullable=True),
        sa.Column("sync_id", sa.BigInteger(), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("history_by_item", "history", ["item_id"], unique=False)
    op.create_table(
        "sources",
        sa.Column("id", NUMBER, autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("priority", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("state_reason", sa.Text(), nullable=True),
        sa.Column("root", sa.Text(), nullable=True),
        sa.Column("seen_root", sa.Text(), nullable=True),
        sa.Column("failures", sa.Integer(), server_default="0", nullable=False),
        sa.CheckConstraint("state IN ('active', 'paused', 'held', 'removed')", name="state_is_known"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
    )
    op.create_table(
        "chunks",
        sa.Column("id", NUMBER, autoincrement=False, nullable=False),
        sa.Column("content_id", NUMBER, nullable=False),
        sa.Column("start", sa.Integer(), nullable=False),
        sa.Column("stop", sa.Integer(), nullable=False),
        sa.Column("heading", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["content_id"],
            ["contents.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("chunks_by_content", "chunks", ["content_id"], unique=False)
    op.create_table(
        "entities",
        sa.Column("content_id", NUMBER, nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("start", sa.Integer(), nullable=False),
        sa.Column("stop", sa.Integer(), nullable=False),
        sa.Column("confidence", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(
            ["content_id"],
            ["contents.id"],
        ),
        sa.PrimaryKeyConstraint("content_id", "position"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "turns",
        sa.Column("source_id", NUMBER, autoincrement=False, nullable=False),
        sa.Column("sync_id", sa.BigInteger(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("at_once", sa.Integer(), nullable=False),
        sa.Column("tag", sa.BigInteger(), nullable=False),
        sa.Column("waits_since", sa.BigInteger(), nullable=True),
        sa.Column("counts_until", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["source_id"],
            ["sources.id"],
        ),
        sa.PrimaryKeyConstraint("source_id"),
    )
    op.create_table(
        "timeline",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("boot", sa.Text(), nullable=False),
        sa.Column("ahead", sa.BigInteger(), nullable=False),
        sa.Column("wall_ahead", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("id = 1", name="only_one"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "buckets",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("not_before", sa.BigInteger(), nullable=False),
        sa.Column("allowed", sa.Integer(), nullable=True),
        sa.Column("used", sa.Integer(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=True),
        sa.Column("sure", sa.Boolean(), nullable=False),
        sa.Column("multiplier", sa.Float(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("answers", sa.Integer(), nullable=False),
        sa.Column("slow", sa.Integer(), nullable=False),
        sa.Column("throttled", sa.Integer(), nullable=False),
        sa.Column("rate", sa.Integer(), nullable=False),
        sa.Column("burst", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("key"),
    )
    op.create_table(
        "slots",
        sa.Column("id", NUMBER, autoincrement=False, nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("at_once", sa.Integer(), nullable=False),
        sa.Column("held", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("slots_by_host", "slots", ["host"], unique=False)
    op.create_table(
        "breakers",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("opened", sa.BigInteger(), nullable=True),
        sa.Column("locked", sa.Boolean(), nullable=False),
        sa.Column("prober", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("key"),
    )
    op.create_table(
        "throttles",
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("began", sa.Integer(), nullable=False),
        sa.Column("hour", sa.BigInteger(), nullable=True),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("scope"),
    )
    op.create_table(
        "moves",
        sa.Column("history_id", NUMBER, autoincrement=False, nullable=False),
        sa.Column("item_id", sa.BigInteger(), nullable=False),
        sa.Column("locator", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("history_id"),
    )
    op.create_index("moves_by_item", "moves", ["item_id"], unique=False)
    op.create_table(
        "consents",
        sa.Column("source_id", NUMBER, nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("wanted", sa.Boolean(), nullable=False),
        sa.Column("given_at", sa.BigInteger(), nullable=True),
        sa.Column("given_by", sa.Text(), nullable=True),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("withdrawn_at", sa.BigInteger(), nullable=True),
        sa.Column("purged_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["source_id"], ["sources.id"]),
        sa.PrimaryKeyConstraint("source_id", "scope"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "holds",
        sa.Column("id", NUMBER, autoincrement=False, nullable=False),
        sa.Column("source_id", NUMBER, nullable=False),
        sa.Column("sync_id", sa.BigInteger(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("held_at", sa.BigInteger(), nullable=False),
        sa.Column("resolved_at", sa.BigInteger(), nullable=True),
        sa.Column("resolution", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["source_id"],
            ["sources.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("holds_open", "holds", ["source_id"], unique=True, **only("resolved_at IS NULL"))
    op.create_table(
        "items",
        sa.Column("id", NUMBER, autoincrement=False, nullable=False),
        sa.Column("source_id", NUMBER, nullable=False),
        sa.Column("locator", sa.Text(), nullable=False),
        sa.Column("container", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("identity", sa.Text(), nullable=True),
        sa.Column("size", sa.BigInteger(), nullable=True),
        sa.Column("modified", sa.BigInteger(), nullable=True),
        sa.Column("attributes", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("content_hash", sa.Text(), nullable=True),
        sa.Column("first_seen_at", sa.BigInteger(), nullable=False),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.Column("gone_at", sa.BigInteger(), nullable=True),
        sa.Column("sync_id", sa.BigInteger(), nullable=True),
        sa.CheckConstraint("state IN ('present', 'missing', 'deleted', 'kept')", name="state_is_known"),
        sa.ForeignKeyConstraint(
            ["source_id"],
            ["sources.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("items_by_container", "items", ["source_id", "container", "state"], unique=False)
    op.create_index(
        "items_by_identity", "items", ["source_id", "identity"], unique=False, **only("identity IS NOT NULL")
    )
    op.create_index("items_by_locator", "items", ["source_id", "locator"], unique=True, **only("state <> 'deleted'"))
    op.create_index(
        "items_deleted", "items", ["source_id", "state", "locator"], unique=False, **only("state = 'deleted'")
    )
    op.create_index(
        "items_missing", "items", ["source_id", "state", "identity"], unique=False, **only("state = 'missing'")
    )
    op.create_table(
        "links",
        sa.Column("content_id", NUMBER, nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("anchor", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("start", sa.Integer(), nullable=False),
        sa.Column("stop", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["content_id"],
            ["contents.id"],
        ),
        sa.PrimaryKeyConstraint("content_id", "position"),
        sqlite_with_rowid=False,
    )
    op.create_index("links_by_name", "links", ["name"], unique=False)
    op.create_table(
        "marks",
        sa.Column("source_id", NUMBER, nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["source_id"],
            ["sources.id"],
        ),
        sa.PrimaryKeyConstraint("source_id", "key"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "syncs",
        sa.Column("id", NUMBER, autoincrement=False, nullable=False),
        sa.Column("source_id", NUMBER, nullable=False),
        sa.Column("run", sa.Text(), nullable=True),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("code_version", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("began_at", sa.BigInteger(), nullable=False),
        sa.Column("expected_at", sa.BigInteger(), nullable=True),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("summary", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("circumstances", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["source_id"],
            ["sources.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("syncs_by_source", "syncs", ["source_id", "id"], unique=False)
    op.create_index("syncs_open", "syncs", ["source_id"], unique=True, **only("outcome IS NULL"))
    op.create_table(
        "mails",
        sa.Column("content_id", NUMBER, autoincrement=False, nullable=False),
        sa.Column("name", sa.BigInteger(), nullable=False),
        sa.Column("base", sa.BigInteger(), nullable=True),
        sa.Column("sent", sa.BigInteger(), nullable=True),
        sa.Column("thread", sa.BigInteger(), nullable=False),
        sa.Column("orphan", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["content_id"], ["contents.id"]),
        sa.PrimaryKeyConstraint("content_id"),
    )
    op.create_index("mails_by_thread", "mails", ["thread"], unique=False)
    op.create_index("mails_by_base", "mails", ["base", "sent"], unique=False)
    op.create_index("mails_orphaned", "mails", ["base"], unique=False, **only("orphan"))
    op.create_table(
        "mail_names",
        sa.Column("name", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("content_id", NUMBER, nullable=False),
        sa.ForeignKeyConstraint(["content_id"], ["contents.id"]),
        sa.PrimaryKeyConstraint("name", "content_id"),
        sqlite_with_rowid=False,
    )
    op.create_index("mail_names_by_content", "mail_names", ["content_id"], unique=False)
    op.create_table(
        "documents",
        sa.Column("id", NUMBER, autoincrement=False, nullable=False),
        sa.Column("item_id", NUMBER, nullable=False),
        sa.Column("source_id", NUMBER, nullable=False),
        sa.Column("content_id", NUMBER, nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("aliases", sa.Text(), nullable=False),
        sa.Column("properties", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("modified", sa.BigInteger(), nullable=True),
        sa.Column("metadata", sa.Text(), nullable=True),
        sa.Column("removed_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["content_id"],
            ["contents.id"],
        ),
        sa.ForeignKeyConstraint(
            ["item_id"],
            ["items.id"],
        ),
        sa.ForeignKeyConstraint(
            ["source_id"],
            ["sources.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("item_id"),
    )
    op.create_index("documents_by_content", "documents", ["content_id"], unique=False)
    op.create_table(
        "formers",
        sa.Column("source_id", NUMBER, nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("sync_id", sa.BigInteger(), nullable=False),
        sa.Column("content_id", NUMBER, nullable=True),
        sa.Column("title", sa.Text(), nullable=True),
        sa.Column("aliases", sa.Text(), nullable=True),
        sa.Column("properties", sa.Text(), nullable=True),
        sa.Column("modified", sa.BigInteger(), nullable=True),
        sa.Column("metadata", sa.Text(), nullable=True),
        sa.Column("kept_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["content_id"],
            ["contents.id"],
        ),
        sa.ForeignKeyConstraint(
            ["source_id"],
            ["sources.id"],
        ),
        sa.PrimaryKeyConstraint("source_id", "path", "sync_id"),
        sqlite_with_rowid=False,
    )
    op.create_index("formers_by_content", "formers", ["content_id"], **only("content_id IS NOT NULL"))
    op.create_index(
        "documents_live", "documents", ["source_id", "content_id"], unique=False, **only("removed_at IS NULL")
    )
    op.create_table(
        "jobs",
        sa.Column("id", NUMBER, autoincrement=False, nullable=False),
        sa.Column("source_id", NUMBER, nullable=False),
        sa.Column("item_id", NUMBER, nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("current", sa.Boolean(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("due", sa.BigInteger(), nullable=False),
        sa.Column("enqueued_at", sa.BigInteger(), nullable=False),
        sa.Column("not_before", sa.BigInteger(), nullable=False),
        sa.Column("token", sa.BigInteger(), nullable=True),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("lease_until", sa.BigInteger(), nullable=True),
        sa.Column("failed_at", sa.BigInteger(), nullable=True),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("sync_id", sa.BigInteger(), nullable=True),
        sa.CheckConstraint(
            "state IN ('pending', 'running', 'retrying', 'succeeded', 'quarantined', 'skipped', 'cancelled', 'superseded')",
            name="state_is_known",
        ),
        sa.ForeignKeyConstraint(
            ["item_id"],
            ["items.id"],
        ),
        sa.ForeignKeyConstraint(
            ["source_id"],
            ["sources.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("jobs_by_item", "jobs", ["item_id"], unique=False)
    op.create_index("jobs_current", "jobs", ["item_id"], unique=True, **only("current"))
    op.create_index("jobs_fresh", "jobs", ["source_id", "due", "id"], unique=False, **only("state = 'pending'"))
    op.create_index("jobs_running", "jobs", ["token"], unique=False, **only("state = 'running'"))
    op.create_index(
        "jobs_tried",
        "jobs",
        ["source_id", "due", "id"],
        unique=False,
        **only("state = 'retrying'"),
    )
    op.create_table(
        "quarantine",
        sa.Column("job_id", NUMBER, nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("failure_class", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("traceback", sa.Text(), nullable=False),
        sa.Column("retry_helps", sa.Boolean(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("first_failed_at", sa.BigInteger(), nullable=False),
        sa.Column("last_failed_at", sa.BigInteger(), nullable=False),
        sa.Column("notes", sa.Text(), nullable=True),
        sa.Column("run", sa.Text(), nullable=True),
        sa.Column("resolved_at", sa.BigInteger(), nullable=True),
        sa.Column("resolution", sa.Text(), nullable=True),
        sa.Column("circumstances", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["job_id"],
            ["jobs.id"],
        ),
        sa.PrimaryKeyConstraint("job_id"),
    )
    op.create_index("quarantine_open", "quarantine", ["cluster"], unique=False, **only("resolved_at IS NULL"))
    for statement in SQLITE if op.get_bind().dialect.name == "sqlite" else POSTGRES:
        op.get_bind().exec_driver_sql(statement)
    for name in COUNTERS:
        op.execute(f"INSERT INTO counters (name, value) VALUES ('{name}', 0)")
    op.execute(sa.text("INSERT INTO chain (id, length, hash) VALUES (1, 0, :none)").bindparams(none=b""))
