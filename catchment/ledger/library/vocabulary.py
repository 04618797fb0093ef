"""The vocabulary of the search index: folded words.

The index has the words of all sources. If only some are visible, each word is counted in their passages and names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from string import ascii_lowercase, digits
from typing import Any

from sqlalchemy import func, select, text

from catchment.ledger.db.database import Reading, Store, among, json_list
from catchment.ledger.db.schema import contents, documents
from catchment.ledger.library import query_sql
from catchment.ledger.library.query import Term
from catchment.ledger.library.word_index import INDEXES

_SAMPLE = 1_000
"""Number of documents to read for their languages. A smaller sample misses a language of few notes, and its stop words."""
_MOST = 20_000
"""Maximum number of words per query. Only libraries with millions of chunks exceed it for a prefix of three letters."""


class Vocabulary:
    """The words of one library, read on demand."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def beginning(self, prefixes: Iterable[str]) -> dict[str, list[str]]:
        """Return for each prefix of letters and digits the words that begin with it.

        Also the words of invisible sources, because counting is slow: choose some, and pass them to `among`.
        """
        with self._store.read() as reading:
            # U+10FFFF sorts after every character of a word.
            limits = {prefix: {"first": prefix, "last": f"{prefix}\U0010ffff"} for prefix in prefixes}
            return {
                prefix: list(_words(reading, "term >= :first AND term < :last", limits[prefix])) for prefix in limits
            }

    def letters(self, first: str) -> set[str]:
        """Return the letters of a script in the library: of words that begin with this one, and the Latin ones with those."""
        with self._store.read() as reading:
            words = _words(
                reading, "term >= :first AND term < :last", {"first": first, "last": f"{first}\U0010ffff"}, 1_000
            )
        return set(ascii_lowercase + digits if first.isascii() else "").union(*words)

    def among(self, words: Collection[str]) -> dict[str, int]:
        """Return which of these words are visible, each with its number of visible chunks and document names."""
        if not words:
            return {}
        with self._store.read() as reading:
            if reading.sqlite:
                counts = _words(reading, "term IN (SELECT value FROM json_each(:words))", {"words": json_list(words)})
            else:
                counts = _words(reading, "term = ANY(:words)", {"words": list(words)})
            if not reading.is_limited:
                return counts
            numbers = {
                word: sum(query_sql.number_of(reading, index, Term(word, prefix=False)) for index in INDEXES)
                for word in counts
            }
            return {word: number for word, number in numbers.items() if number}

    def passages(self) -> int:
        """Return the approximate number of chunks."""
        with self._store.read() as reading:
            return query_sql.passages_about(reading)

    def languages(self) -> set[str]:
        """Return the languages of a sample of documents, as ISO 639-1 codes."""
        with self._store.read() as reading:
            if reading.is_limited:
                # By position: the IDs would reveal the number of other documents.
                place = func.row_number().over(order_by=documents.c.id).label("place")
                placed = select(documents.c.content_id, place).where(documents.c.removed_at.is_(None)).subquery()
                step = select(func.max(placed.c.place) / _SAMPLE + 1).scalar_subquery()
                sampled = select(placed.c.content_id).where(placed.c.place % step == 0)
            else:
                highest = reading.execute(select(func.max(documents.c.id))).scalar() or 0
                sample = range(highest, 0, -(highest // _SAMPLE + 1))
                sampled = select(documents.c.content_id).where(among(reading, documents.c.id, sample))
            known = contents.c.id.in_(sampled), contents.c.language.is_not(None)
            return set(reading.execute(select(contents.c.language).where(*known).distinct()).scalars())


def _words(reading: Reading, which: str, parameters: dict[str, Any], most: int = _MOST) -> dict[str, int]:
    """Return words of all sources, each with its number of chunks and document names."""
    limit = "" if reading.is_limited else f"LIMIT {most}"
    rows = " UNION ALL ".join(
        f"SELECT * FROM (SELECT term, doc FROM {_vocabulary(reading, index)} WHERE {which} {limit}) AS listed"
        for index in INDEXES
    )
    counts: Counter[str] = Counter()
    for word, number in reading.execute(text(rows), parameters):
        counts[word] += number
    return dict(counts)


def _vocabulary(reading: Reading, index: str) -> str:
    """Return the table of the words of an index. That of FTS5 belongs to the connection and uses no disk space."""
    if not reading.sqlite:
        return f"(SELECT term, doc FROM index_words WHERE name = '{index}') AS words"
    name = f"temp.{index}_words"
    reading.connection.exec_driver_sql(
        f"CREATE VIRTUAL TABLE IF NOT EXISTS {name} USING fts5vocab('main', '{index}', 'row')"
    )
    return name
