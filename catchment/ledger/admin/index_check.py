"""Checks of the full-text index, the tags and the folders against the library, and all of them made anew."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, zip_longest

from sqlalchemy import ColumnElement, delete, select, text, true

from catchment.ledger.db.database import AnyRow, Reading, Writing, among
from catchment.ledger.db.folding import fold
from catchment.ledger.db.job_states import in_parts
from catchment.ledger.db.schema import chunks, contents, doc_folders, doc_tags, documents
from catchment.ledger.library import word_index, word_parts
from catchment.ledger.library.word_index import ALL_NAMES, INDEXES


def check(reading: Reading) -> list[str]:
    """Return differences between the index and the tables."""
    findings = []
    for index, parts, stored, what in (
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
            (f"{stored} EXCEPT {indexed}", "is in the library, but not in the index"),
            (f"{indexed} EXCEPT {stored}", "is in the index, but not in the library"),
            (
                f"{word_parts.indexed(reading, parts)} EXCEPT {stored}",
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
    for table, texts, what in (
        (word_parts.CHUNKS, _passages_with_parts(reading), "Passage"),
        (word_parts.DOCUMENTS, _names_with_parts(reading), "The name of document"),
    ):
        expected = (number for number, words in texts if word_parts.parts(words))
        there = (number for (number,) in _in_order(reading, word_parts.indexed(reading, table)))
        wrong = next((pair for pair in zip_longest(expected, there) if pair[0] != pair[1]), None)
        if wrong is not None:
            first = min(number for number in wrong if number is not None)
            findings.append(f"{what} {first} differs from the index of word parts")
    return findings


def check_names(reading: Reading, which: ColumnElement[bool] | None = None) -> list[str]:
    """Return the first document with other tags or folders in their tables. Reads all documents that meet the condition."""
    live = documents.c.removed_at.is_(None) & (true() if which is None else which)
    numbers = reading.execute(select(documents.c.id).where(live).order_by(documents.c.id)).scalars().all()
    for part in in_parts(numbers):
        for table, expected in word_index.tags_and_folders(reading, among(reading, documents.c.id, part)).items():
            rows = reading.execute(select(table).where(among(reading, table.c.document_id, part)))
            if differing := expected ^ set(map(tuple, rows)):
                first = min(document for *_, document in differing)
                return [f"Document {first} differs from its rows in {table.name}"]
    return []


def _passages_with_parts(reading: Reading) -> Iterator[tuple[int, str]]:
    """Yield the chunks of contents that may have word parts, with their texts.

    Slices in Python: the database scans the text from its start for each chunk, which takes 145 s for 10 MB.
    """
    # The plus keeps SQLite from using the index by content, which would require sorting all chunks in memory.
    may_have = (
        "length(text) < length(CAST(text AS BLOB)) OR text GLOB '*[a-z0-9][A-Z]*' OR text GLOB '*[A-Z][A-Z][a-z]*'"
        " OR text GLOB '*[A-Za-z0-9][*~<&]*'"
        if reading.sqlite
        else "length(text) < octet_length(text) OR text ~ '[a-z0-9][A-Z]|[A-Z]{2}[a-z]|[A-Za-z0-9][*~<&]'"
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
        (number, words)
        for number, words in _in_order(
            reading, f"SELECT id, {ALL_NAMES} AS words FROM documents WHERE removed_at IS NULL"
        )
    )


def rebuild(writing: Writing) -> None:
    """Build all indexes anew. Reads every text of the library."""
    for index in INDEXES:
        word_parts.clear(writing, index)
    for table in (doc_tags, doc_folders):
        writing.execute(delete(table))
    numbers = writing.execute(select(contents.c.id).order_by(contents.c.id)).scalars().all()
    for part in in_parts(numbers):
        word_index.add_chunks(writing, list(word_index.passages(writing, part)))
    live = writing.execute(select(documents.c.id).where(documents.c.removed_at.is_(None))).scalars().all()
    for part in in_parts(live):
        word_index.learn_names(writing, among(writing, documents.c.id, part))


def rebuild_parts(writing: Writing) -> None:
    """Build the indexes of word parts anew. Reads the texts that may have some."""
    for table, texts in (
        (word_parts.CHUNKS, _passages_with_parts(writing)),
        (word_parts.DOCUMENTS, _names_with_parts(writing)),
    ):
        word_parts.clear(writing, table)
        while some := list(islice(texts, _AT_ONCE)):
            word_parts.add(writing, table, some)


def _in_order(reading: Reading, query: str) -> Iterator[AnyRow]:
    return iter(reading.execute(text(f"{query} ORDER BY 1").execution_options(yield_per=2_000)))


def check_ways(reading: Reading) -> list[str]:
    """Detect index pages that no search reaches. SQLite's integrity check only compares the pages with each other.

    FTS5 page numbers are described at https://www.sqlite.org/fts5.html and at the top of `fts5_index.c`.
    """
    for index in INDEXES if reading.sqlite else ():
        ask = reading.connection.exec_driver_sql
        ways = {(segment, way >> 1) for segment, way in ask(f"SELECT segid, pgno FROM {index}_idx")}
        for number, size, words in ask(
            f"SELECT id, length(block), substr(block, 3, 2) FROM {index}_data WHERE id >= 1 << 37"
        ):
            is_leaf, has_words = not number >> 31 & 0x3F, size > int.from_bytes(words)
            if is_leaf and has_words and (number >> 37, number & 0x7FFFFFFF) not in ways:
                return ["The word index contains unreachable words"]
    return []


_AT_ONCE = 1_000
_LARGE = 200_000
"""Size in characters from which the chunks of a text are sliced before the comparison; see `_passages_with_parts`."""


def check_words(writing: Writing) -> None:
    """Compare the index with the texts, using SQLite's integrity check. Raises the driver's error if they differ."""
    # The tables made for the comparison are rolled back.
    with writing.connection.begin_nested() as aside:
        _cut_out_large(writing)
        for index in INDEXES:
            writing.connection.exec_driver_sql(f"INSERT INTO {index} ({index}, rank) VALUES ('integrity-check', 1)")
        aside.rollback()


def differs_on_postgresql(reading: Reading) -> bool:
    """Return whether a vector of the word index differs from its text, or a count of words from the vectors."""
    for index, column, read in (
        ("chunk_index", contents.c.id, lambda part: list(word_index.passages(reading, part))),
        (
            "document_index",
            documents.c.id,
            lambda part: word_index.names(reading, among(reading, documents.c.id, part)),
        ),
    ):
        parts = in_parts(reading.execute(select(column)).scalars().all())
        if any(word_index.differs(reading, index, read(part)) for part in parts):
            return True
    counts = " UNION ALL ".join(
        f"""SELECT '{index}' AS name, word AS term, ndoc AS doc FROM ts_stat('SELECT words FROM {index}')
        UNION ALL SELECT '{index}', '{word_index.TEXTS}', count(*) FROM {index}
        UNION ALL SELECT '{index}', '{word_index.WORDS}', sum(length) FROM {index}"""
        for index in INDEXES
    )
    differing = f"""SELECT 1 FROM index_words FULL JOIN ({counts}) AS counted USING (name, term)
        WHERE coalesce(index_words.doc, 0) <> coalesce(counted.doc, 0) LIMIT 1"""
    return reading.execute(text(differing)).first() is not None


def _cut_out_large(writing: Writing) -> None:
    """Replace the view used by the integrity check with a view that has the chunks of large texts precomputed."""
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
        run("INSERT INTO cut_out VALUES (?, ?)", [(number, fold(whole[start:stop])) for number, start, stop in spans])
    run("DROP VIEW chunk_text")
    run(
        """CREATE VIEW chunk_text AS
        SELECT chunks.id, fold(chunks.heading) AS heading,
            coalesce((SELECT cut_out.text FROM cut_out WHERE cut_out.id = chunks.id),
            (SELECT fold(substr(contents.text, chunks.start + 1, chunks.stop - chunks.start))
             FROM contents WHERE contents.id = chunks.content_id)) AS text
        FROM chunks"""
    )
