"""The tables. Both databases store times as integer microseconds since 1970 (UTC), and JSON as text with sorted keys.

IDs are allocated from the `counters` table and never reused. The search index is defined in `catchment.ledger.library`.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Connection,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
    event,
    text,
)

from catchment.model import JobState

REVISION = "0014"
"""Revision of these tables. Migrations upgrade older ledgers to it."""

metadata = MetaData()
_WHERE = "where"

_Number = BigInteger().with_variant(Integer(), "sqlite")
"""64 bits on both databases. In SQLite, only a column declared INTEGER can be the rowid."""


def _id() -> Column[Any]:
    return Column("id", _Number, primary_key=True, autoincrement=False)


def _partial(name: str, *columns: Any, where: str, unique: bool = False) -> Index:
    return Index(name, *columns, unique=unique, sqlite_where=text(where), info={_WHERE: where})


@event.listens_for(metadata, "before_create")
def _tell_postgresql(_: MetaData, connection: Connection, **__: Any) -> None:
    # Setting the option at import would load the PostgreSQL dialect in every process.
    if connection.dialect.name == "postgresql":
        for index in (index for table in metadata.tables.values() for index in table.indexes if _WHERE in index.info):
            index.dialect_options["postgresql"]["where"] = text(index.info[_WHERE])


_LONG = {"long": True}
"""Information about a column of texts that are too long for an index of PostgreSQL, which has their MD5."""


def is_long(column: Any) -> bool:
    """Return whether a column is indexed by MD5 on PostgreSQL."""
    return "long" in getattr(column, "info", {})


LONG_TEXTS = (
    "DROP INDEX items_by_locator",
    "CREATE UNIQUE INDEX items_by_locator ON items (source_id, md5(locator)) WHERE state <> 'deleted'",
    "DROP INDEX items_by_container",
    "CREATE INDEX items_by_container ON items (source_id, md5(container), state)",
    "DROP INDEX items_deleted",
    "CREATE INDEX items_deleted ON items (source_id, md5(locator)) WHERE state = 'deleted'",
    "ALTER TABLE marks DROP CONSTRAINT marks_pkey",
    "CREATE UNIQUE INDEX marks_by_key ON marks (source_id, md5(key))",
    "ALTER TABLE formers DROP CONSTRAINT formers_pkey",
    "CREATE UNIQUE INDEX formers_by_path ON formers (source_id, md5(path), sync_id)",
)
"""The indexes that PostgreSQL has instead of those on long columns. It cannot index more than 2,704 bytes."""


@event.listens_for(metadata, "after_create")
def _index_long_texts(_: MetaData, connection: Connection, **__: Any) -> None:
    for statement in LONG_TEXTS if connection.dialect.name == "postgresql" else ():
        connection.exec_driver_sql(statement)


def _one_of(column: str, *values: str) -> CheckConstraint:
    return CheckConstraint(f"{column} IN ({', '.join(repr(v) for v in values)})", name=f"{column}_is_known")


revision = Table(
    "revision",
    metadata,
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="revision_pkc"),
)

counters = Table(
    "counters",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

COUNTED = (
    "sources",
    "syncs",
    "items",
    "jobs",
    "contents",
    "chunks",
    "documents",
    "holds",
    "token",
    "slots",
    "spaces",
    "embeddings",
    "embeddings_deleted",
    "incidents",
    "title_embeddings",
    "backfills",
    "sinks",
    "changes",
)

sources = Table(
    "sources",
    metadata,
    _id(),
    Column("name", Text, nullable=False, unique=True),
    Column("kind", Text, nullable=False),
    Column("priority", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("state_reason", Text),
    Column("root", Text),
    Column("seen_root", Text),
    Column("failures", Integer, nullable=False, server_default="0"),
    Column("keep_days", Integer, nullable=False, server_default="30"),
    _one_of("state", "active", "paused", "held", "removed"),
)

consents = Table(
    "consents",
    metadata,
    Column("source_id", ForeignKey("sources.id"), primary_key=True),
    Column("scope", Text, primary_key=True),
    Column("wanted", Boolean(create_constraint=False), nullable=False),
    Column("given_at", BigInteger),
    Column("given_by", Text),
    Column("expires_at", BigInteger),
    Column("withdrawn_at", BigInteger),
    Column("purged_at", BigInteger),
    sqlite_with_rowid=False,
)

syncs = Table(
    "syncs",
    metadata,
    _id(),
    Column("source_id", ForeignKey("sources.id"), nullable=False),
    Column("run", Text),
    Column("owner", Text, nullable=False),
    Column("code_version", Text, nullable=False),
    Column("outcome", Text),
    Column("began_at", BigInteger, nullable=False),
    Column("expected_at", BigInteger),
    Column("ended_at", BigInteger),
    Column("summary", Text),
    Column("error", Text),
    Column("circumstances", Text),
    Column("cause", Text),
    Column("backfill_id", BigInteger),
    Column("continues", BigInteger),
    Column("undoes", BigInteger),
)
Index("syncs_by_source", syncs.c.source_id, syncs.c.id)
_partial("syncs_continuing", syncs.c.continues, where="continues IS NOT NULL")
_partial("syncs_undoing", syncs.c.undoes, where="undoes IS NOT NULL")
_partial("syncs_by_backfill", syncs.c.backfill_id, where="backfill_id IS NOT NULL")
_partial("syncs_open", syncs.c.source_id, where="outcome IS NULL", unique=True)

turns = Table(
    "turns",
    metadata,
    Column("source_id", ForeignKey("sources.id"), primary_key=True, autoincrement=False),
    Column("sync_id", BigInteger, nullable=False),
    Column("owner", Text, nullable=False),
    Column("at_once", Integer, nullable=False),
    Column("tag", BigInteger, nullable=False),
    Column("waits_since", BigInteger),
    Column("counts_until", BigInteger),
)

timeline = Table(
    "timeline",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("boot", Text, nullable=False),
    Column("ahead", BigInteger, nullable=False),
    Column("wall_ahead", BigInteger, nullable=False),
    CheckConstraint("id = 1", name="only_one"),
)

buckets = Table(
    "buckets",
    metadata,
    Column("key", Text, primary_key=True),
    Column("tokens", BigInteger, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("not_before", BigInteger, nullable=False),
    Column("allowed", Integer),
    Column("used", Integer, nullable=False),
    Column("until", BigInteger),
    Column("sure", Boolean(create_constraint=False), nullable=False),
    Column("multiplier", Float, nullable=False),
    Column("since", BigInteger, nullable=False),
    Column("answers", Integer, nullable=False),
    Column("slow", Integer, nullable=False),
    Column("throttled", Integer, nullable=False),
    Column("rate", Integer, nullable=False),
    Column("burst", Integer, nullable=False),
)

slots = Table(
    "slots",
    metadata,
    _id(),
    Column("host", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("at_once", Integer, nullable=False),
    Column("held", Boolean(create_constraint=False), nullable=False),
)
Index("slots_by_host", slots.c.host)

breakers = Table(
    "breakers",
    metadata,
    Column("key", Text, primary_key=True),
    Column("failures", Integer, nullable=False),
    Column("opened", BigInteger),
    Column("locked", Boolean(create_constraint=False), nullable=False),
    Column("prober", Text),
)

throttles = Table(
    "throttles",
    metadata,
    Column("scope", Text, primary_key=True),
    Column("rule", Text, nullable=False),
    Column("began", Integer, nullable=False),
    Column("hour", BigInteger),
    Column("changed_at", BigInteger, nullable=False),
)

marks = Table(
    "marks",
    metadata,
    Column("source_id", ForeignKey("sources.id"), primary_key=True),
    Column("key", Text, primary_key=True, info=_LONG),
    Column("value", Text, nullable=False),
    sqlite_with_rowid=False,
)

items = Table(
    "items",
    metadata,
    _id(),
    Column("source_id", ForeignKey("sources.id"), nullable=False),
    Column("locator", Text, nullable=False, info=_LONG),
    Column("container", Text, nullable=False, info=_LONG),
    Column("version", Text, nullable=False),
    Column("identity", Text),
    Column("size", BigInteger),
    Column("modified", BigInteger),
    Column("attributes", Text),
    Column("state", Text, nullable=False),
    Column("content_hash", Text),
    Column("first_seen_at", BigInteger, nullable=False),
    Column("changed_at", BigInteger, nullable=False),
    Column("gone_at", BigInteger),
    Column("sync_id", BigInteger),
    _one_of("state", "present", "missing", "deleted", "kept"),
)
_partial("items_by_locator", items.c.source_id, items.c.locator, where="state <> 'deleted'", unique=True)
Index("items_by_container", items.c.source_id, items.c.container, items.c.state)
MISSING = "items.state = 'missing'"
DELETED = "items.state = 'deleted'"
_partial("items_missing", items.c.source_id, items.c.state, items.c.identity, where="state = 'missing'")
_partial("items_deleted", items.c.source_id, items.c.state, items.c.locator, where="state = 'deleted'")
_partial("items_by_identity", items.c.source_id, items.c.identity, where="identity IS NOT NULL")

jobs = Table(
    "jobs",
    metadata,
    _id(),
    Column("source_id", ForeignKey("sources.id"), nullable=False),
    Column("item_id", ForeignKey("items.id"), nullable=False),
    Column("version", Text, nullable=False),
    Column("current", Boolean(create_constraint=False), nullable=False),
    Column("state", Text, nullable=False),
    Column("reason", Text),
    Column("attempt", Integer, nullable=False),
    Column("due", BigInteger, nullable=False),
    Column("enqueued_at", BigInteger, nullable=False),
    Column("not_before", BigInteger, nullable=False),
    Column("token", BigInteger),
    Column("owner", Text),
    Column("lease_until", BigInteger),
    Column("failed_at", BigInteger),
    Column("finished_at", BigInteger),
    Column("error", Text),
    Column("sync_id", BigInteger),
    Column("backfill_id", BigInteger),
    Column("replay_of", BigInteger),
    _one_of("state", *(state.value for state in JobState)),
)
RUNNING = "jobs.state = 'running'"
FRESH = "state = 'pending'"
TRIED = "state = 'retrying'"
_partial("jobs_fresh", jobs.c.source_id, jobs.c.due, jobs.c.id, where=FRESH)
_partial("jobs_tried", jobs.c.source_id, jobs.c.due, jobs.c.id, where=TRIED)
_partial("jobs_running", jobs.c.token, where="state = 'running'")
_partial("jobs_current", jobs.c.item_id, where="current", unique=True)
Index("jobs_by_item", jobs.c.item_id)
_partial("jobs_by_backfill", jobs.c.backfill_id, jobs.c.state, jobs.c.id, where="backfill_id IS NOT NULL")

backfills = Table(
    "backfills",
    metadata,
    _id(),
    Column("source_id", ForeignKey("sources.id"), nullable=False),
    Column("selection", Text, nullable=False),
    Column("total", BigInteger, nullable=False),
    Column("unreadable", BigInteger, nullable=False),
    Column("digest", Text, nullable=False),
    Column("wish", Text, nullable=False),
    Column("reason", Text),
    Column("created_by", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("started_at", BigInteger),
    Column("listed_at", BigInteger),
    _one_of("wish", "plan", "run", "hold", "cancel"),
)
Index("backfills_by_source", backfills.c.source_id, backfills.c.id)

history = Table(
    "history",
    metadata,
    _id(),
    Column("at", BigInteger, nullable=False),
    Column("actor", Text, nullable=False),
    Column("event", Text, nullable=False),
    Column("source_id", BigInteger),
    Column("item_id", BigInteger),
    Column("job_id", BigInteger),
    Column("sync_id", BigInteger),
    Column("attempt", Integer),
    Column("reason", Text),
    Column("hash", LargeBinary, nullable=False),
)
Index("history_by_item", history.c.item_id)

moves = Table(
    "moves",
    metadata,
    Column("history_id", _Number, primary_key=True, autoincrement=False),
    Column("item_id", BigInteger, nullable=False),
    Column("locator", Text, nullable=False),
)
Index("moves_by_item", moves.c.item_id)

chain = Table(
    "chain",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("length", BigInteger, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    CheckConstraint("id = 1", name="only_one"),
)

quarantine = Table(
    "quarantine",
    metadata,
    Column("job_id", ForeignKey("jobs.id"), primary_key=True),
    Column("reason", Text, nullable=False),
    Column("failure_class", Text, nullable=False),
    Column("error", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("traceback", Text, nullable=False),
    Column("retry_helps", Boolean(create_constraint=False), nullable=False),
    Column("cluster", Text, nullable=False),
    Column("first_failed_at", BigInteger, nullable=False),
    Column("last_failed_at", BigInteger, nullable=False),
    Column("notes", Text),
    Column("run", Text),
    Column("resolved_at", BigInteger),
    Column("resolution", Text),
    Column("circumstances", Text),
)
_partial("quarantine_open", quarantine.c.cluster, where="resolved_at IS NULL")

contents = Table(
    "contents",
    metadata,
    _id(),
    Column("hash", Text, nullable=False),
    Column("normalizer", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("media_type", Text, nullable=False),
    Column("title", Text),
    Column("language", Text),
    Column("author", Text),
    Column("created", BigInteger),
    Column("modified", BigInteger),
    Column("properties", Text),
    Column("warnings", Text),
    UniqueConstraint("hash", "normalizer", name="contents_by_hash"),
)
Index("contents_by_type", contents.c.media_type, contents.c.language)

page_texts = Table(
    "page_texts",
    metadata,
    Column("content_hash", Text, primary_key=True),
    Column("page", _Number, primary_key=True, autoincrement=False),
    Column("waits", Boolean(create_constraint=False), nullable=False),
    Column("picture", Text),
    Column("recognizer", Text),
    Column("text", Text),
    Column("confidence", Float),
    Column("turn", Integer),
    Column("words", Text),
    Column("problem", Text),
    Column("lacks", Text),
    sqlite_with_rowid=False,
)
_partial("page_texts_waiting", page_texts.c.page, page_texts.c.content_hash, where="waits")
_partial("page_texts_by_picture", page_texts.c.picture, where="picture IS NOT NULL")

chunks = Table(
    "chunks",
    metadata,
    _id(),
    Column("content_id", ForeignKey("contents.id"), nullable=False),
    Column("start", Integer, nullable=False),
    Column("stop", Integer, nullable=False),
    Column("heading", Text, nullable=False),
)
Index("chunks_by_content", chunks.c.content_id)

spaces = Table(
    "spaces",
    metadata,
    _id(),
    Column("name", Text, nullable=False, unique=True),
    Column("setting", Text, nullable=False),
    Column("dimensions", Integer, nullable=False),
)

search_model = Table(
    "search_model",
    metadata,
    _id(),
    Column("setting", Text, nullable=False),
    Column("space_id", ForeignKey("spaces.id")),
    Column("recognition", Text, nullable=False, server_default="auto"),
)

embeddings = Table(
    "embeddings",
    metadata,
    _id(),
    Column("space_id", ForeignKey("spaces.id"), nullable=False),
    Column("content_id", ForeignKey("contents.id"), nullable=False),
    Column("chunk_id", ForeignKey("chunks.id"), nullable=False),
    Column("part", Integer, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("vector", LargeBinary),
    Column("refusal", Text),
    Column("checksum", LargeBinary),
    UniqueConstraint("chunk_id", "space_id", "part", name="embeddings_by_chunk"),
)
Index("embeddings_by_content", embeddings.c.content_id)
Index("embeddings_by_digest", embeddings.c.space_id, embeddings.c.digest)
_partial("embeddings_refused", embeddings.c.space_id, where="refusal IS NOT NULL")

links = Table(
    "links",
    metadata,
    Column("content_id", ForeignKey("contents.id"), primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("anchor", Text, nullable=False),
    Column("label", Text, nullable=False),
    Column("start", Integer, nullable=False),
    Column("stop", Integer, nullable=False),
    Column("name", Text, nullable=False),
    sqlite_with_rowid=False,
)
Index("links_by_name", links.c.name)

entities = Table(
    "entities",
    metadata,
    Column("content_id", ForeignKey("contents.id"), primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("value", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Column("start", Integer, nullable=False),
    Column("stop", Integer, nullable=False),
    Column("confidence", Float, nullable=False),
    sqlite_with_rowid=False,
)

mails = Table(
    "mails",
    metadata,
    Column("content_id", ForeignKey("contents.id"), primary_key=True, autoincrement=False),
    Column("name", BigInteger, nullable=False),
    Column("base", BigInteger),
    Column("sent", BigInteger),
    Column("thread", BigInteger, nullable=False),
    Column("orphan", Boolean(create_constraint=False), nullable=False),
)
ORPHAN = "mails.orphan"
Index("mails_by_thread", mails.c.thread)
Index("mails_by_base", mails.c.base, mails.c.sent)
_partial("mails_orphaned", mails.c.base, where="orphan")

mail_names = Table(
    "mail_names",
    metadata,
    Column("name", BigInteger, primary_key=True, autoincrement=False),
    Column("content_id", ForeignKey("contents.id"), primary_key=True),
    sqlite_with_rowid=False,
)
Index("mail_names_by_content", mail_names.c.content_id)

documents = Table(
    "documents",
    metadata,
    _id(),
    Column("item_id", ForeignKey("items.id"), nullable=False, unique=True),
    Column("source_id", ForeignKey("sources.id"), nullable=False),
    Column("content_id", ForeignKey("contents.id"), nullable=False),
    Column("title", Text, nullable=False),
    Column("aliases", Text, nullable=False),
    Column("properties", Text, nullable=False),
    Column("path", Text, nullable=False),
    Column("modified", BigInteger),
    Column("metadata", Text),
    Column("removed_at", BigInteger),
    Column("moment", BigInteger),
)
Index("documents_by_content", documents.c.content_id)
_partial("documents_live", documents.c.source_id, documents.c.content_id, where="removed_at IS NULL")
_partial("documents_latest", documents.c.moment, documents.c.content_id, where="removed_at IS NULL")

MOMENT = (
    "CASE WHEN contents.media_type = 'message/rfc822' THEN coalesce(contents.created, documents.modified)"
    " ELSE coalesce(documents.modified, contents.modified, contents.created) END"
)
"""The value of `documents.moment`: when a message was sent or else arrived, or when another document was last modified."""


def _names_of_documents(table: str, column: str) -> Table:
    """Return a table with a row for each name that live documents have, latest first when read backwards.

    `moment`: that of the document, or 0.
    """
    made = Table(
        table,
        metadata,
        Column(column, Text, primary_key=True),
        Column("moment", BigInteger, primary_key=True, autoincrement=False),
        Column("content_id", BigInteger, primary_key=True, autoincrement=False),
        Column("document_id", ForeignKey("documents.id"), primary_key=True),
        sqlite_with_rowid=False,
    )
    Index(f"{table}_by_document", made.c.document_id, made.c[column])
    return made


doc_tags = _names_of_documents("doc_tags", "tag")
doc_folders = _names_of_documents("doc_folders", "folder")

title_embeddings = Table(
    "title_embeddings",
    metadata,
    _id(),
    Column("space_id", ForeignKey("spaces.id"), nullable=False),
    Column("document_id", ForeignKey("documents.id"), nullable=False),
    Column("content_id", BigInteger, nullable=False),
    Column("vector", LargeBinary),
    Column("checksum", LargeBinary, nullable=False),
    UniqueConstraint("document_id", "space_id", name="title_embeddings_by_document"),
)

BEING_DELETED = 0
"""Value of `before_images.kept_at` while the undo data of a sync is being deleted."""

before_images = Table(
    "formers",
    metadata,
    Column("source_id", ForeignKey("sources.id"), primary_key=True),
    Column("path", Text, primary_key=True, info=_LONG),
    Column("sync_id", BigInteger, primary_key=True),
    Column("content_id", ForeignKey("contents.id")),
    Column("title", Text),
    Column("aliases", Text),
    Column("properties", Text),
    Column("modified", BigInteger),
    Column("metadata", Text),
    Column("kept_at", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
_partial("formers_by_content", before_images.c.content_id, where="content_id IS NOT NULL")

holds = Table(
    "holds",
    metadata,
    _id(),
    Column("source_id", ForeignKey("sources.id"), nullable=False),
    Column("sync_id", BigInteger, nullable=False),
    Column("number", Integer, nullable=False),
    Column("reason", Text, nullable=False),
    Column("held_at", BigInteger, nullable=False),
    Column("resolved_at", BigInteger),
    Column("resolution", Text),
)
_partial("holds_open", holds.c.source_id, where="resolved_at IS NULL", unique=True)

BUCKETS = tuple(f"b{number}" for number in range(14))
"""The columns of `measures` with the number of values in each bucket of a histogram."""
FIGURES = ("n", "total", *BUCKETS)

measures = Table(
    "measures",
    metadata,
    Column("metric", Text, primary_key=True),
    Column("labels", Text, primary_key=True),
    Column("source_id", BigInteger, primary_key=True, autoincrement=False),
    Column("at", BigInteger, primary_key=True, autoincrement=False),
    Column("level", Integer, primary_key=True, autoincrement=False),
    Column("n", BigInteger, nullable=False),
    Column("total", Float, nullable=False),
    *(Column(name, BigInteger, nullable=False) for name in BUCKETS),
    sqlite_with_rowid=False,
)

incidents = Table(
    "incidents",
    metadata,
    _id(),
    Column("reason", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("opened_at", BigInteger, nullable=False),
    Column("closed_at", BigInteger),
    Column("acknowledged_at", BigInteger),
    Column("acknowledged_by", Text),
    Column("note", Text),
    Column("message", Text, nullable=False),
    Column("remedy", Text, nullable=False),
    Column("timeline", Text),
)
_partial("incidents_open", incidents.c.reason, incidents.c.subject, where="closed_at IS NULL", unique=True)

sinks = Table(
    "sinks",
    metadata,
    _id(),
    Column("name", Text, nullable=False, unique=True),
    Column("kind", Text, nullable=False),
    Column("place", Text, nullable=False),
    Column("secret", Text),
    Column("wants_vectors", Boolean(create_constraint=False), nullable=False),
    Column("state", Text, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("compared", BigInteger),
    Column("failures", Integer, nullable=False),
    Column("not_before", BigInteger, nullable=False),
    Column("error", Text),
    Column("current_at", BigInteger),
    Column("stamp", Text),
    _one_of("state", "active", "paused", "emptying"),
)

outbox = Table(
    "outbox",
    metadata,
    Column("document_id", _Number, primary_key=True, autoincrement=False),
    Column("position", BigInteger, nullable=False, unique=True),
)

refused_documents = Table(
    "refused_documents",
    metadata,
    Column("sink_id", ForeignKey("sinks.id"), primary_key=True, autoincrement=False),
    Column("document_id", BigInteger, primary_key=True, autoincrement=False),
    Column("reason", Text, nullable=False),
    sqlite_with_rowid=False,
)

hosts = Table(
    "hosts",
    metadata,
    _id(),
    Column("name", Text, nullable=False, unique=True),
    Column("boot", Text, nullable=False),
    Column("beat_until", BigInteger, nullable=False),
    Column("version", Text, nullable=False),
    Column("takes_any", Boolean(create_constraint=False), nullable=False),
    Column("joined_at", BigInteger, nullable=False),
)

host_purges = Table(
    "host_purges",
    metadata,
    Column("host_id", ForeignKey("hosts.id"), primary_key=True),
    Column("source_id", ForeignKey("sources.id"), primary_key=True),
    Column("asked_at", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
