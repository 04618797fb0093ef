"""The vocabulary of the search index, as folded by FTS5: lower case, without accents. Not available on PostgreSQL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from sqlalchemy import func, select, text

from catchment.ledger.db.database import Reading, Store, among, json_list
from catchment.ledger.db.schema import contents, documents
from catchment.ledger.library import word_parts

_INDEXES = ("chunk_index", "document_index", word_parts.CHUNKS, word_parts.DOCUMENTS)
_SAMPLE = 300
_MOST = 20_000
"""Maximum number of words per query. Only libraries with millions of chunks exceed it for a prefix of three letters."""


class Vocabulary:
    """The words of one library, read on demand."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def beginning(self, prefix: str) -> dict[str, int]:
        """Return the words with this prefix of letters and digits, each with its number of chunks and document names."""
        if not prefix:
            return {}
        # U+10FFFF sorts after every character of a word.
        return self._words("term >= :first AND term < :last", {"first": prefix, "last": f"{prefix}\U0010ffff"})

    def among(self, words: Collection[str]) -> dict[str, int]:
        """Return which of these words occur, each with its number of chunks and document names."""
        return (
            self._words("term IN (SELECT value FROM json_each(:words))", {"words": json_list(words)}) if words else {}
        )

    def languages(self) -> set[str]:
        """Return the languages of a sample of documents, as ISO 639-1 codes."""
        with self._store.read() as reading:
            highest = reading.execute(select(func.max(documents.c.id))).scalar() or 0
            sample = range(highest, 0, -(highest // _SAMPLE + 1))
            sampled = select(documents.c.content_id).where(among(reading, documents.c.id, sample))
            known = contents.c.id.in_(sampled), contents.c.language.is_not(None)
            return set(reading.execute(select(contents.c.language).where(*known).distinct()).scalars())

    def _words(self, which: str, parameters: dict[str, str]) -> dict[str, int]:
        found: Counter[str] = Counter()
        with self._store.read() as reading:
            if not reading.sqlite:
                return {}
            for index in _INDEXES:
                rows = f"SELECT term, doc FROM {_vocabulary(reading, index)} WHERE {which} LIMIT {_MOST}"
                for word, number in reading.execute(text(rows), parameters):
                    found[word] += number
        return dict(found)


def _vocabulary(reading: Reading, index: str) -> str:
    """Return the name of the FTS5 vocabulary table of an index. It belongs to the connection and uses no disk space."""
    name = f"temp.{index}_words"
    reading.connection.exec_driver_sql(
        f"CREATE VIRTUAL TABLE IF NOT EXISTS {name} USING fts5vocab('main', '{index}', 'row')"
    )
    return name
