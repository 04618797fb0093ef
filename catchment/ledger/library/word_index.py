"""The full-text index: FTS5 on SQLite, tsvector on PostgreSQL. Defines it and adds to it; `query_sql` searches it.

Chunks are indexed once per content. Names (title, aliases, path and property texts) are indexed once per live document. Texts
in scripts without spaces are also in the `word_parts` index.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, select, text

from catchment.ledger.db.database import AnyRow, Reading, Writing, among
from catchment.ledger.db.job_states import in_parts
from catchment.ledger.db.schema import chunks, contents, documents, title_embeddings
from catchment.ledger.library import word_parts
from catchment.ledger.library.query import plain_words

_TOKENS = "tokenize = 'unicode61 remove_diacritics 2'"

_VIEWS = (
    """CREATE VIEW chunk_text AS
    SELECT chunks.id, chunks.heading, substr(contents.text, chunks.start + 1, chunks.stop - chunks.start) AS text
    FROM chunks JOIN contents ON contents.id = chunks.content_id""",
    "CREATE VIEW document_names AS SELECT id, title, aliases, path, properties FROM documents WHERE removed_at IS NULL",
)

_SQLITE = (
    *_VIEWS,
    f"""CREATE VIRTUAL TABLE chunk_index
    USING fts5(heading, text, content = 'chunk_text', content_rowid = 'id',
    {_TOKENS})""",
    f"""CREATE VIRTUAL TABLE document_index
    USING fts5(title, aliases, path, properties, content = 'document_names', content_rowid = 'id',
    {_TOKENS})""",
    *word_parts.SQLITE,
)

_POSTGRES = (
    *_VIEWS,
    "CREATE TABLE chunk_index (id BIGINT PRIMARY KEY, words TSVECTOR NOT NULL)",
    "CREATE INDEX chunk_index_words ON chunk_index USING gin (words)",
    "CREATE TABLE document_index (id BIGINT PRIMARY KEY, words TSVECTOR NOT NULL)",
    "CREATE INDEX document_index_words ON document_index USING gin (words)",
    *word_parts.POSTGRES,
)

INDEXES = ("chunk_index", "document_index", word_parts.CHUNKS, word_parts.DOCUMENTS)

NAMES = ("id", "title", "aliases", "path", "properties")
"""The document columns that are indexed as names."""
ALL_NAMES = "title || ' ' || aliases || ' ' || path || ' ' || properties"
_NAME_WEIGHTS = {"title": "A", "aliases": "B", "path": "D", "properties": "D"}
_TEXTS_AT_ONCE = 50


def create(connection: Connection) -> None:
    """Create the index in an empty database."""
    for statement in _SQLITE if connection.dialect.name == "sqlite" else _POSTGRES:
        connection.exec_driver_sql(statement)


def add_chunks(writing: Writing, rows: Sequence[tuple[int, str, str]]) -> None:
    """Index new chunks (ID, heading, text)."""
    if not rows:
        return
    if writing.sqlite:
        writing.connection.exec_driver_sql(
            "INSERT INTO chunk_index (rowid, heading, text) VALUES (?, ?, ?)", list(rows)
        )
    else:
        statement = text(
            "INSERT INTO chunk_index VALUES (:id, setweight(to_tsvector('simple', :heading), 'A')"
            " || setweight(to_tsvector('simple', :words), 'C'))"
        )
        writing.execute(
            statement,
            [{"id": n, "heading": plain_words(heading), "words": plain_words(body)} for n, heading, body in rows],
        )
    word_parts.add(writing, word_parts.CHUNKS, ((number, body) for number, _, body in rows))


def forget_chunks(writing: Writing, content_ids: Collection[int]) -> None:
    """Remove the chunks of contents from the index, before they are deleted."""
    old = list(passages(writing, content_ids))
    if not old:
        return
    if writing.sqlite:
        writing.connection.exec_driver_sql(
            "INSERT INTO chunk_index (chunk_index, rowid, heading, text) VALUES ('delete', ?, ?, ?)", old
        )
    else:
        writing.execute(text("DELETE FROM chunk_index WHERE id = :id"), [{"id": number} for number, *_ in old])
    word_parts.forget(writing, word_parts.CHUNKS, [(number, body) for number, _, body in old])


def passages(reading: Reading, content_ids: Collection[int]) -> Iterator[tuple[int, str, str]]:
    """Yield the chunks of contents as (ID, heading, text). Reads each text once, since a long one has thousands of chunks."""
    columns = chunks.c.content_id, chunks.c.id, chunks.c.heading, chunks.c.start, chunks.c.stop
    spans: defaultdict[int, list[AnyRow]] = defaultdict(list)
    for row in reading.execute(select(*columns).where(among(reading, chunks.c.content_id, content_ids))):
        spans[row.content_id].append(row)
    for part in in_parts(spans, _TEXTS_AT_ONCE):
        texts = select(contents.c.id, contents.c.text).where(contents.c.id.in_(part))
        for content_id, whole in reading.execute(texts):
            yield from ((row.id, row.heading, whole[row.start : row.stop]) for row in spans[content_id])


def learn_names(writing: Writing, which: ColumnElement[bool]) -> None:
    """Index the names of live documents that are not indexed yet."""
    add_names(writing, _names(writing, which))


def add_names(writing: Writing, rows: Sequence[tuple[Any, ...]]) -> None:
    """Index the `NAMES` of live documents that are not indexed yet."""
    if not rows:
        return
    if writing.sqlite:
        writing.connection.exec_driver_sql(
            "INSERT INTO document_index (rowid, title, aliases, path, properties) VALUES (?, ?, ?, ?, ?)", rows
        )
    else:
        words = [f"setweight(to_tsvector('simple', :{name}), '{weight}')" for name, weight in _NAME_WEIGHTS.items()]
        writing.execute(
            text(f"INSERT INTO document_index VALUES (:id, {' || '.join(words)})"),
            [dict(zip(NAMES, (row[0], *map(plain_words, row[1:])), strict=True)) for row in rows],
        )
    word_parts.add(writing, word_parts.DOCUMENTS, map(_as_one, rows))


def forget_names(writing: Writing, which: ColumnElement[bool]) -> None:
    """Remove the names of live documents from the index, and their embeddings, before they change or are withdrawn."""
    its_documents = select(documents.c.id).where(which)
    writing.execute(delete(title_embeddings).where(title_embeddings.c.document_id.in_(its_documents)))
    rows = _names(writing, which)
    if not rows:
        return
    if writing.sqlite:
        writing.connection.exec_driver_sql(
            "INSERT INTO document_index (document_index, rowid, title, aliases, path, properties)"
            " VALUES ('delete', ?, ?, ?, ?, ?)",
            rows,
        )
    else:
        writing.execute(text("DELETE FROM document_index WHERE id = :id"), [{"id": row[0]} for row in rows])
    word_parts.forget(writing, word_parts.DOCUMENTS, list(map(_as_one, rows)))


def _as_one(row: tuple[Any, ...]) -> tuple[int, str]:
    """Return the ID and all names of a document as one text, in the order of `ALL_NAMES`."""
    number, *names = row
    return number, " ".join(names)


def _names(reading: Reading, which: ColumnElement[bool]) -> list[tuple[Any, ...]]:
    columns = [documents.c[name] for name in NAMES]
    return [
        tuple(row) for row in reading.execute(select(*columns).where(which, documents.c.removed_at.is_(None))).all()
    ]
