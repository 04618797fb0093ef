"""The full-text index: FTS5 on SQLite, tsvector on PostgreSQL. Defines it and adds to it; `query_sql` searches it.

Chunks are indexed once per content. Names (title, aliases, path and property texts) are indexed once per live document. Texts
in scripts without spaces are also in the `word_parts` index. All texts are folded.

The tags and folders of live documents are in tables of their own, with all that they are below: a/b/c is in a and in a/b.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, delete, func, select, text

from catchment.ledger.db.database import AnyRow, Reading, Writing, among
from catchment.ledger.db.folding import fold, plain_words, postgres_function
from catchment.ledger.db.job_states import in_parts
from catchment.ledger.db.schema import (
    chunks,
    contents,
    doc_folders,
    doc_tags,
    documents,
    entities,
    items,
)
from catchment.ledger.library import embeddings, word_parts
from catchment.model import EntityKind

_TOKENS = "tokenize = 'ascii'"

_VIEWS = (
    """CREATE VIEW chunk_text AS SELECT chunks.id, fold(chunks.heading) AS heading,
    fold(substr(contents.text, chunks.start + 1, chunks.stop - chunks.start)) AS text
    FROM chunks JOIN contents ON contents.id = chunks.content_id""",
    """CREATE VIEW document_names AS SELECT id, fold(title) AS title, fold(aliases) AS aliases, fold(path) AS path,
    fold(properties) AS properties FROM documents WHERE removed_at IS NULL""",
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
_CHUNK_WEIGHTS, _NAME_WEIGHTS = "AC", "ABDD"
"""Weights of the columns on PostgreSQL."""
_LONGEST_WORD = 500
"""Significant characters of a word, a tag or a folder on PostgreSQL, which cannot index long ones."""
_TEXTS_AT_ONCE = 50


def create(connection: Connection) -> None:
    """Create the index, empty."""
    for statement in _SQLITE if connection.dialect.name == "sqlite" else (postgres_function(), *_POSTGRES):
        connection.exec_driver_sql(statement)


def add_chunks(writing: Writing, rows: Sequence[tuple[int, str, str]]) -> None:
    """Index new chunks (ID, heading, text)."""
    if not rows:
        return
    if writing.sqlite:
        writing.connection.exec_driver_sql(
            "INSERT INTO chunk_index (rowid, heading, text) VALUES (?, ?, ?)", _folded(rows)
        )
    else:
        _add_to_postgres(writing, "chunk_index", rows, _CHUNK_WEIGHTS)
    word_parts.add(writing, word_parts.CHUNKS, ((number, body) for number, _, body in rows))


def forget_chunks(writing: Writing, content_ids: Collection[int]) -> None:
    """Remove the chunks of contents from the index, before they are deleted."""
    old = list(passages(writing, content_ids))
    if not old:
        return
    if writing.sqlite:
        writing.connection.exec_driver_sql(
            "INSERT INTO chunk_index (chunk_index, rowid, heading, text) VALUES ('delete', ?, ?, ?)", _folded(old)
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
    """Index the names, tags and folders of live documents that are not indexed yet."""
    add_names(writing, _names(writing, which))


def add_names(writing: Writing, rows: Sequence[tuple[Any, ...]]) -> None:
    """Index live documents that are not indexed yet, by their `NAMES`, tags and folders. They have their time already."""
    if not rows:
        return
    writing.ids("title_embeddings")  # Tells that names are to be embedded.
    if writing.sqlite:
        writing.connection.exec_driver_sql(
            "INSERT INTO document_index (rowid, title, aliases, path, properties) VALUES (?, ?, ?, ?, ?)",
            _folded(rows),
        )
    else:
        _add_to_postgres(writing, "document_index", rows, _NAME_WEIGHTS)
    word_parts.add(writing, word_parts.DOCUMENTS, map(_as_one, rows))
    for part in in_parts([row[0] for row in rows]):
        for table, its_rows in tags_and_folders(writing, among(writing, documents.c.id, part)).items():
            writing.insert(table, sorted(its_rows))


def forget_names(writing: Writing, which: ColumnElement[bool]) -> None:
    """Remove live documents from the index by their names, tags and folders, before they change or are withdrawn.

    Their names lose their embeddings too.
    """
    embeddings.forget_titles(writing, which)
    rows = _names(writing, which)
    if not rows:
        return
    if writing.sqlite:
        writing.connection.exec_driver_sql(
            "INSERT INTO document_index (document_index, rowid, title, aliases, path, properties)"
            " VALUES ('delete', ?, ?, ?, ?, ?)",
            _folded(rows),
        )
    else:
        writing.execute(text("DELETE FROM document_index WHERE id = :id"), [{"id": row[0]} for row in rows])
    word_parts.forget(writing, word_parts.DOCUMENTS, list(map(_as_one, rows)))
    for table in (doc_tags, doc_folders):
        writing.execute(delete(table).where(among(writing, table.c.document_id, [row[0] for row in rows])))


def tags_and_folders(reading: Reading, which: ColumnElement[bool]) -> dict[Table, set[tuple[Any, ...]]]:
    """Return the rows of `doc_tags` and `doc_folders` for live documents."""
    columns = func.coalesce(documents.c.moment, 0), documents.c.content_id, documents.c.id
    its_tags = (
        select(entities.c.value, *columns)
        .join(documents, documents.c.content_id == entities.c.content_id)
        .where(entities.c.kind == EntityKind.TAG.value)
    )
    its_folders = select(items.c.container, *columns).join(documents, documents.c.item_id == items.c.id)
    return {
        table: {
            (name, *document)
            for value, *document in reading.execute(statement.where(which, documents.c.removed_at.is_(None)))
            for name in accumulate(folded_path(value).split("/"), "{}/{}".format)
            if name
        }
        for table, statement in ((doc_tags, its_tags), (doc_folders, its_folders))
    }


def folded_path(value: str) -> str:
    """Return a tag or a folder as it is indexed."""
    return fold(value).strip("/ ")[:_LONGEST_WORD]


def as_tsquery(words: str, *, is_prefix: bool) -> str:
    """Return folded words as a literal of PostgreSQL for a phrase."""
    return " <-> ".join(f"'{word[:_LONGEST_WORD]}'" for word in words.split()) + (":*" if is_prefix else "")


def _add_to_postgres(writing: Writing, index: str, rows: Sequence[tuple[Any, ...]], weights: str) -> None:
    # As a literal, because a parser would split words at other places than `plain_words`, and drop symbols.
    statement = text(f"INSERT INTO {index} VALUES (:id, CAST(:words AS tsvector))")
    writing.execute(statement, [{"id": row[0], "words": _as_tsvector(row[1:], weights)} for row in rows])


def _as_tsvector(texts: Sequence[str], weights: str) -> str:
    words = [
        (word, weight) for value, weight in zip(texts, weights, strict=True) for word in plain_words(value).split()
    ]
    return " ".join(f"'{word[:_LONGEST_WORD]}':{place}{weight}" for place, (word, weight) in enumerate(words, 1))


def _folded(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return rows of an ID and texts with the texts folded."""
    return [(row[0], *map(fold, row[1:])) for row in rows]


def _as_one(row: tuple[Any, ...]) -> tuple[int, str]:
    """Return the ID and all names of a document as one text, in the order of `ALL_NAMES`."""
    number, *names = row
    return number, " ".join(names)


def _names(reading: Reading, which: ColumnElement[bool]) -> list[tuple[Any, ...]]:
    columns = [documents.c[name] for name in NAMES]
    return [
        tuple(row) for row in reading.execute(select(*columns).where(which, documents.c.removed_at.is_(None))).all()
    ]
