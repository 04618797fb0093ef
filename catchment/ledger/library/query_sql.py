"""A query as SQL: ranks the contents that match its words and filters, on SQLite and PostgreSQL.

The words are searched in the `word_index`. A filter never raises: an unknown value matches nothing.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, func, select, text

from catchment.ledger.db.database import AnyRow, Reading, among, json_list
from catchment.ledger.db.folding import fold
from catchment.ledger.db.schema import chunks, documents
from catchment.ledger.db.visible import rarity
from catchment.ledger.library import conversation_index, word_parts
from catchment.ledger.library.query import AnyOf, Filter, FilterName, Query, Term
from catchment.ledger.library.word_index import ALL_NAMES, PATH_LABEL, TEXTS, WORDS, as_tsquery, folded_path
from catchment.model import ASIDE, GUESSED
from catchment.records.rows import Ranked, Ranking

_MOST = 10_000
"""Maximum number of matches of a term that are ranked: the latest. Without terms, the number of documents."""
_FEW = 2_000
"""Documents of a tag or folder that are listed for a search, which takes a millisecond."""
_ENOUGH = 30_000
"""Passages that are counted. From a quarter of them, and from `_MOST`, a word is common in any library."""

_TOGETHER = 6
"""Groups of terms and exclusions that are searched in one statement. SQLite takes seconds to prepare one with twenty."""

_IN_TEXT, _IN_NAME = "3.0, 1.0", "10.0, 8.0, 2.0, 1.0"
"""Weights of matches in the columns of the chunks, and of the names of documents."""
_ASIDE_WEIGHT = 0.5
"""Score factor of quotations and signatures in mail, so that the original message precedes its quotations."""

_GUESSED_WEIGHT = 0.8
"""Score factor of recognized text, so that typed text with the same words precedes it."""

_LETTER_SCORE = 1 / 3
"""Score of a part of an identifier per letter: less than that of a word by itself. Half of it in the names of a document."""

HAS = {
    "attachment": "EXISTS (SELECT 1 FROM contents WHERE contents.id = documents.content_id"
    " AND contents.properties LIKE '%\"attachment%')",
    "recognized": "EXISTS (SELECT 1 FROM contents WHERE contents.id = documents.content_id"
    " AND contents.properties LIKE '%\"recognized\"%')",
    "link": "EXISTS (SELECT 1 FROM links WHERE links.content_id = documents.content_id)",
    "tag": "EXISTS (SELECT 1 FROM entities WHERE entities.content_id = documents.content_id AND entities.kind = 'tag')",
    "task": "EXISTS (SELECT 1 FROM entities WHERE entities.content_id = documents.content_id AND entities.kind = 'task')",
    "code": "EXISTS (SELECT 1 FROM entities WHERE entities.content_id = documents.content_id AND entities.kind = 'symbol')"
    " OR EXISTS (SELECT 1 FROM contents WHERE contents.id = documents.content_id"
    " AND (contents.text LIKE '%```%' OR contents.text LIKE '%\n~~~%'))",
}
"""The conditions for `has:` by name."""

TASK = "task"
"""The value of `type:` that finds tasks instead of documents: lines of a text with a checkbox."""

UNANSWERED = "unanswered"
"""A value of `is:`: the last message of its conversation, in a mailbox, by another person and not marked as answered.

Drafts do not count. Mailing lists and addresses that accept no reply expect no answer.
"""
_UNANSWERED = """EXISTS (SELECT 1 FROM items WHERE items.id = documents.item_id
        AND {in_mailbox} AND NOT {answered} AND NOT {draft})
    AND EXISTS (SELECT 1 FROM mails JOIN contents ON contents.id = mails.content_id
        WHERE mails.content_id = documents.content_id AND {list} IS NULL
        AND lower(coalesce(contents.author, '')) NOT LIKE '%no%reply@%'
        AND NOT EXISTS (SELECT 1 FROM mails AS other
            JOIN documents AS its ON its.content_id = other.content_id AND its.removed_at IS NULL
            JOIN items ON items.id = its.item_id AND NOT {draft}
            WHERE other.thread = mails.thread AND (other.sent > mails.sent OR (other.name = mails.name AND {sent}))))"""

_FILE = "substr(documents.path, length(rtrim(documents.path, replace(documents.path, '/', ''))) + 1)"
_STEM = f"nullif(rtrim(rtrim({_FILE}, replace({_FILE}, '.', '')), '.'), '')"
_TITLES = (
    f"documents.title || CASE WHEN documents.path LIKE '%;UID=%' THEN '' ELSE ' / ' || coalesce({_STEM}, {_FILE}) END"
)
"""The title of a document and the name of its file without the ending. The address of a message has no file name."""
_TABLES = {FilterName.TAG: ("doc_tags", "tag"), FilterName.IN: ("doc_folders", "folder")}

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
    passage AS (SELECT content_id, chunk_id, sum(score) AS score FROM hit {} GROUP BY content_id, chunk_id),
    best AS (
        SELECT content_id, chunk_id, score,
               row_number() OVER (PARTITION BY content_id, chunk_id IS NULL ORDER BY score DESC, chunk_id) AS place
        FROM passage
    ),
    candidate AS (
        SELECT content_id, max(chunk_id) AS chunk_id, sum(score) AS score FROM best WHERE place = 1 GROUP BY content_id
    )"""
# The copies of messages are read first: most libraries have few or none.
_ONCE = """WHERE content_id NOT IN (SELECT content_id FROM (
        SELECT hit.content_id, row_number() OVER (PARTITION BY name ORDER BY sum(score) DESC, hit.content_id) AS place
        FROM mail_names CROSS JOIN hit WHERE hit.content_id = mail_names.content_id AND name < 0
        GROUP BY name, hit.content_id
    ) AS copy WHERE place > 1)"""
_OTHERS = """(SELECT count(*) - count(DISTINCT name) FROM mail_names
    WHERE name < 0 AND +content_id IN (SELECT content_id FROM ({}) AS latest))"""
"""Surplus copies of messages. The plus makes SQLite read the copies first, and the documents only if there are any."""
# The order of the joins matters: SQLite computes the score of a hit only if its content is eligible, until there are enough.
_IN_CHUNKS = """SELECT * FROM (
        SELECT owner.content_id, owner.id AS chunk_id,
               score * CASE owner.heading WHEN :aside THEN :weight WHEN :guessed THEN :of_guessed ELSE 1.0 END AS score
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
_CONTENTS = "SELECT content_id FROM (SELECT id AS content_id FROM contents) AS owner WHERE {}"
_LATEST = """SELECT content_id, moment FROM {table} WHERE {conditions}
    ORDER BY moment DESC NULLS LAST, content_id DESC LIMIT :enough"""
_WITH_THREADS = """SELECT latest.*, mails.thread FROM ({}) AS latest LEFT JOIN mails ON mails.content_id = latest.content_id
    ORDER BY moment DESC NULLS LAST, latest.content_id DESC"""

_BY_DATE = """(SELECT max(moment) FROM documents
    WHERE documents.content_id = each_one.content_id AND removed_at IS NULL) DESC NULLS LAST, """


def rank(
    reading: Reading,
    query: Query,
    limit: int,
    offset: int,
    *,
    by_conversation: bool = False,
    within: Collection[int] | None = None,
) -> Ranking:
    """Return the matching contents, best first, or without wanted terms the latest first, and their total number.

    Each term may match any chunk or name of a document. `by_conversation` returns only the best content of each conversation.
    Of the copies of a message, only the best is returned. `within`: only these contents, also if they are copies. The query
    language limits the terms, because databases limit the subqueries.
    """
    parameters: dict[str, Any] = {"limit": limit, "offset": offset, "aside": ASIDE, "weight": _ASIDE_WEIGHT}
    parameters |= {"guessed": GUESSED, "of_guessed": _GUESSED_WEIGHT}
    parameters["most"] = most = max(_MOST, offset + limit)
    parameters["passages"] = passages_about(reading) if reading.is_limited else 0
    groups = [_ask_any(reading, f"w{n}", terms, parameters) for n, terms in enumerate(query.wanted)]
    conditions = _without(reading, query.unwanted, parameters)
    if within is not None:
        conditions.append(_listed(reading, within, parameters))
    passes = ["documents.removed_at IS NULL", *_passes(reading, query.filters, parameters)]
    if not groups:
        table, met = _in_order_of_time(query, passes)
        latest = _LATEST.format(table=table, conditions=" AND ".join([*met, *conditions]))
        return _rank_latest(reading, latest, parameters, by_conversation=by_conversation, once=within is None)
    conditions[:0] = _rare(reading, query, parameters)
    of_content = "SELECT 1 FROM documents WHERE documents.content_id = owner.content_id"
    conditions.append(f"EXISTS ({of_content} AND {' AND '.join(passes)})")
    tables = []
    if len(groups) + len(query.unwanted) > (1 if reading.is_limited else _TOGETHER):
        conditions.append(_listed(reading, _in_all(reading, groups, parameters), parameters, "each"))
        in_all = reading.execute(text(_CONTENTS.format(" AND ".join(conditions))), parameters).scalars().all()
        tables.append(f"eligible AS MATERIALIZED ({_CONTENTS.format(_listed(reading, in_all, parameters, 'each'))})")
        conditions = ["content_id IN (SELECT content_id FROM eligible)"]
    elif len(groups) > 1 or query.unwanted:
        tables.append(f"eligible AS MATERIALIZED ({_matching(groups, conditions)})")
        conditions = ["content_id IN (SELECT content_id FROM eligible)"]
    met = " AND ".join(conditions)
    in_chunks = " UNION ALL ".join(_IN_CHUNKS.format(chunk, met) for group in groups for chunk, _ in group)
    in_names = " UNION ALL ".join(_IN_NAMES.format(name, met) for group in groups for _, name in group)
    tables.append(_CANDIDATES.format(in_chunks, in_names, _ONCE if within is None else ""))
    statement = f"""
    WITH {", ".join(tables)}
    SELECT each_one.*, count(*) OVER (), (SELECT count(*) FROM hit)
    FROM ({_BY_CONVERSATION if by_conversation else _EACH}) AS each_one
    ORDER BY {_BY_DATE if query.newest_first else ""}3 DESC, 1 LIMIT :limit OFFSET :offset"""
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
    passes = map(text, _passes(reading, query.filters, parameters))
    allowed = select(documents.c.id).where(among(reading, documents.c.id, document_ids), *passes)
    return set(reading.execute(allowed, parameters).scalars())


def task_lines(reading: Reading, filters: Sequence[Filter]) -> list[AnyRow]:
    """Return the tasks in the documents that pass these filters, each once: content, document, text and status."""
    parameters: dict[str, Any] = {}
    met = ["documents.removed_at IS NULL", *_passes(reading, filters, parameters)]
    statement = f"""SELECT entities.content_id, min(documents.id) AS document, entities.value, entities.detail
        FROM entities JOIN documents ON documents.content_id = entities.content_id
        WHERE entities.kind = 'task' AND entities.value <> '' AND {" AND ".join(met)}
        GROUP BY entities.content_id, entities.position, entities.value, entities.detail
        ORDER BY entities.content_id, entities.position"""
    return list(reading.execute(text(statement), parameters).all())


def with_path(reading: Reading, phrases: Collection[str], limit: int) -> ColumnElement[bool]:
    """Return the condition that the path of a document has one of these phrases, for at most `limit` documents."""
    terms = [term for phrase in phrases if (term := Term(phrase, prefix=False)).words]
    if reading.sqlite:
        query = "SELECT rowid FROM document_index WHERE document_index MATCH :paths LIMIT :most"
        paths = f"path : ({' OR '.join(map(_fts5, terms))})" if terms else '""'
    else:
        query = "SELECT id FROM document_index WHERE words @@ CAST(:paths AS tsquery) LIMIT :most"
        paths = _tsquery(terms, PATH_LABEL)
    return documents.c.id.in_(text(query).bindparams(paths=paths, most=limit).columns(documents.c.id))


def _passes(reading: Reading, filters: Sequence[Filter], parameters: dict[str, Any]) -> list[str]:
    return [_condition(reading, f"f{n}", condition, parameters) for n, condition in enumerate(filters)]


def _rare(reading: Reading, query: Query, parameters: dict[str, Any]) -> Iterator[str]:
    """Yield a condition for each tag or folder of few documents: it is cheaper than to look up the document of each hit."""
    for _, table, met in _required(query):
        owners = f"SELECT content_id FROM {table} WHERE {met}"
        counted = text(f"SELECT count(*) FROM ({owners} LIMIT {_FEW + 1}) AS few")
        if reading.execute(counted, parameters).scalar_one() <= _FEW:
            yield f"owner.content_id IN ({owners})"


def _in_order_of_time(query: Query, passes: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Return the table to read the latest documents from, with the conditions of a row.

    The table of a tag or a folder has only its live documents: the first page reads no others.
    """
    for n, table, met in _required(query):
        conditions = [*passes[1 : n + 1], *passes[n + 2 :]]
        passing = f"SELECT 1 FROM documents WHERE {' AND '.join(['documents.id = document_id', *conditions])}"
        return table, [met, f"EXISTS ({passing})"] if conditions else [met]
    return "documents", passes


def _required(query: Query) -> Iterator[tuple[int, str, str]]:
    """Yield the position of each filter that requires a tag or a folder, its table, and the condition of a row there."""
    for n, condition in enumerate(query.filters):
        if condition.name in _TABLES and len(condition.values) == 1 and not condition.is_negated:
            table, column = _TABLES[condition.name]
            yield n, table, f"{column} = :f{n}_0"


def _rank_latest(
    reading: Reading, latest: str, parameters: dict[str, Any], *, by_conversation: bool, once: bool
) -> Ranking:
    """Return the latest contents. Reads the rows that a page needs, and counts the others.

    `once`: of the copies of a message only one, if not grouped by conversation, which has them all.
    """
    offset, end, most = parameters["offset"], parameters["offset"] + parameters["limit"], parameters["most"]
    results: dict[int, list[AnyRow]] = {}
    # Documents with the same content are one result, so a page may need more rows than results.
    for parameters["enough"] in (most,) if by_conversation else (min(2 * end, most), most):
        rows = reading.execute(text(_WITH_THREADS.format(latest)), parameters).all()
        results = {}
        copies = conversation_index.copies(reading, {row.content_id for row in rows} if once > by_conversation else ())
        for row in rows:
            number = row.thread if by_conversation and row.thread is not None else row.content_id
            results.setdefault(copies[number][0] if number in copies else number, []).append(row)
        if len(results) >= end or len(rows) < parameters["enough"]:
            break
    total, number = len(results), len(rows)
    if parameters["enough"] == number < most:
        parameters["enough"] = most
        others = _OTHERS.format(latest) if once else "0"
        counted = text(f"SELECT count(DISTINCT content_id) - {others}, count(*) FROM ({latest}) AS latest")
        total, number = reading.execute(counted, parameters).one()
    ranked = []
    page = list(results.values())[offset:end]
    if by_conversation and once:
        several = {row.content_id for alike in page if len(alike) > 1 for row in alike}
        copies = conversation_index.copies(reading, several)
    for rank, alike in enumerate(page, offset + 1):
        first, score = alike[0], (alike[0].moment or 0) / 1_000_000
        numbers = {row.content_id for row in alike}
        places = len({min(copies.get(number, [number])) for number in numbers} if copies else numbers)
        ranked.append(Ranked(first.content_id, None, score, first.thread, places, rank, score))
    return Ranking(ranked, total, number >= most)


_Asked = list[tuple[str, str]]
"""Pairs of scored queries: for the chunks, and for the documents by name."""


def _in_all(reading: Reading, groups: Sequence[_Asked], parameters: dict[str, Any]) -> set[int]:
    """Return the contents that match every group of terms."""
    owners = (set(reading.execute(text(_owners(group)), parameters).scalars()) for group in groups)
    return set.intersection(*owners)


def _matching(groups: Sequence[_Asked], conditions: Sequence[str]) -> str:
    """Return a query for the contents that match every group of terms and meet the conditions."""
    in_all = " INTERSECT ".join(map(_owners, groups))
    return f"SELECT content_id FROM ({in_all}) AS owner WHERE {' AND '.join(['TRUE', *conditions])}"


def _without(reading: Reading, unwanted: Sequence[Term], parameters: dict[str, Any]) -> list[str]:
    """Return the conditions that a content has none of these terms."""
    groups = [_ask_any(reading, f"u{n}", (term,), parameters) for n, term in enumerate(unwanted)]
    return [f"content_id NOT IN ({_owners(group)})" for group in groups]


def _listed(reading: Reading, content_ids: Collection[int], parameters: dict[str, Any], key: str = "within") -> str:
    """Return the condition that a content is one of these."""
    parameters[key] = json_list(content_ids) if reading.sqlite else list(content_ids)
    return f"content_id IN (SELECT value FROM json_each(:{key}))" if reading.sqlite else f"content_id = ANY(:{key})"


def _owners(group: _Asked) -> str:
    """Return a query for the contents of all these chunks and documents."""
    return _OWNERS.format(*(" UNION ALL ".join(queries) for queries in zip(*group, strict=True)))


def _ask_any(reading: Reading, key: str, terms: AnyOf, parameters: dict[str, Any]) -> _Asked:
    """Return the queries for a group of terms: one for all words of the same weight."""
    group: _Asked = []
    by_weight: defaultdict[float, list[Term]] = defaultdict(list)
    for n, term in enumerate(terms):
        if term.substring is None:
            by_weight[term.weight].append(term)
        else:
            group.append(_ask_letters(reading, f"{key}l{n}", term.substring, parameters))
    for n, (weight, words) in enumerate(by_weight.items()):
        group += _ask_words(reading, f"{key}_{n}", words, weight, parameters)
    return group


def _ask_words(
    reading: Reading, key: str, terms: Sequence[Term], weight: float, parameters: dict[str, Any]
) -> Iterator[tuple[str, str]]:
    """Yield scored queries for the chunks and for the documents by name: for the words, and for parts of identifiers."""
    if reading.sqlite and reading.is_limited:
        phrases = {_fts5(term): term for term in terms}
        for n, (phrase, term) in enumerate(phrases.items()):
            parameters[f"{key}_{n}"] = phrase
            yield _scored_here(reading, f"{key}_{n}", term, weight, parameters["passages"])
    elif reading.sqlite:
        parameters[key] = " OR ".join(map(_fts5, terms))
        scored = f"SELECT rowid AS id, -bm25({{0}}, {{1}}) * {weight} AS score FROM {{0}} WHERE {{0}} MATCH :{key}"
        yield scored.format("chunk_index", _IN_TEXT), scored.format("document_index", _IN_NAME)
    else:
        parameters[key] = _tsquery(terms)
        chunk, name = (_bm25(reading, key, index, terms, parameters) for index in ("chunk_index", "document_index"))
        scored = f"SELECT id, {{1}} * {weight} AS score FROM {{0}} WHERE words @@ CAST(:{key} AS tsquery)"
        yield scored.format("chunk_index", chunk), scored.format("document_index", name)
    # Only a single word can be a part of an identifier or have markup inside.
    if parts := [(term.words, term.prefix) for term in terms if not term.is_quoted and " " not in term.words]:
        parameters[f"{key}i"] = word_parts.matcher(reading, parts)
        score = _LETTER_SCORE * len(parts[0][0]) * weight
        yield (
            word_parts.matching(reading, word_parts.CHUNKS, f"{key}i", score),
            word_parts.matching(reading, word_parts.DOCUMENTS, f"{key}i", score / 2),
        )


def _fts5(term: Term) -> str:
    """Return a term in the query syntax of FTS5."""
    return f'"{term.words}"{" *" if term.prefix else ""}'


def _tsquery(terms: Iterable[Term], label: str = "") -> str:
    """Return terms in the query syntax of PostgreSQL, joined by "or"."""
    return " | ".join(f"({as_tsquery(term.words, is_prefix=term.prefix, label=label)})" for term in terms)


def _bm25(reading: Reading, key: str, index: str, terms: Iterable[Term], parameters: dict[str, Any]) -> str:
    """Return the score of terms in a row of an index on PostgreSQL, as `bm25` of FTS5 computes it.

    `ts_rank_cd` of one phrase is the sum of the weights of its places.
    """
    weights = [float(weight) for weight in (_IN_TEXT if index == "chunk_index" else _IN_NAME).split(",")]
    highest = max(weights)
    by_label = [0.0] * (4 - len(weights)) + [weight / highest for weight in reversed(weights)]
    doc = f"(SELECT doc FROM index_words WHERE name = '{index}' AND term = {{}})"
    texts, words = doc.format(f"'{TEXTS}'"), doc.format(f"'{WORDS}'")
    length = f"1.2 * (0.25 + 0.75 * length * (SELECT {texts}::float8 / {words}))"
    scores = []
    for n, term in enumerate(terms):
        mark = f"{key}_{n}"
        parameters[mark] = _tsquery([term])
        if reading.is_limited:
            rare = str(rarity(number_of(reading, index, term), parameters["passages"]))
        else:
            matching = f"(SELECT count(*) FROM {index} WHERE words @@ CAST(:{mark} AS tsquery))"
            if not term.prefix and " " not in term.words:
                parameters[f"{mark}w"] = term.words
                matching = f"coalesce({doc.format(f':{mark}w')}, 0)"
            rare = f"(SELECT greatest(ln(({texts} - n + 0.5) / (n + 0.5)), 1e-6)::float8 FROM (SELECT {matching} AS n) AS it)"
        tf = f"{highest} * ts_rank_cd(array{by_label}::float4[], words, CAST(:{mark} AS tsquery))"
        scores.append(f"2.2 * {rare} * coalesce(1 / (1 + {length} / nullif({tf}, 0)), 0)")
    return f"({' + '.join(scores)})"


def _scored_here(reading: Reading, key: str, term: Term, weight: float, passages: int) -> tuple[str, str]:
    """Return scored queries for a phrase: `bm25` with its rarity in the visible sources.

    `bm25` with infinite weights consists of the rarity in the whole index and the factor 2.2.
    """

    def scored(index: str, weights: str) -> str:
        rare = 2.2 * weight * rarity(number_of(reading, index, term), passages)
        complete = ", ".join("1e9" for _ in weights.split(","))
        return f"""SELECT rowid AS id, {rare} * bm25({index}, {weights}) / bm25({index}, {complete}) AS score
            FROM {index} WHERE {index} MATCH :{key}"""

    return scored("chunk_index", _IN_TEXT), scored("document_index", _IN_NAME)


def number_of(reading: Reading, index: str, term: Term) -> int:
    """Return in how many visible chunks, or documents by name, a term matches; at most `_MOST`."""
    owner = "chunks" if index in ("chunk_index", word_parts.CHUNKS) else "documents"
    met = f"{index} MATCH :expression AND owner.id = {index}.rowid"
    if not reading.sqlite:
        met = f"words @@ CAST(:expression AS tsquery) AND owner.id = {index}.id"
    counted = text(
        f"SELECT count(*) FROM (SELECT 1 FROM {index} CROSS JOIN {owner} AS owner WHERE {met} LIMIT {_MOST}) AS met"
    )
    expression = _fts5(term) if reading.sqlite else _tsquery([term])
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
    parameters[key] = letters

    def holding(table: str, view: str, column: str) -> str:
        may = word_parts.narrowed(reading, table, f"{key}p", letters, parameters)
        # As an array: PostgreSQL would otherwise fold all texts first, because it takes that for cheap.
        chosen = f"IN ({may})" if reading.sqlite else f"= ANY(ARRAY({may}))"
        return f"SELECT id, 1.0 AS score FROM {view} WHERE id {chosen} AND {_holds(reading, column, key)}"

    return holding(word_parts.CHUNKS, "chunk_text", "text"), holding(
        word_parts.DOCUMENTS, "document_names", f"({ALL_NAMES})"
    )


def _condition(reading: Reading, key: str, condition: Filter, parameters: dict[str, Any]) -> str:
    """Return the condition that a row of `documents` passes the filter. Adds its values to `parameters`, prefixed by `key`."""
    if condition.name in (FilterName.DATE, FilterName.ADDED):
        first, end = condition.values
        parameters |= {f"{key}_0": first, f"{key}_1": end - 1}
        added = "(SELECT first_seen_at FROM items WHERE items.id = documents.item_id)"
        time = "documents.moment" if condition.name is FilterName.DATE else added
        met = f"{time} BETWEEN :{key}_0 AND :{key}_1"
    elif condition.name is FilterName.HAS:
        met = " OR ".join(HAS[value] for value in condition.values) or "FALSE"
    else:
        met = " OR ".join(
            _one(reading, condition.name, f"{key}_{n}", value, parameters) for n, value in enumerate(condition.values)
        )
    return f"NOT coalesce(({met}), FALSE)" if condition.is_negated else f"({met})"


def _one(reading: Reading, name: FilterName, key: str, value: str, parameters: dict[str, Any]) -> str:
    of_source = "documents.source_id IN (SELECT id FROM sources WHERE {})"
    of_item = "documents.item_id IN (SELECT id FROM items WHERE {})"
    of_its_item = "EXISTS (SELECT 1 FROM items WHERE items.id = documents.item_id AND {})"
    of_type = "documents.content_id IN (SELECT id FROM contents WHERE {})"
    # The people are at the end of long rows, so only those of documents that pass all else are read.
    of_content = "EXISTS (SELECT 1 FROM contents WHERE contents.id = documents.content_id AND {})"

    def holds(column: str) -> str:
        return _holds(reading, f"fold(coalesce({column}, ''))", key)

    people_in = partial(_member, reading, "contents.properties")

    parameters[key] = value if name is FilterName.TYPE else fold(value).strip()
    if not parameters[key]:
        return "FALSE"
    match name:
        case FilterName.TITLE:
            return holds(_TITLES)
        case FilterName.PATH:
            return of_item.format(holds("items.locator"))
        case FilterName.FROM:
            own = of_content.format(f"({holds(people_in('from'))} OR {holds('contents.author')})")
            # Of an attachment, the metadata has the sender of its message.
            return f"({holds(_member(reading, 'documents.metadata', 'from'))} OR {own})"
        case FilterName.TO:
            people = map(holds, map(people_in, ("to", "cc", "bcc")))
            return of_content.format(f"({' OR '.join(people)})")
        case FilterName.SOURCE:
            return of_source.format(f"fold(sources.name) = :{key}")
        case FilterName.KIND:
            return of_source.format(f"sources.kind = :{key}")
        case FilterName.TYPE if "/" not in value:
            return f"{_member(reading, 'documents.metadata', 'kind')} = :{key}"
        case FilterName.TYPE:
            like = "LIKE" if reading.sqlite else "ILIKE"
            return of_type.format(f"contents.media_type {like} :{key}")
        case FilterName.IS if value == UNANSWERED:
            return _unanswered(reading, parameters)
        case FilterName.IS:
            return of_its_item.format(f"{_member(reading, 'items.attributes', 'state')} = :{key}")
        case FilterName.LABEL:
            labels = "json_each(items.attributes, '$.labels') AS label"
            if not reading.sqlite:
                labels = "jsonb_array_elements_text(items.attributes::jsonb -> 'labels') AS label(value)"
            return of_its_item.format(f"EXISTS (SELECT 1 FROM {labels} WHERE fold(label.value) = :{key})")
        case FilterName.LANG:
            return of_type.format(f"lower(contents.language) = :{key}")
        case _:
            table, column = _TABLES[name]
            parameters[key] = folded_path(value)
            query = f"SELECT 1 FROM {table} WHERE document_id = documents.id AND {column} = :{key}"
            return f"EXISTS ({query})"


def _unanswered(reading: Reading, parameters: dict[str, Any]) -> str:
    names = {"in_mailbox": "flags", "answered": "\\Answered", "draft": "\\Draft", "sent": "\\Sent"}
    parameters |= {name: json.dumps(value) for name, value in names.items()}
    met = {name: _holds(reading, "coalesce(items.attributes, '')", name) for name in names}
    return _UNANSWERED.format(**met, list=_member(reading, "contents.properties", "list-id"))


def _holds(reading: Reading, folded: str, key: str) -> str:
    """Return the condition that a folded text has the text in a parameter."""
    return f"{'instr' if reading.sqlite else 'strpos'}({folded}, :{key}) > 0"


def _member(reading: Reading, column: str, field: str) -> str:
    """Return a field of a JSON column, as text."""
    return f"json_extract({column}, '$.\"{field}\"')" if reading.sqlite else f"({column}::jsonb ->> '{field}')"
