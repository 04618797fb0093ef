"""The index of words: FTS5 on SQLite, tsvector on PostgreSQL. All that differs between the two for searching is here.

Passages are indexed once for each content; names (title, aliases, path, and what the properties say) once for each live
document.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, select, text

from catchment.ledger.query import Query, plain_words
from catchment.ledger.schema import chunks, contents, documents
from catchment.ledger.store import Reading, Writing

_TOKENS = "tokenize = 'unicode61 remove_diacritics 2'"

_SQLITE = (
    """CREATE VIEW chunk_text AS
    SELECT chunks.id, chunks.heading, substr(contents.text, chunks.start + 1, chunks.stop - chunks.start) AS text
    FROM chunks JOIN contents ON contents.id = chunks.content_id""",
    "CREATE VIEW document_names AS SELECT id, title, aliases, path, properties FROM documents WHERE removed_at IS NULL",
    f"""CREATE VIRTUAL TABLE chunk_index
    USING fts5(heading, text, content = 'chunk_text', content_rowid = 'id',
    {_TOKENS})""",
    f"""CREATE VIRTUAL TABLE document_index
    USING fts5(title, aliases, path, properties, content = 'document_names', content_rowid = 'id',
    {_TOKENS})""",
)

_POSTGRES = (
    """CREATE VIEW chunk_text AS
    SELECT chunks.id, chunks.heading, substr(contents.text, chunks.start + 1, chunks.stop - chunks.start) AS text
    FROM chunks JOIN contents ON contents.id = chunks.content_id""",
    "CREATE VIEW document_names AS SELECT id, title, aliases, path, properties FROM documents WHERE removed_at IS NULL",
    "CREATE TABLE chunk_index (id BIGINT PRIMARY KEY, words TSVECTOR NOT NULL)",
    "CREATE INDEX chunk_index_words ON chunk_index USING gin (words)",
    "CREATE TABLE document_index (id BIGINT PRIMARY KEY, words TSVECTOR NOT NULL)",
    "CREATE INDEX document_index_words ON document_index USING gin (words)",
)


NAMES = ("id", "title", "aliases", "path", "properties")
"""The columns of a document that its names are indexed from."""

_WEIGHTS = {"title": "A", "aliases": "B", "path": "D", "properties": "D"}


def create(connection: Connection) -> None:
    """Make the index in an empty database."""
    for statement in _SQLITE if connection.dialect.name == "sqlite" else _POSTGRES:
        connection.exec_driver_sql(statement)


def add_chunks(writing: Writing, rows: Sequence[tuple[int, str, str]]) -> None:
    """Index new passages: (chunk id, heading, text)."""
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


def forget_chunks(writing: Writing, content_ids: Collection[int]) -> None:
    """Take the passages of contents out of the index, while they still are in their table."""
    mine = select(chunks.c.id).where(chunks.c.content_id.in_(content_ids))
    if not writing.sqlite:
        numbers = [{"id": n} for n in writing.execute(mine).scalars()]
        if numbers:
            writing.execute(text("DELETE FROM chunk_index WHERE id = :id"), numbers)
        return
    rows = writing.execute(
        select(chunks.c.id, chunks.c.heading, chunks.c.start, chunks.c.stop, contents.c.text)
        .join(contents, contents.c.id == chunks.c.content_id)
        .where(chunks.c.content_id.in_(content_ids))
    )
    old = [(number, heading, whole[start:stop]) for number, heading, start, stop, whole in rows]
    if old:
        writing.connection.exec_driver_sql(
            "INSERT INTO chunk_index (chunk_index, rowid, heading, text) VALUES ('delete', ?, ?, ?)", old
        )


def learn_names(writing: Writing, which: ColumnElement[bool]) -> None:
    """Index the names of documents that are live and not indexed."""
    add_names(writing, _names(writing, which))


def add_names(writing: Writing, rows: Sequence[tuple[Any, ...]]) -> None:
    """Index the `NAMES` of live documents that are not indexed."""
    if not rows:
        return
    if writing.sqlite:
        writing.connection.exec_driver_sql(
            "INSERT INTO document_index (rowid, title, aliases, path, properties) VALUES (?, ?, ?, ?, ?)", rows
        )
    else:
        words = [f"setweight(to_tsvector('simple', :{name}), '{weight}')" for name, weight in _WEIGHTS.items()]
        writing.execute(
            text(f"INSERT INTO document_index VALUES (:id, {' || '.join(words)})"),
            [dict(zip(NAMES, (row[0], *map(plain_words, row[1:])), strict=True)) for row in rows],
        )


def forget_names(writing: Writing, which: ColumnElement[bool]) -> None:
    """Take the names of live documents out of the index, before they change or leave."""
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


def _names(reading: Reading, which: ColumnElement[bool]) -> list[tuple[Any, ...]]:
    columns = [documents.c[name] for name in NAMES]
    return [
        tuple(row) for row in reading.execute(select(*columns).where(which, documents.c.removed_at.is_(None))).all()
    ]


@dataclass(frozen=True, slots=True)
class Found:
    """A content that matches, with its best passage (None when only a name matched)."""

    content_id: int
    chunk_id: int | None
    score: float


def find(reading: Reading, query: Query, source_id: int | None, limit: int) -> list[Found]:
    """The contents that have every wanted term somewhere (in a passage or a name) and no unwanted one, best first."""
    parameters: dict[str, Any] = {"limit": limit, "source": source_id}
    ask = _ask_sqlite if reading.sqlite else _ask_postgres
    wanted = [
        ask(f"w{n}", term.matcher(reading.sqlite), term.substring, parameters) for n, term in enumerate(query.wanted)
    ]
    unwanted = [
        ask(f"u{n}", term.matcher(reading.sqlite), term.substring, parameters) for n, term in enumerate(query.unwanted)
    ]
    conditions = [_content_in(chunk, name) for chunk, name in wanted] if len(wanted) > 1 else []
    conditions += [f"NOT {_content_in(chunk, name)}" for chunk, name in unwanted]
    narrowed = " AND ".join(["TRUE", *conditions])
    statement = f"""
    WITH passage AS MATERIALIZED ({" UNION ALL ".join(chunk for chunk, _ in wanted)}),
    named AS MATERIALIZED ({" UNION ALL ".join(name for _, name in wanted)}),
    scored AS (
        SELECT chunks.content_id AS content_id, passage.id AS chunk_id, sum(passage.score) AS score
        FROM passage JOIN chunks ON chunks.id = passage.id GROUP BY chunks.content_id, passage.id
    ),
    best AS (
        SELECT content_id, chunk_id, score,
               row_number() OVER (PARTITION BY content_id ORDER BY score DESC, chunk_id) AS place
        FROM scored
    ),
    called AS (
        SELECT documents.content_id AS content_id, sum(named.score) AS score
        FROM named JOIN documents ON documents.id = named.id GROUP BY documents.content_id
    ),
    candidate AS (
        SELECT content_id, max(chunk_id) AS chunk_id, sum(score) AS score FROM (
            SELECT content_id, chunk_id, score FROM best WHERE place = 1
            UNION ALL SELECT content_id, NULL, 2 * score FROM called
        ) AS both_kinds GROUP BY content_id
    )
    SELECT content_id, chunk_id, score FROM candidate
    WHERE {narrowed} AND EXISTS (
        SELECT 1 FROM documents WHERE documents.content_id = candidate.content_id AND documents.removed_at IS NULL
        {"" if source_id is None else "AND documents.source_id = :source"}
    )
    ORDER BY score DESC, content_id LIMIT :limit"""
    return [Found(row.content_id, row.chunk_id, row.score) for row in reading.execute(text(statement), parameters)]


def _content_in(chunk: str, name: str) -> str:
    return f"""(content_id IN (SELECT content_id FROM chunks WHERE id IN (SELECT id FROM ({chunk}) AS a))
        OR content_id IN (SELECT content_id FROM documents WHERE id IN (SELECT id FROM ({name}) AS b)))"""


def _ask_sqlite(key: str, matcher: str, substring: str | None, parameters: dict[str, Any]) -> tuple[str, str]:
    if substring is not None:
        return _ask_substring(key, substring, parameters)
    parameters[key] = matcher
    return (
        f"SELECT rowid AS id, -bm25(chunk_index, 3.0, 1.0) AS score FROM chunk_index WHERE chunk_index MATCH :{key}",
        "SELECT rowid AS id, -bm25(document_index, 10.0, 8.0, 2.0, 1.0) AS score"
        f" FROM document_index WHERE document_index MATCH :{key}",
    )


def _ask_postgres(key: str, matcher: str, substring: str | None, parameters: dict[str, Any]) -> tuple[str, str]:
    if substring is not None:
        return _ask_substring(key, substring, parameters)
    parameters[key] = matcher
    weights = "array[0.1, 0.2, 0.5, 1.0]::float4[]"
    asked = f"to_tsquery('simple', :{key})"
    ranked = f"SELECT id, ts_rank_cd({weights}, words, {asked}) AS score FROM {{}} WHERE words @@ {asked}"
    return ranked.format("chunk_index"), ranked.format("document_index")


def _ask_substring(key: str, substring: str, parameters: dict[str, Any]) -> tuple[str, str]:
    """Scripts that write no spaces have no words to index: their texts are read through."""
    pattern = "%" + substring.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
    parameters |= {key: pattern, f"{key}d": unicodedata.normalize("NFD", pattern)}
    has = f"{{0}} LIKE :{key} ESCAPE '\\' OR {{0}} LIKE :{key}d ESCAPE '\\'"
    names = "title || ' ' || aliases || ' ' || path || ' ' || properties"
    return (
        f"SELECT id, 1.0 AS score FROM chunk_text WHERE {has.format('text')}",
        f"SELECT id, 1.0 AS score FROM document_names WHERE {has.format(f'({names})')}",
    )


def check(reading: Reading) -> list[str]:
    """What is in the index and not in the tables, or the other way round."""
    findings = []
    for index, kept, what in (
        ("chunk_index", "SELECT id FROM chunks", "Passage"),
        ("document_index", "SELECT id FROM documents WHERE removed_at IS NULL", "The name of document"),
    ):
        indexed = f"SELECT id FROM {index}{'_docsize' if reading.sqlite else ''}"
        for difference, how in (
            (f"{kept} EXCEPT {indexed}", "is in the library and not in the index"),
            (f"{indexed} EXCEPT {kept}", "is in the index and not in the library"),
        ):
            number = reading.execute(text(f"SELECT min(id) FROM ({difference}) AS difference")).scalar()
            if number is not None:
                findings.append(f"{what} {number} {how}")
    return findings


def check_words(writing: Writing) -> None:
    """Let SQLite compare every indexed word with the texts; raises what the driver raises when they differ."""
    for index in ("chunk_index", "document_index"):
        writing.connection.exec_driver_sql(f"INSERT INTO {index} ({index}, rank) VALUES ('integrity-check', 1)")
