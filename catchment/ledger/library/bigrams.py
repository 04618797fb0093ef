"""The index of letters: texts in scripts that put no spaces between words are found by the pairs of letters in them.

"水文学" is indexed as 水文, 文学 and 学, each once for a passage or a document's names. The pairs of what is looked for
narrow a search down to few texts, which are then read; so the index decides how fast a text is found, never whether.

Only texts in such scripts are in it, and only the pairs are kept (FTS5 without positions and contents, tsvector): whoever
changes what `pairs` answers has to make the index anew, because old pairs are taken out by making them once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import add as add_letters
from typing import Any

from sqlalchemy import text

from catchment.ledger.db.database import Reading, Writing
from catchment.ledger.db.lookup import composed
from catchment.ledger.library.query import NO_SPACES

CHUNKS, DOCUMENTS = "chunk_pairs", "document_pairs"
"""The indexes of passages, and of the names of live documents."""

SQLITE = tuple(
    f"CREATE VIRTUAL TABLE {table} USING fts5(pairs, content = '', detail = none, tokenize = 'ascii')"
    for table in (CHUNKS, DOCUMENTS)
)
POSTGRES = tuple(
    statement
    for table in (CHUNKS, DOCUMENTS)
    for statement in (
        f"CREATE TABLE {table} (id BIGINT PRIMARY KEY, pairs TSVECTOR NOT NULL)",
        f"CREATE INDEX {table}_pairs ON {table} USING gin (pairs)",
    )
)

_LEADS = bytes([0xE0, 0xE1, *range(0xE3, 0xEE), 0xEF, *range(0xF0, 0xF5)])
"""The bytes that letters of these scripts begin with in UTF-8; few letters of other scripts do."""

_ENOUGH = 16
"""So many pairs narrow a search down as far as all would."""


def has_letters(words: str) -> bool:
    """Whether there is a letter of these scripts in the text."""
    return _may_have(words) and NO_SPACES.search(composed(words)) is not None


def pairs(words: str) -> str:
    """The pairs of letters in the text, each once, with spaces between; the last letter of a run alone."""
    if not _may_have(words):
        return ""
    found: dict[str, None] = {}
    for run in NO_SPACES.findall(composed(words)):
        found |= dict.fromkeys(map(add_letters, run, run[1:]))
        found[run[-1]] = None
    return " ".join(found)


def _may_have(words: str) -> bool:
    """A quick answer for the many texts that have no such letter: 2 µs for a page, where the expression takes 20."""
    if words.isascii():
        return False
    data = words.encode("utf-8", "surrogatepass")
    return len(data.translate(None, _LEADS)) < len(data)


def add(writing: Writing, table: str, rows: Iterable[tuple[int, str]]) -> None:
    """Index texts (id, text) that are not indexed; those in other scripts are passed over."""
    found = [(number, told) for number, words in rows if (told := pairs(words))]
    if not found:
        return
    if writing.sqlite:
        writing.connection.exec_driver_sql(f"INSERT INTO {table} (rowid, pairs) VALUES (?, ?)", found)
    else:
        # Made of words that are ready, because a parser would split some scripts at their vowels.
        statement = text(f"INSERT INTO {table} VALUES (:id, array_to_tsvector(string_to_array(:pairs, ' ')))")
        writing.execute(statement, [{"id": number, "pairs": told} for number, told in found])


def forget(writing: Writing, table: str, rows: Sequence[tuple[int, str]]) -> None:
    """Take texts (id, text) out of the index; they must be as they were when they were indexed."""
    found = [(number, told) for number, words in rows if (told := pairs(words))]
    if not found:
        return
    if writing.sqlite:
        statement = f"INSERT INTO {table} ({table}, rowid, pairs) VALUES ('delete', ?, ?)"
        writing.connection.exec_driver_sql(statement, found)
    else:
        writing.execute(text(f"DELETE FROM {table} WHERE id = :id"), [{"id": number} for number, _ in found])


def narrowed(reading: Reading, table: str, key: str, wanted: str, parameters: dict[str, Any]) -> str:
    """A query for the ids of all texts that may hold the wanted text, which has a letter of these scripts."""
    asked = []
    for run in NO_SPACES.findall(composed(wanted)):
        ends = range(max(1, len(run) - 1))
        asked += [(run[start : start + 2], len(run) == 1) for start in ends]
    asked = list(dict.fromkeys(asked))[:_ENOUGH]
    if reading.sqlite:
        parameters[key] = " ".join(f'"{pair}"{" *" if begins else ""}' for pair, begins in asked)
        return f"SELECT rowid FROM {table} WHERE {table} MATCH :{key}"
    parameters[key] = " & ".join(f"'{pair}'{':*' if begins else ''}" for pair, begins in asked)
    return f"SELECT id FROM {table} WHERE pairs @@ CAST(:{key} AS tsquery)"


def indexed(reading: Reading, table: str) -> str:
    """A query for the ids of the texts that are indexed."""
    return f"SELECT id FROM {table}{'_docsize' if reading.sqlite else ''}"
