"""The full-text index: FTS5 on SQLite, tsvector on PostgreSQL. Differences between them are handled here and in `word_parts`.

Chunks are indexed once per content. Names (title, aliases, path and property texts) are indexed once per live document. Texts
in scripts without spaces are also in the `word_parts` index.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from itertools import islice, zip_longest
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, select, text

from catchment.ledger.db.database import AnyRow, Reading, Writing, among, json_list
from catchment.ledger.db.job_states import in_parts
from catchment.ledger.db.lookup import like_literal
from catchment.ledger.db.records import Ranked, Ranking
from catchment.ledger.db.schema import chunks, contents, documents
from catchment.ledger.db.visible import rarity
from catchment.ledger.library import filters, word_parts
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
    *word_parts.SQLITE,
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
    *word_parts.POSTGRES,
)


_INDEXES = ("chunk_index", "document_index", word_parts.CHUNKS, word_parts.DOCUMENTS)

NAMES = ("id", "title", "aliases", "path", "properties")
"""The document columns that are indexed as names."""

_TEXTS_AT_ONCE = 50
_CHUNKS_AT_ONCE = 2_000
_MOST = 10_000
"""Maximum number of matches of a term that are ranked: the latest. Without terms, the number of documents."""
_ENOUGH = 30_000
"""Passages that are counted. From a quarter of them, and from `_MOST`, a word is common in any library."""

_IN_TEXT, _IN_NAME = "3.0, 1.0", "10.0, 8.0, 2.0, 1.0"
"""Weights of matches in the columns of the chunks, and of the names of documents."""
_ASIDE_WEIGHT = 0.5
"""Score factor of quotations and signatures in mail, so that the original message precedes its quotations."""

_LETTER_SCORE = 1 / 3
"""Score of a part of an identifier per letter: less than that of a word by itself. Half of it in the names of a document."""
_POSTGRES_SCALE = 0.01
"""Scores of PostgreSQL beside those of FTS5."""

_ALL_NAMES = "title || ' ' || aliases || ' ' || path || ' ' || properties"
_WEIGHTS = {"title": "A", "aliases": "B", "path": "D", "properties": "D"}


_EACH = """SELECT candidate.content_id, chunk_id, score, mails.thread, 1 AS alike
    FROM candidate LEFT JOIN mails ON mails.content_id = candidate.content_id"""
# A conversation's number is the ID of a content in it, so no content outside the conversation has the same.
_OF_CONVERSATION = "OVER (PARTITION BY coalesce(mails.thread, candidate.content_id)"
_BY_CONVERSATION = f"""SELECT content_id, chunk_id, score, thread, alike FROM (
        SELECT candidate.content_id, chunk_id, score, mails.thread AS thread, count(*) {_OF_CONVERSATION}) AS alike,
               row_number() {_OF_CONVERSATION} ORDER BY score DESC, candidate.content_id) AS place
        FROM candidate LEFT JOIN mails ON mails.content_id = candidate.content_id
    ) AS each_one WHERE place = 1"""


# Two lists, because SQLite refuses one of more than 500 queries.
_CANDIDATES = """hit AS MATERIALIZED (
        SELECT * FROM ({}) AS in_chunks UNION ALL SELECT * FROM ({}) AS in_names
    ),
    passage AS (SELECT content_id, chunk_id, sum(score) AS score FROM hit GROUP BY content_id, chunk_id),
    best AS (
        SELECT content_id, chunk_id, score,
               row_number() OVER (PARTITION BY content_id, chunk_id IS NULL ORDER BY score DESC, chunk_id) AS place
        FROM passage
    ),
    candidate AS (
        SELECT content_id, max(chunk_id) AS chunk_id, sum(score) AS score FROM best WHERE place = 1 GROUP BY content_id
    )"""
# The order of the joins matters: SQLite computes the score of a hit only if its content is eligible, until there are enough.
_IN_CHUNKS = """SELECT * FROM (
        SELECT owner.content_id, owner.id AS chunk_id,
               score * CASE WHEN owner.heading = :aside THEN :weight ELSE 1.0 END AS score
        FROM ({}) AS match CROSS JOIN chunks AS owner WHERE owner.id = match.id AND {} ORDER BY match.id DESC LIMIT :most
    ) AS latest"""
_IN_NAMES = """SELECT * FROM (
        SELECT owner.content_id, CAST(NULL AS BIGINT) AS chunk_id, 2 * score AS score
        FROM ({}) AS match CROSS JOIN documents AS owner WHERE owner.id = match.id AND {} ORDER BY match.id DESC LIMIT :most
    ) AS latest"""
_OWNERS = """SELECT content_id FROM (
        SELECT owner.content_id FROM ({}) AS match CROSS JOIN chunks AS owner WHERE owner.id = match.id
        UNION ALL SELECT owner.content_id FROM ({}) AS match CROSS JOIN documents AS owner WHERE owner.id = match.id
    ) AS owners"""
_LATEST = """hit AS MATERIALIZED (
        SELECT content_id, moment FROM documents WHERE {} ORDER BY moment DESC NULLS LAST LIMIT :most
    ),
    candidate AS (
        SELECT content_id, NULL AS chunk_id, max(coalesce(moment, 0)) / 1000000.0 AS score
        FROM hit GROUP BY content_id
    )"""


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
        words = [f"setweight(to_tsvector('simple', :{name}), '{weight}')" for name, weight in _WEIGHTS.items()]
        writing.execute(
            text(f"INSERT INTO document_index VALUES (:id, {' || '.join(words)})"),
            [dict(zip(NAMES, (row[0], *map(plain_words, row[1:])), strict=True)) for row in rows],
        )
    word_parts.add(writing, word_parts.DOCUMENTS, map(_as_one, rows))


def forget_names(writing: Writing, which: ColumnElement[bool]) -> None:
    """Remove the names of live documents from the index, before they change or are withdrawn."""
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
    """Return the ID and all names of a document as one text, in the order of `_ALL_NAMES`."""
    number, *names = row
    return number, " ".join(names)


def _names(reading: Reading, which: ColumnElement[bool]) -> list[tuple[Any, ...]]:
    columns = [documents.c[name] for name in NAMES]
    return [
        tuple(row) for row in reading.execute(select(*columns).where(which, documents.c.removed_at.is_(None))).all()
    ]


def find(
    reading: Reading,
    query: Query,
    limit: int,
    offset: int,
    *,
    by_conversation: bool,
    within: Collection[int] | None = None,
) -> Ranking:
    """Return the matching contents, best first, and their total number. Without wanted terms, the latest come first.

    Each term may match any chunk or name of a document. `by_conversation` returns only the best content of each conversation.
    `within`: only these contents. `query.bounded` limits the terms: databases limit the number of subqueries to a few hundred.
    """
    parameters: dict[str, Any] = {"limit": limit, "offset": offset, "aside": ASIDE, "weight": _ASIDE_WEIGHT}
    parameters["most"] = most = max(_MOST, offset + limit)
    parameters["passages"] = passages_about(reading) if reading.is_limited else 0
    wanted = [_ask_any(reading, f"w{n}", terms, parameters) for n, terms in enumerate(query.wanted)]
    conditions = _without(reading, query.unwanted, parameters)
    if within is not None:
        conditions.append(_listed(reading, within, parameters))
    passes = ["documents.removed_at IS NULL", *_passes(reading, query, parameters)]
    if wanted:
        of_content = "SELECT 1 FROM documents WHERE documents.content_id = owner.content_id"
        conditions.append(f"EXISTS ({of_content} AND {' AND '.join(passes)})")
        tables = []
        if reading.is_limited and len(wanted) > 1:
            # One by one: SQLite takes seconds to prepare twenty of these queries together.
            conditions.append(_listed(reading, _in_all(reading, wanted, parameters), parameters, "each"))
            among = f"SELECT content_id FROM contents_of AS owner WHERE {' AND '.join(conditions)}"
            tables.append("contents_of AS (SELECT id AS content_id FROM contents)")
            tables.append(f"eligible AS MATERIALIZED ({among})")
            conditions = ["content_id IN (SELECT content_id FROM eligible)"]
        elif len(wanted) > 1 or query.unwanted:
            tables.append(f"eligible AS MATERIALIZED ({_matching(wanted, conditions)})")
            conditions = ["content_id IN (SELECT content_id FROM eligible)"]
        met = " AND ".join(conditions)
        in_chunks = " UNION ALL ".join(_IN_CHUNKS.format(chunk, met) for group in wanted for chunk, _ in group)
        in_names = " UNION ALL ".join(_IN_NAMES.format(name, met) for group in wanted for _, name in group)
        tables.append(_CANDIDATES.format(in_chunks, in_names))
    else:
        tables = [_LATEST.format(" AND ".join([*passes, *conditions]))]
    statement = f"""
    WITH {", ".join(tables)}
    SELECT each_one.*, count(*) OVER (), (SELECT count(*) FROM hit)
    FROM ({_BY_CONVERSATION if by_conversation else _EACH}) AS each_one
    ORDER BY 3 DESC, 1 LIMIT :limit OFFSET :offset"""
    rows = reading.execute(text(statement), parameters).all()
    ranked = [
        Ranked(row[0], row[1], row[2], row[3], row[4], lexical_rank=rank, lexical_score=row[2])
        for rank, row in enumerate(rows, offset + 1)
    ]
    return Ranking(ranked, rows[0][-2], rows[0][-1] >= most) if rows else Ranking([], 0)


def passing(reading: Reading, query: Query, document_ids: Collection[int]) -> set[int]:
    """Return which of these documents pass the filters of the query."""
    if not query.filters or not document_ids:
        return set(document_ids)
    parameters: dict[str, Any] = {}
    passes = map(text, _passes(reading, query, parameters))
    mine = select(documents.c.id).where(among(reading, documents.c.id, document_ids), *passes)
    return set(reading.execute(mine, parameters).scalars())


def _passes(reading: Reading, query: Query, parameters: dict[str, Any]) -> list[str]:
    return [filters.condition(reading, f"f{n}", one, parameters) for n, one in enumerate(query.filters)]


_Asked = list[tuple[str, str]]
"""Pairs of scored queries: for the chunks, and for the documents by name."""


def _in_all(reading: Reading, wanted: Sequence[_Asked], parameters: dict[str, Any]) -> set[int]:
    """Return the contents that match every group of terms."""
    found = (set(reading.execute(text(_owners(group)), parameters).scalars()) for group in wanted)
    return set.intersection(*found)


def _matching(wanted: Sequence[_Asked], conditions: Sequence[str]) -> str:
    """Return a query for the contents that match every group of terms and meet the conditions."""
    in_all = " INTERSECT ".join(map(_owners, wanted))
    return f"SELECT content_id FROM ({in_all}) AS owner WHERE {' AND '.join(['TRUE', *conditions])}"


def _without(reading: Reading, unwanted: Sequence[Term], parameters: dict[str, Any]) -> list[str]:
    """Return the conditions that a content has none of these terms."""
    asked = [_ask_any(reading, f"u{n}", (term,), parameters) for n, term in enumerate(unwanted)]
    return [f"content_id NOT IN ({_owners(one)})" for one in asked]


def _listed(reading: Reading, content_ids: Collection[int], parameters: dict[str, Any], key: str = "within") -> str:
    """Return the condition that a content is one of these."""
    parameters[key] = json_list(content_ids) if reading.sqlite else list(content_ids)
    return f"content_id IN (SELECT value FROM json_each(:{key}))" if reading.sqlite else f"content_id = ANY(:{key})"


def _owners(asked: _Asked) -> str:
    """Return a query for the contents of all these chunks and documents."""
    return _OWNERS.format(*(" UNION ALL ".join(queries) for queries in zip(*asked, strict=True)))


def _ask_any(reading: Reading, key: str, terms: AnyOf, parameters: dict[str, Any]) -> _Asked:
    """Return the queries for a group of terms: one for all words of the same weight."""
    asked: _Asked = []
    by_weight: defaultdict[float, list[Term]] = defaultdict(list)
    for n, term in enumerate(terms):
        if term.substring is None:
            by_weight[term.weight].append(term)
        else:
            asked.append(_ask_letters(reading, f"{key}l{n}", term.substring, parameters))
    for n, (weight, words) in enumerate(by_weight.items()):
        asked += _ask_words(reading, f"{key}_{n}", words, weight, parameters)
    return asked


def _ask_words(
    reading: Reading, key: str, terms: Sequence[Term], weight: float, parameters: dict[str, Any]
) -> Iterator[tuple[str, str]]:
    """Yield scored queries for the chunks and for the documents by name: for the words, and for parts of identifiers."""
    if reading.sqlite and reading.is_limited:
        phrases = dict.fromkeys(form for term in terms for form in term.forms())
        for n, phrase in enumerate(phrases):
            parameters[f"{key}_{n}"] = phrase
            yield _scored_here(reading, f"{key}_{n}", phrase, weight, parameters["passages"])
    elif reading.sqlite:
        parameters[key] = " OR ".join(form for term in terms for form in term.forms())
        scored = f"SELECT rowid AS id, -bm25({{0}}, {{1}}) * {weight} AS score FROM {{0}} WHERE {{0}} MATCH :{key}"
        yield scored.format("chunk_index", _IN_TEXT), scored.format("document_index", _IN_NAME)
    else:
        parameters[key] = " | ".join(f"({term.tsquery()})" for term in terms)
        asked = f"to_tsquery('simple', :{key})"
        rank = f"ts_rank_cd(array[0.1, 0.2, 0.5, 1.0]::float4[], words, {asked}) * {weight}"
        scored = f"SELECT id, {rank} AS score FROM {{}} WHERE words @@ {asked}"
        yield scored.format("chunk_index"), scored.format("document_index")
    parts = [(plain_words(term.text), term.prefix) for term in terms if not term.is_quoted]
    if parts := [(word, begins) for word, begins in parts if word_parts.can_be_part(word)]:
        parameters[f"{key}i"] = word_parts.matcher(reading, parts)
        score = _LETTER_SCORE * len(parts[0][0]) * weight * (1 if reading.sqlite else _POSTGRES_SCALE)
        yield (
            word_parts.matching(reading, word_parts.CHUNKS, f"{key}i", score),
            word_parts.matching(reading, word_parts.DOCUMENTS, f"{key}i", score / 2),
        )


def _scored_here(reading: Reading, key: str, phrase: str, weight: float, passages: int) -> tuple[str, str]:
    """Return scored queries for a phrase: `bm25` with its rarity in the visible sources.

    `bm25` with infinite weights consists of the rarity in the whole index and the factor 2.2.
    """

    def scored(index: str, weights: str) -> str:
        rare = 2.2 * weight * rarity(number_of(reading, index, phrase), passages)
        complete = ", ".join("1e9" for _ in weights.split(","))
        return f"""SELECT rowid AS id, {rare} * bm25({index}, {weights}) / bm25({index}, {complete}) AS score
            FROM {index} WHERE {index} MATCH :{key}"""

    return scored("chunk_index", _IN_TEXT), scored("document_index", _IN_NAME)


def number_of(reading: Reading, index: str, expression: str) -> int:
    """Return in how many visible chunks, or documents by name, an expression matches; at most `_MOST`."""
    owner = "chunks" if index in ("chunk_index", word_parts.CHUNKS) else "documents"
    matching = f"""SELECT 1 FROM {index} CROSS JOIN {owner} AS owner
        WHERE {index} MATCH :expression AND owner.id = {index}.rowid LIMIT {_MOST}"""
    counted = text(f"SELECT count(*) FROM ({matching})")
    return int(reading.execute(counted, {"expression": expression}).scalar_one())


def passages_about(reading: Reading) -> int:
    """Return the approximate number of visible chunks."""
    if not reading.is_limited:
        return reading.execute(select(func.max(chunks.c.id))).scalar() or 0
    of_documents = select(chunks.c.id).join_from(documents, chunks, chunks.c.content_id == documents.c.content_id)
    some = of_documents.where(documents.c.removed_at.is_(None)).limit(_ENOUGH).subquery()
    return int(reading.execute(select(func.count()).select_from(some)).scalar_one())


def _ask_letters(reading: Reading, key: str, letters: str, parameters: dict[str, Any]) -> tuple[str, str]:
    """Return queries for a substring, for scripts without spaces: the bigram index yields candidates, which are then read."""
    pattern = f"%{like_literal(letters)}%"
    parameters |= {key: pattern, f"{key}d": unicodedata.normalize("NFD", pattern)}
    like = "LIKE" if reading.sqlite else "ILIKE"

    def holding(table: str, view: str, column: str) -> str:
        may = word_parts.narrowed(reading, table, f"{key}p", letters, parameters)
        has = f"({column} {like} :{key} ESCAPE '\\' OR {column} {like} :{key}d ESCAPE '\\')"
        return f"SELECT id, 1.0 AS score FROM {view} WHERE id IN ({may}) AND {has}"

    return holding(word_parts.CHUNKS, "chunk_text", "text"), holding(
        word_parts.DOCUMENTS, "document_names", f"({_ALL_NAMES})"
    )


def check(reading: Reading) -> list[str]:
    """Return differences between the index and the tables."""
    findings = []
    for index, parts, kept, what in (
        ("chunk_index", word_parts.CHUNKS, "SELECT id FROM chunks", "Passage"),
        (
            "document_index",
            word_parts.DOCUMENTS,
            "SELECT id FROM documents WHERE removed_at IS NULL",
            "The name of document",
        ),
    ):
        indexed = word_parts.indexed(reading, index)
        for difference, how in (
            (f"{kept} EXCEPT {indexed}", "is in the library, but not in the index"),
            (f"{indexed} EXCEPT {kept}", "is in the index, but not in the library"),
            (
                f"{word_parts.indexed(reading, parts)} EXCEPT {kept}",
                "is in the index of word parts, but not in the library",
            ),
        ):
            number = reading.execute(text(f"SELECT min(id) FROM ({difference}) AS difference")).scalar()
            if number is not None:
                findings.append(f"{what} {number} {how}")
    return findings


def check_parts(reading: Reading) -> list[str]:
    """Return the first differences between the index of word parts and the texts. Reads every text."""
    findings = []
    for table, told, what in (
        (word_parts.CHUNKS, _passages_with_parts(reading), "Passage"),
        (word_parts.DOCUMENTS, _names_with_parts(reading), "The name of document"),
    ):
        wanted = (number for number, words in told if word_parts.parts(words))
        there = (number for (number,) in _in_order(reading, word_parts.indexed(reading, table)))
        wrong = next((pair for pair in zip_longest(wanted, there) if pair[0] != pair[1]), None)
        if wrong is not None:
            first = min(number for number in wrong if number is not None)
            findings.append(f"{what} {first} differs from the index of word parts")
    return findings


def _passages_with_parts(reading: Reading) -> Iterator[tuple[int, str]]:
    """Yield the chunks of contents that may have word parts, with their texts.

    Slices in Python: the database scans the text from its start for each chunk, which takes 145 s for 10 MB.
    """
    # The plus keeps SQLite from using the index by content, which would require sorting all chunks in memory.
    may_have = (
        "length(text) < length(CAST(text AS BLOB)) OR text GLOB '*[a-z0-9][A-Z]*' OR text GLOB '*[A-Z][A-Z][a-z]*'"
        if reading.sqlite
        else "length(text) < octet_length(text) OR text ~ '[a-z0-9][A-Z]|[A-Z]{2}[a-z]'"
    )
    rows = f"""SELECT id, content_id, start, stop FROM chunks
        WHERE +content_id IN (SELECT id FROM contents WHERE {may_have})"""
    held, whole = None, ""
    for number, content, start, stop in _in_order(reading, rows):
        if content != held:
            held = content
            whole = reading.execute(select(contents.c.text).where(contents.c.id == content)).scalar_one()
        yield number, whole[start:stop]


def _names_with_parts(reading: Reading) -> Iterator[tuple[int, str]]:
    return (
        (number, words) for number, words in _in_order(reading, f"SELECT id, {_ALL_NAMES} AS words FROM document_names")
    )


def index_parts(writing: Writing) -> None:
    """Build the index of word parts anew. Reads every text of the library."""
    for table, texts in ((word_parts.CHUNKS, _passages_with_parts), (word_parts.DOCUMENTS, _names_with_parts)):
        word_parts.clear(writing, table)
        rows = texts(writing)
        while part := list(islice(rows, _CHUNKS_AT_ONCE)):
            word_parts.add(writing, table, part)


def _in_order(reading: Reading, query: str) -> Iterator[AnyRow]:
    return iter(reading.execute(text(f"{query} ORDER BY 1").execution_options(yield_per=2_000)))


def check_ways(reading: Reading) -> list[str]:
    """Detect index pages that no search reaches. SQLite's integrity check only compares the pages with each other.

    FTS5 page numbers are described at https://www.sqlite.org/fts5.html and at the top of `fts5_index.c`.
    """
    for index in _INDEXES if reading.sqlite else ():
        ask = reading.connection.exec_driver_sql
        ways = {(segment, way >> 1) for segment, way in ask(f"SELECT segid, pgno FROM {index}_idx")}
        for number, size, words in ask(
            f"SELECT id, length(block), substr(block, 3, 2) FROM {index}_data WHERE id >= 1 << 37"
        ):
            is_leaf, has_words = not number >> 31 & 0x3F, size > int.from_bytes(words)
            if is_leaf and has_words and (number >> 37, number & 0x7FFFFFFF) not in ways:
                return ["The word index contains unreachable words"]
    return []


_LARGE = 200_000
"""Size in characters from which the chunks of a text are sliced before the comparison; see `_passages_with_parts`."""


def check_words(writing: Writing) -> None:
    """Compare the index with the texts, using SQLite's integrity check. Raises the driver's error if they differ."""
    # The tables made for the comparison are rolled back.
    with writing.connection.begin_nested() as aside:
        _cut_out_large(writing)
        for index in _INDEXES:
            writing.connection.exec_driver_sql(f"INSERT INTO {index} ({index}, rank) VALUES ('integrity-check', 1)")
        aside.rollback()


def _cut_out_large(writing: Writing) -> None:
    """Replace the view used by the integrity check with one that has the chunks of large texts precomputed."""
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
