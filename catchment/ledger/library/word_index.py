"""The full-text index: FTS5 on SQLite, tsvector on PostgreSQL. Defines it and adds to it; `query_sql` searches it.

Chunks are indexed once per content. Names (title, aliases, path and property texts) are indexed once per live document. Texts
in scripts without spaces are also in the `word_parts` index. All texts are folded.

The tags and folders of live documents are in separate tables, with their parents: a/b/c is in a and in a/b.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from itertools import accumulate
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, case, delete, func, select

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
from catchment.model import PARTS, EntityKind

INDEXES = ("chunk_index", "document_index", word_parts.CHUNKS, word_parts.DOCUMENTS)
TEXTS, WORDS = "", " "
"""Terms in `index_words` that stand for all indexed texts, and for all words in them."""

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
    'CREATE TABLE index_words (name TEXT, term TEXT COLLATE "C", doc BIGINT NOT NULL, PRIMARY KEY (name, term))',
    f"""CREATE FUNCTION count_words() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO index_words AS known
        SELECT TG_TABLE_NAME, term, CASE TG_OP WHEN 'INSERT' THEN sum(number) ELSE -sum(number) END
        FROM (SELECT '{TEXTS}' AS term, 1 AS number FROM changed
            UNION ALL SELECT '{WORDS}', length FROM changed
            UNION ALL SELECT unnest(tsvector_to_array(words)), 1 FROM changed) AS counted
        GROUP BY term ORDER BY term COLLATE "C"
        ON CONFLICT (name, term) DO UPDATE SET doc = known.doc + excluded.doc;
        IF TG_OP = 'DELETE' THEN
            DELETE FROM index_words WHERE name = TG_TABLE_NAME AND doc = 0
            AND term IN (SELECT unnest(tsvector_to_array(words)) FROM changed);
        END IF;
        RETURN NULL;
    END $$""",
    *(
        statement
        for index in INDEXES
        for statement in (
            f"CREATE TABLE {index} (id BIGINT PRIMARY KEY, words TSVECTOR NOT NULL, length INTEGER NOT NULL)",
            f"CREATE INDEX {index}_words ON {index} USING gin (words)",
            f"""CREATE TRIGGER {index}_added AFTER INSERT ON {index}
            REFERENCING NEW TABLE AS changed EXECUTE FUNCTION count_words()""",
            f"""CREATE TRIGGER {index}_removed AFTER DELETE ON {index}
            REFERENCING OLD TABLE AS changed EXECUTE FUNCTION count_words()""",
        )
    ),
)

NAMES = ("id", "title", "aliases", "path", "properties")
"""The document columns that are indexed as names."""
ALL_NAMES = "title || ' ' || aliases || ' ' || path || ' ' || properties"
_LABELS = "ABCD"
"""Labels of the indexed columns on PostgreSQL."""
PATH_LABEL = _LABELS[NAMES.index("path") - 1]
_LONGEST_WORD = 500
"""Significant characters of a word, a tag or a folder on PostgreSQL, which cannot index long ones."""
_TEXTS_AT_ONCE = 50


_INTO = {"chunk_index": ("heading, text", "?, ?"), "document_index": (", ".join(NAMES[1:]), "?, ?, ?, ?")}
"""The columns of the indexes on SQLite, and as many parameters."""


def create(connection: Connection) -> None:
    """Create the index, empty."""
    for statement in _SQLITE if connection.dialect.name == "sqlite" else (postgres_function(), *_POSTGRES):
        connection.exec_driver_sql(statement)


def add_chunks(writing: Writing, rows: Sequence[tuple[int, str, str]]) -> None:
    """Index new chunks (ID, heading, text)."""
    if not rows:
        return
    _add(writing, "chunk_index", rows)
    word_parts.add(writing, word_parts.CHUNKS, ((number, body) for number, _, body in rows))


def forget_chunks(writing: Writing, content_ids: Collection[int]) -> None:
    """Remove the chunks of contents from the index, before they are deleted."""
    old = list(passages(writing, content_ids))
    if not old:
        return
    _remove(writing, "chunk_index", old)
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
    add_names(writing, names(writing, which))


def add_names(writing: Writing, rows: Sequence[tuple[Any, ...]]) -> None:
    """Index live documents that are not indexed yet, by their `NAMES`, tags and folders. They have their time already."""
    if not rows:
        return
    writing.ids("title_embeddings")  # The counter shows that names need embeddings.
    _add(writing, "document_index", rows)
    word_parts.add(writing, word_parts.DOCUMENTS, map(_as_one, rows))
    added = among(writing, documents.c.id, [row[0] for row in rows])
    for table, its_rows in tags_and_folders(writing, added).items():
        writing.insert(table, sorted(its_rows))


def forget_names(writing: Writing, which: ColumnElement[bool]) -> None:
    """Remove live documents from the index by their names, tags and folders, before they change or are withdrawn.

    Their names lose their embeddings too.
    """
    embeddings.forget_titles(writing, which)
    rows = names(writing, which)
    if not rows:
        return
    _remove(writing, "document_index", rows)
    word_parts.forget(writing, word_parts.DOCUMENTS, list(map(_as_one, rows)))
    for table in (doc_tags, doc_folders):
        writing.execute(delete(table).where(among(writing, table.c.document_id, [row[0] for row in rows])))


def _add(writing: Writing, index: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Add rows of an ID and texts to an index."""
    if writing.sqlite:
        columns, marks = _INTO[index]
        statement = f"INSERT INTO {index} (rowid, {columns}) VALUES (?, {marks})"
        writing.connection.exec_driver_sql(statement, _folded(rows))
    else:
        writing.copy(index, [(row[0], *_as_tsvector(row[1:])) for row in rows])


def _remove(writing: Writing, index: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Remove rows of an ID and texts from an index. They must be equal to the indexed ones."""
    if writing.sqlite:
        columns, marks = _INTO[index]
        statement = f"INSERT INTO {index} ({index}, rowid, {columns}) VALUES ('delete', ?, {marks})"
        writing.connection.exec_driver_sql(statement, _folded(rows))
    else:
        word_parts.remove_vectors(writing, index, [row[0] for row in rows])


def tags_and_folders(reading: Reading, which: ColumnElement[bool]) -> dict[Table, set[tuple[Any, ...]]]:
    """Return the rows of `doc_tags` and `doc_folders` for live documents."""
    columns = func.coalesce(documents.c.moment, 0), documents.c.content_id, documents.c.id
    its_tags = (
        select(entities.c.value + "/", *columns)
        .join(documents, documents.c.content_id == entities.c.content_id)
        .where(entities.c.kind == EntityKind.TAG.value)
    )
    folded = cache(folded_path)
    # The container of a file inside of others is the outermost one.
    path = case((items.c.container.endswith(PARTS), items.c.locator), else_=items.c.container + "/")
    its_folders = select(path, *columns).join(documents, documents.c.item_id == items.c.id)
    return {
        table: {
            (name, *document)
            for value, *document in reading.execute(statement.where(which, documents.c.removed_at.is_(None)))
            for name in accumulate(folded(value.rpartition("/")[0]).split("/"), "{}/{}".format)
            if name
        }
        for table, statement in ((doc_tags, its_tags), (doc_folders, its_folders))
    }


def folded_path(value: str) -> str:
    """Return the indexed form of a tag or a folder."""
    return fold(value).strip("/ ")[:_LONGEST_WORD]


def as_tsquery(words: str, *, is_prefix: bool, label: str = "") -> str:
    """Return folded words as a literal of PostgreSQL for a phrase, in any column or the one with this label."""
    end = f":{'*' if is_prefix else ''}{label}".rstrip(":")
    *before, last = (f"'{word[:_LONGEST_WORD]}'" for word in words.split())
    return " <-> ".join([*(f"{word}:{label}".rstrip(":") for word in before), last + end])


def differs(reading: Reading, index: str, rows: Sequence[tuple[Any, ...]]) -> bool:
    """Return whether an index on PostgreSQL has other words than these rows of an ID and texts."""
    expected = f"unnest(%s::bigint[], %s::text[]) AS wanted (id, words) LEFT JOIN {index} USING (id)"
    differing = f"SELECT 1 FROM {expected} WHERE {index}.words IS DISTINCT FROM CAST(wanted.words AS tsvector) LIMIT 1"
    values = [number for number, *_ in rows], [_as_tsvector(texts)[0] for _, *texts in rows]
    return reading.connection.exec_driver_sql(differing, values).first() is not None


def _as_tsvector(texts: Sequence[str]) -> tuple[str, int]:
    """Return a literal with the words of the texts, and their number.

    A parser of PostgreSQL would split words at other places than `plain_words`, and drop symbols.
    """
    words = [(word, label) for value, label in zip(texts, _LABELS, strict=False) for word in plain_words(value).split()]
    vector = " ".join(f"'{word[:_LONGEST_WORD]}':{place}{label}" for place, (word, label) in enumerate(words, 1))
    return vector, len(words)


def _folded(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return rows of an ID and texts with the texts folded."""
    # Headings and properties repeat; the last text of a row, a passage or a path, does not.
    fold_once = cache(fold)
    return [(row[0], *map(fold_once, row[1:-1]), fold(row[-1])) for row in rows]


def _as_one(row: tuple[Any, ...]) -> tuple[int, str]:
    """Return the ID and all names of a document as one text, in the order of `ALL_NAMES`."""
    number, *texts = row
    return number, " ".join(texts)


def names(reading: Reading, which: ColumnElement[bool]) -> list[tuple[Any, ...]]:
    """Return the `NAMES` of live documents."""
    columns = [documents.c[name] for name in NAMES]
    return [
        tuple(row) for row in reading.execute(select(*columns).where(which, documents.c.removed_at.is_(None))).all()
    ]
