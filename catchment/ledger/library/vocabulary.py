"""The words of the index, as FTS5 folded them: lower case, without accents. On PostgreSQL the index has no such list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from sqlalchemy import text

from catchment.ledger.db.database import Reading, Store, json_list

_INDEXES = ("chunk_index", "document_index")
_SAMPLE = 300
_MOST = 20_000
"""Words read from the vocabulary at once; a prefix of three letters has fewer, except in libraries of millions of passages."""


class Vocabulary:
    """The words of one library, read when asked."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def beginning(self, prefix: str) -> dict[str, int]:
        """The words with a prefix of letters and digits, each with the number of passages and names that have it."""
        if not prefix:
            return {}
        # No word continues with a letter beyond the last one of Unicode.
        return self._words("term >= :first AND term < :last", {"first": prefix, "last": f"{prefix}\U0010ffff"})

    def among(self, words: Collection[str]) -> dict[str, int]:
        """Those of the words that occur, each with the number of passages and names that have it."""
        return (
            self._words("term IN (SELECT value FROM json_each(:words))", {"words": json_list(words)}) if words else {}
        )

    def languages(self) -> set[str]:
        """The languages of a sample of the documents, as ISO 639-1 codes."""
        evenly = (
            "SELECT DISTINCT language FROM contents WHERE language IS NOT NULL AND id IN (SELECT content_id FROM documents"
            f" WHERE id % (SELECT coalesce(max(id), 0) / {_SAMPLE} + 1 FROM documents) = 0)"
        )
        with self._store.read() as reading:
            return set(reading.execute(text(evenly)).scalars())

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
    """The name of the table with the words of an index; it belongs to the connection and takes no room."""
    name = f"temp.{index}_words"
    reading.connection.exec_driver_sql(
        f"CREATE VIRTUAL TABLE IF NOT EXISTS {name} USING fts5vocab('main', '{index}', 'row')"
    )
    return name
