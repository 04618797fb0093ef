"""The index of words: FTS5 on SQLite, tsvector on PostgreSQL. What differs between the two is here and in `pairs`.

Passages are indexed once for each content; names (title, aliases, path, and what the properties say) once for each live
document. Texts in scripts without spaces between words are in the index of `pairs` as well.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from sqlalchemy import ColumnElement, Connection, select, text

from catchment.ledger.db.database import AnyRow, Reading, Writing, among, json_list
from catchment.ledger.db.job_states import in_parts
from catchment.ledger.db.schema import chunks, contents, documents
from catchment.ledger.library import bigrams, filters
from catchment.ledger.library.query import AnyOf, Query, Term, plain_words
from catchment.model import ASIDE

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
    *bigrams.SQLITE,
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
    *bigrams.POSTGRES,
)


_INDEXES = ("chunk_index", "document_index", bigrams.CHUNKS, bigrams.DOCUMENTS)

NAMES = ("id", "title", "aliases", "path", "properties")
"""The columns of a document that its names are indexed from."""

_TEXTS_AT_ONCE = 50
_AT_ONCE = 100
"""Terms of a query in one statement: a database takes no more than some hundreds of questions."""

_ASIDE_WEIGHT = 0.5
"""What a passage counts in which a message only quotes, or is signed: who says it comes before those who quote it."""

_ALL_NAMES = "title || ' ' || aliases || ' ' || path || ' ' || properties"
_WEIGHTS = {"title": "A", "aliases": "B", "path": "D", "properties": "D"}


_EACH = """SELECT found.content_id, chunk_id, score, mails.thread, 1 AS alike
    FROM found LEFT JOIN mails ON mails.content_id = found.content_id"""
# A thread has the number of a content in it, so that no other content has the same.
_OF_THREAD = "OVER (PARTITION BY coalesce(mails.thread, found.content_id)"
_BY_THREAD = f"""SELECT content_id, chunk_id, score, thread, alike FROM (
        SELECT found.content_id, chunk_id, score, mails.thread AS thread, count(*) {_OF_THREAD}) AS alike,
               row_number() {_OF_THREAD} ORDER BY score DESC, found.content_id) AS place
        FROM found LEFT JOIN mails ON mails.content_id = found.content_id
    ) AS each_one WHERE place = 1"""


_CANDIDATES = """passage AS MATERIALIZED ({}),
    named AS MATERIALIZED ({}),
    scored AS (
        SELECT chunks.content_id AS content_id, passage.id AS chunk_id,
               sum(passage.score * CASE WHEN chunks.heading = :aside THEN :weight ELSE 1.0 END) AS score
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
    )"""
_LATEST = f"""candidate AS (
        SELECT content_id, NULL AS chunk_id, max(coalesce({filters.WHEN}, 0)) / 1000000.0 AS score
        FROM documents WHERE removed_at IS NULL GROUP BY content_id
    )"""


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
    bigrams.add(writing, bigrams.CHUNKS, ((number, body) for number, _, body in rows))


def forget_chunks(writing: Writing, content_ids: Collection[int]) -> None:
    """Take the passages of contents out of the index, while they still are in their table."""
    old = list(passages(writing, content_ids))
    if not old:
        return
    if writing.sqlite:
        writing.connection.exec_driver_sql(
            "INSERT INTO chunk_index (chunk_index, rowid, heading, text) VALUES ('delete', ?, ?, ?)", old
        )
    else:
        writing.execute(text("DELETE FROM chunk_index WHERE id = :id"), [{"id": number} for number, *_ in old])
    bigrams.forget(writing, bigrams.CHUNKS, [(number, body) for number, _, body in old])


def passages(reading: Reading, content_ids: Collection[int]) -> Iterator[tuple[int, str, str]]:
    """The passages of contents: (chunk id, heading, text). A text is read once, for a long one has thousands of them."""
    columns = chunks.c.content_id, chunks.c.id, chunks.c.heading, chunks.c.start, chunks.c.stop
    spans: defaultdict[int, list[AnyRow]] = defaultdict(list)
    for row in reading.execute(select(*columns).where(among(reading, chunks.c.content_id, content_ids))):
        spans[row.content_id].append(row)
    for part in in_parts(spans, _TEXTS_AT_ONCE):
        texts = select(contents.c.id, contents.c.text).where(contents.c.id.in_(part))
        for content_id, whole in reading.execute(texts):
            yield from ((row.id, row.heading, whole[row.start : row.stop]) for row in spans[content_id])


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
    bigrams.add(writing, bigrams.DOCUMENTS, map(_as_one, rows))


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
    bigrams.forget(writing, bigrams.DOCUMENTS, list(map(_as_one, rows)))


def _as_one(row: tuple[Any, ...]) -> tuple[int, str]:
    """The id and all names of a document in one text, in the order of `_ALL_NAMES`."""
    number, *names = row
    return number, " ".join(names)


def _names(reading: Reading, which: ColumnElement[bool]) -> list[tuple[Any, ...]]:
    columns = [documents.c[name] for name in NAMES]
    return [
        tuple(row) for row in reading.execute(select(*columns).where(which, documents.c.removed_at.is_(None))).all()
    ]


@dataclass(frozen=True, slots=True)
class IndexHit:
    """A content that matches, with its best passage (None when only a name matched).

    `thread` is that of a message, None for other contents; `alike` are the contents of it that match, where they were counted.
    """

    content_id: int
    chunk_id: int | None
    score: float
    thread: int | None
    alike: int


def find(reading: Reading, query: Query, limit: int, offset: int, *, by_thread: bool) -> tuple[list[IndexHit], int]:
    """The contents that match, best first, and how many there are; without wanted terms, the latest first.

    A term may be in any passage or name of a document. `by_thread`: of each thread only the best. Of very many terms, the
    first hundred determine the order.
    """
    parameters: dict[str, Any] = {"limit": limit, "offset": offset, "aside": ASIDE, "weight": _ASIDE_WEIGHT}
    rest = _having_the_rest(reading, query)
    if rest is not None and not rest:
        return [], 0
    wanted, conditions = _ask_all(reading, query.wanted[:_AT_ONCE], query.unwanted[:_AT_ONCE], rest, parameters)
    passes = " AND ".join(["documents.removed_at IS NULL", *_passes(reading, query, parameters)])
    chunk_hits, name_hits = (" UNION ALL ".join(part) for part in zip(*wanted, strict=True)) if wanted else ("", "")
    narrowed = " AND ".join(["TRUE", *conditions])
    statement = f"""
    WITH {_CANDIDATES.format(chunk_hits, name_hits) if wanted else _LATEST},
    found AS (
        SELECT content_id, chunk_id, score FROM candidate
        WHERE {narrowed} AND EXISTS (
            SELECT 1 FROM documents WHERE documents.content_id = candidate.content_id AND {passes}
        )
    )
    SELECT each_one.*, count(*) OVER () FROM ({_BY_THREAD if by_thread else _EACH}) AS each_one
    ORDER BY 3 DESC, 1 LIMIT :limit OFFSET :offset"""
    rows = reading.execute(text(statement), parameters).all()
    return [IndexHit(*row[:-1]) for row in rows], rows[0][-1] if rows else 0


def passing(reading: Reading, query: Query, document_ids: Collection[int]) -> set[int]:
    """Which of these documents pass the filters of a query."""
    if not query.filters or not document_ids:
        return set(document_ids)
    parameters: dict[str, Any] = {}
    passes = map(text, _passes(reading, query, parameters))
    mine = select(documents.c.id).where(among(reading, documents.c.id, document_ids), *passes)
    return set(reading.execute(mine, parameters).scalars())


def _passes(reading: Reading, query: Query, parameters: dict[str, Any]) -> list[str]:
    return [filters.condition(reading, f"f{n}", one, parameters) for n, one in enumerate(query.filters)]


_Asked = tuple[str, str]
"""Queries for the passages, and for the documents whose names have a term."""


def _having_the_rest(reading: Reading, query: Query) -> list[int] | None:
    """The contents that meet what is beyond the first hundred terms; None where nothing is."""
    found: list[int] | None = None
    for start in range(_AT_ONCE, max(len(query.wanted), len(query.unwanted)), _AT_ONCE):
        # Where there are only unwanted ones left, one that is wanted tells among what to look.
        terms = query.wanted[start : start + _AT_ONCE] or query.wanted[:1]
        parameters: dict[str, Any] = {}
        without = query.unwanted[start : start + _AT_ONCE]
        wanted, conditions = _ask_all(reading, terms, without, found, parameters)
        statement = f"""
        WITH candidate AS MATERIALIZED (
            SELECT content_id FROM chunks WHERE id IN (SELECT id FROM ({wanted[0][0]}) AS a)
            UNION SELECT content_id FROM documents WHERE id IN (SELECT id FROM ({wanted[0][1]}) AS b)
        )
        SELECT content_id FROM candidate WHERE {" AND ".join(["TRUE", *conditions])}"""
        found = list(reading.execute(text(statement), parameters).scalars())
        if not found:
            break
    return found


def _ask_all(
    reading: Reading,
    wanted: Sequence[AnyOf],
    unwanted: Sequence[Term],
    among_these: Collection[int] | None,
    parameters: dict[str, Any],
) -> tuple[list[_Asked], list[str]]:
    """The queries for each wanted term, and the conditions that a content has all of them, no unwanted one, and is of these."""
    asked = [_ask_any(reading, f"w{n}", terms, parameters) for n, terms in enumerate(wanted)]
    conditions = [_content_in(*one) for one in asked] if len(asked) > 1 else []
    conditions += [f"NOT {_content_in(*_ask(reading, f'u{n}', term, parameters))}" for n, term in enumerate(unwanted)]
    if among_these is not None:
        listed = "content_id IN (SELECT value FROM json_each(:these))" if reading.sqlite else "content_id = ANY(:these)"
        parameters["these"] = json_list(among_these) if reading.sqlite else list(among_these)
        conditions.insert(0, listed)
    return asked, conditions


def _content_in(chunk: str, name: str) -> str:
    return f"""(content_id IN (SELECT content_id FROM chunks WHERE id IN (SELECT id FROM ({chunk}) AS a))
        OR content_id IN (SELECT content_id FROM documents WHERE id IN (SELECT id FROM ({name}) AS b)))"""


def _ask_any(reading: Reading, key: str, terms: AnyOf, parameters: dict[str, Any]) -> _Asked:
    asked = [_ask(reading, f"{key}_{n}", term, parameters) for n, term in enumerate(terms)]
    return " UNION ALL ".join(chunk for chunk, _ in asked), " UNION ALL ".join(name for _, name in asked)


def _ask(reading: Reading, key: str, term: Term, parameters: dict[str, Any]) -> _Asked:
    """Queries for the passages, and for the documents whose names have this term, with scores."""
    if term.substring is not None:
        return _ask_letters(reading, key, term.substring, parameters)
    parameters[key] = term.matcher(reading.sqlite)
    if reading.sqlite:
        return (
            f"SELECT rowid AS id, -bm25(chunk_index, 3.0, 1.0) * {term.weight} AS score"
            f" FROM chunk_index WHERE chunk_index MATCH :{key}",
            f"SELECT rowid AS id, -bm25(document_index, 10.0, 8.0, 2.0, 1.0) * {term.weight} AS score"
            f" FROM document_index WHERE document_index MATCH :{key}",
        )
    weights = "array[0.1, 0.2, 0.5, 1.0]::float4[]"
    asked = f"to_tsquery('simple', :{key})"
    ranked = (
        f"SELECT id, ts_rank_cd({weights}, words, {asked}) * {term.weight} AS score FROM {{}} WHERE words @@ {asked}"
    )
    return ranked.format("chunk_index"), ranked.format("document_index")


def _ask_letters(reading: Reading, key: str, letters: str, parameters: dict[str, Any]) -> _Asked:
    """Scripts that write no spaces have no words to index: what may hold these letters is read through."""
    pattern = "%" + letters.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
    parameters |= {key: pattern, f"{key}d": unicodedata.normalize("NFD", pattern)}
    like = "LIKE" if reading.sqlite else "ILIKE"

    def holding(table: str, view: str, column: str) -> str:
        may = bigrams.narrowed(reading, table, f"{key}p", letters, parameters)
        has = f"({column} {like} :{key} ESCAPE '\\' OR {column} {like} :{key}d ESCAPE '\\')"
        return f"SELECT id, 1.0 AS score FROM {view} WHERE id IN ({may}) AND {has}"

    return holding(bigrams.CHUNKS, "chunk_text", "text"), holding(
        bigrams.DOCUMENTS, "document_names", f"({_ALL_NAMES})"
    )


def check(reading: Reading) -> list[str]:
    """What is in the index and not in the tables, or the other way round."""
    findings = []
    for index, letters, kept, what in (
        ("chunk_index", bigrams.CHUNKS, "SELECT id FROM chunks", "Passage"),
        (
            "document_index",
            bigrams.DOCUMENTS,
            "SELECT id FROM documents WHERE removed_at IS NULL",
            "The name of document",
        ),
    ):
        indexed = bigrams.indexed(reading, index)
        for difference, how in (
            (f"{kept} EXCEPT {indexed}", "is in the library and not in the index"),
            (f"{indexed} EXCEPT {kept}", "is in the index and not in the library"),
            (f"{bigrams.indexed(reading, letters)} EXCEPT {kept}", "is in the index of letters and not in the library"),
        ):
            number = reading.execute(text(f"SELECT min(id) FROM ({difference}) AS difference")).scalar()
            if number is not None:
                findings.append(f"{what} {number} {how}")
    return findings


def check_letters(reading: Reading) -> list[str]:
    """The first text with letters that the index of letters lacks, or without any that it has. Reads every text."""
    names = _in_order(reading, f"SELECT id, {_ALL_NAMES} AS words FROM document_names")
    findings = []
    for table, told, what in (
        (bigrams.CHUNKS, _foreign_passages(reading), "Passage"),
        (bigrams.DOCUMENTS, names, "The name of document"),
    ):
        wanted = (number for number, words in told if bigrams.has_letters(words))
        there = (number for (number,) in _in_order(reading, bigrams.indexed(reading, table)))
        wrong = next((pair for pair in zip_longest(wanted, there) if pair[0] != pair[1]), None)
        if wrong is not None:
            first = min(number for number in wrong if number is not None)
            findings.append(f"{what} {first} is not in the index of letters as its text is")
    return findings


def _foreign_passages(reading: Reading) -> Iterator[tuple[int, str]]:
    """The passages of contents that are not in ASCII alone, with their texts.

    They are cut out here: a database goes through the text from its beginning for each passage, 145 s for one of 10 MB.
    """
    # The plus keeps SQLite from going by content, and then sorting all passages in memory.
    size = "length(CAST(text AS BLOB))" if reading.sqlite else "octet_length(text)"
    rows = f"""SELECT id, content_id, start, stop FROM chunks
        WHERE +content_id IN (SELECT id FROM contents WHERE length(text) < {size})"""
    held, whole = None, ""
    for number, content, start, stop in _in_order(reading, rows):
        if content != held:
            held = content
            whole = reading.execute(select(contents.c.text).where(contents.c.id == content)).scalar_one()
        yield number, whole[start:stop]


def _in_order(reading: Reading, query: str) -> Iterator[AnyRow]:
    return iter(reading.execute(text(f"{query} ORDER BY 1").execution_options(yield_per=2_000)))


def check_ways(reading: Reading) -> list[str]:
    """Which index of words has pages that no search comes to: SQLite compares what is on them, one after the other.

    How FTS5 numbers its pages: https://www.sqlite.org/fts5.html and the head of `fts5_index.c`.
    """
    for index in _INDEXES if reading.sqlite else ():
        ask = reading.connection.exec_driver_sql
        ways = {(segment, way >> 1) for segment, way in ask(f"SELECT segid, pgno FROM {index}_idx")}
        for number, size, words in ask(
            f"SELECT id, length(block), substr(block, 3, 2) FROM {index}_data WHERE id >= 1 << 37"
        ):
            is_leaf, has_words = not number >> 31 & 0x3F, size > int.from_bytes(words)
            if is_leaf and has_words and (number >> 37, number & 0x7FFFFFFF) not in ways:
                return ["The index of words has words that a search does not come to"]
    return []


_LARGE = 200_000
"""From so many characters on the passages of a text are cut out before they are compared, see `_foreign_passages`."""


def check_words(writing: Writing) -> None:
    """Let SQLite compare every indexed word with the texts; raises what the driver raises when they differ."""
    # What is made for the comparison never is the ledger's.
    with writing.connection.begin_nested() as aside:
        _cut_out_large(writing)
        for index in _INDEXES:
            writing.connection.exec_driver_sql(f"INSERT INTO {index} ({index}, rank) VALUES ('integrity-check', 1)")
        aside.rollback()


def _cut_out_large(writing: Writing) -> None:
    """Let the view that the index of words is compared with have the passages of large texts ready."""
    run = writing.connection.exec_driver_sql
    large = run(f"SELECT content_id FROM chunks GROUP BY 1 HAVING max(stop) > {_LARGE}").scalars().all()
    if not large:
        return
    run("CREATE TABLE cut_out (id INTEGER PRIMARY KEY, text TEXT NOT NULL)")
    for content in large:
        whole = writing.execute(select(contents.c.text).where(contents.c.id == content)).scalar_one()
        spans = writing.execute(
            select(chunks.c.id, chunks.c.start, chunks.c.stop).where(chunks.c.content_id == content)
        )
        run("INSERT INTO cut_out VALUES (?, ?)", [(number, whole[start:stop]) for number, start, stop in spans])
    run("DROP VIEW chunk_text")
    run(
        """CREATE VIEW chunk_text AS
        SELECT chunks.id, chunks.heading, coalesce((SELECT cut_out.text FROM cut_out WHERE cut_out.id = chunks.id),
            (SELECT substr(contents.text, chunks.start + 1, chunks.stop - chunks.start)
             FROM contents WHERE contents.id = chunks.content_id)) AS text
        FROM chunks"""
    )
