"""The index of word parts: bigrams of scripts without spaces, the parts of identifiers, and words with markup inside.

"水文学" is indexed as 水文, 文学 and 学, each once per chunk or per document's names. The bigrams of a search term
narrow the search to few texts, which are then read. So they affect the speed of a search but not its result.

"HttpClientFactory" is indexed as http, client, factory, httpclient and clientfactory. The word itself, and the parts of
snake_case, are words of the full-text index. "Ka**tze**nklo" is indexed as katzenklo.

Only texts with such words are indexed, and only the parts are stored (FTS5 without positions and content, or tsvector). An
entry is deleted by computing its parts again, so a change of `parts` requires rebuilding the index.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from operator import add as add_letters
from typing import Any

from catchment.ledger.db.database import Reading, Writing
from catchment.ledger.db.folding import UNSPACED, fold, may_be_unspaced, plain_words

CHUNKS, DOCUMENTS = "chunk_pairs", "document_pairs"
"""Names of the index tables for chunks and for the names of live documents."""

SQLITE = tuple(
    f"CREATE VIRTUAL TABLE {table} USING fts5(pairs, content = '', detail = none, tokenize = 'ascii')"
    for table in (CHUNKS, DOCUMENTS)
)

NO_SPACES = re.compile(f"[{UNSPACED}]+")
"""A run of characters of scripts without spaces between words."""

_SHAPES = (
    bytes(97 if chr(n).islower() or chr(n).isdigit() else 65 if chr(n).isupper() else 32 for n in range(128))
    + b" " * 128
)
"""Lower-case letters and digits as "a", capitals as "A", everything else as a space."""
_IDENTIFIER = re.compile(
    rf"(?<![^\W_{UNSPACED}])(?=[A-Za-z0-9]*?(?:[a-z0-9][A-Z]|[A-Z]{{2}}[a-z]))[A-Za-z0-9]{{3,64}}(?![^\W_{UNSPACED}])"
)
_PIECE = re.compile(r"[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z]+[0-9]*|[0-9]+|[A-Z]")
_PLURAL = re.compile(r"[A-Z]+s")
"""An abbreviation in the plural, such as PDFs, has no parts."""
_MOST_PIECES = 8
"""Words of more parts are seldom identifiers; their runs are not indexed."""
_LETTER = r"[^\s!-/:-@\[-`{-\x7f]"
_TAG = r"(?i:/?(?:b|big|code|del|em|font|i|ins|kbd|mark|s|small|span|strike|strong|sub|sup|tt|u|wbr)(?:\s[^<>]*)?/?>)"
_SHY = r"(?i:shy|#173|#xad);"
_MORE = rf"(?:~~|<{_TAG}|&{_SHY})*(?={_LETTER})"
_INSIDE = re.compile(
    r"\*(?<=[^\W\d_]\*)\*{0,2}(?=[^\W\d_])"
    rf"|~(?<={_LETTER}~)~{_MORE}|<(?<={_LETTER}<){_TAG}{_MORE}|&(?<={_LETTER}&){_SHY}{_MORE}"
)
"""Emphasis and soft hyphens between letters in Markdown, where underscores mean none. https://spec.commonmark.org/0.31.2/

Each alternative begins with a literal, as `_FRACTION` of the folding does: a passage takes 10 µs and not 100.
"""
_MARKED = re.compile(rf"{_LETTER}+(?:(?:{_INSIDE.pattern}){_LETTER}+)+")

_ENOUGH = 16
"""Number of bigrams that narrow a search sufficiently."""


def parts(words: str) -> str:
    """Return the distinct bigrams, parts of identifiers and words with markup inside of the text, separated by spaces.

    The last character of a run without spaces stands alone.
    """
    ordered: dict[str, None] = {}
    if may_be_unspaced(words):
        for run in NO_SPACES.findall(fold(words)):
            ordered |= dict.fromkeys(map(add_letters, run, run[1:]))
            ordered[run[-1]] = None
    shape = words.encode("utf-8", "replace").translate(_SHAPES)
    if b"aA" in shape or b"AAa" in shape:
        for word in dict.fromkeys(_IDENTIFIER.findall(words)):
            ordered |= dict.fromkeys(_parts_of(word))
    if _INSIDE.search(words):
        for word in _MARKED.findall(words):
            ordered |= dict.fromkeys(_unmarked(word).split())
    return " ".join(ordered)


def _unmarked(word: str) -> str:
    return plain_words(_INSIDE.sub("", word))


def pieces_of(word: str) -> list[str]:
    """Return the parts of an identifier in lower case, or the word itself: ["http", "client"] for "HttpClient"."""
    if not _IDENTIFIER.fullmatch(word) or _PLURAL.fullmatch(word):
        return [word.lower()]
    return [piece.lower() for piece in _PIECE.findall(word)]


def _parts_of(word: str) -> Iterator[str]:
    """Yield each part of an identifier and each run of several parts, without the identifier itself."""
    pieces = pieces_of(word)
    longest = len(pieces) - 1 if len(pieces) <= _MOST_PIECES else 1
    for length in range(1, longest + 1):
        for start in range(len(pieces) - length + 1):
            if len(part := "".join(pieces[start : start + length])) > 1:
                yield part


def part_spans(text: str, words: Collection[str], prefixes: tuple[str, ...] = ()) -> Iterator[tuple[int, int]]:
    """Yield where words with markup inside, and parts of identifiers or runs of them, are wanted or begin with a prefix."""
    if _INSIDE.search(text):
        for word in _MARKED.finditer(text):
            if (plain := _unmarked(word[0])) in words or plain.startswith(prefixes or ("\0",)):
                yield word.span()
    shape = text.encode("utf-8", "replace").translate(_SHAPES)
    if b"aA" not in shape and b"AAa" not in shape:
        return
    for word in _IDENTIFIER.finditer(text):
        spans = [piece.span() for piece in _PIECE.finditer(text, word.start(), word.end())]
        if len(spans) > _MOST_PIECES or _PLURAL.fullmatch(word[0]):
            continue
        for first, (start, _) in enumerate(spans):
            for _, stop in reversed(spans[first:]):
                part = text[start:stop].lower()
                if part in words or part.startswith(prefixes or ("\0",)):
                    yield start, stop


def add(writing: Writing, table: str, rows: Iterable[tuple[int, str]]) -> None:
    """Index new texts (ID, text). Texts in other scripts are skipped."""
    parts_of_rows = [(number, its_parts) for number, words in rows if (its_parts := parts(words))]
    if not parts_of_rows:
        return
    if writing.sqlite:
        writing.connection.exec_driver_sql(f"INSERT INTO {table} (rowid, pairs) VALUES (?, ?)", parts_of_rows)
    else:
        vectors = ((number, its_parts.split(" ")) for number, its_parts in parts_of_rows)
        writing.copy(
            table,
            [(number, " ".join(f"'{part}'" for part in its_words), len(its_words)) for number, its_words in vectors],
        )


def forget(writing: Writing, table: str, rows: Sequence[tuple[int, str]]) -> None:
    """Remove texts (ID, text) from the index. They must be equal to the indexed ones."""
    parts_of_rows = [(number, its_parts) for number, words in rows if (its_parts := parts(words))]
    if not parts_of_rows:
        return
    if writing.sqlite:
        statement = f"INSERT INTO {table} ({table}, rowid, pairs) VALUES ('delete', ?, ?)"
        writing.connection.exec_driver_sql(statement, parts_of_rows)
    else:
        remove_vectors(writing, table, [number for number, _ in parts_of_rows])


def remove_vectors(writing: Writing, table: str, ids: list[int]) -> None:
    """Remove texts from an index on PostgreSQL, in one statement."""
    writing.connection.exec_driver_sql(f"DELETE FROM {table} WHERE id = ANY(%s)", (ids,))


def clear(writing: Writing, table: str) -> None:
    """Remove everything from the index."""
    every = f"INSERT INTO {table} ({table}) VALUES ('delete-all')" if writing.sqlite else f"DELETE FROM {table}"
    writing.connection.exec_driver_sql(every)


def narrowed(reading: Reading, table: str, key: str, word: str, parameters: dict[str, Any]) -> str:
    """Return a query for the IDs of candidate texts. `word`: folded, with a character of these scripts."""
    conditions = []
    for run in NO_SPACES.findall(word):
        ends = range(max(1, len(run) - 1))
        conditions += [(run[start : start + 2], len(run) == 1) for start in ends]
    conditions = list(dict.fromkeys(conditions))[:_ENOUGH]
    if reading.sqlite:
        parameters[key] = " ".join(f'"{pair}"{" *" if begins else ""}' for pair, begins in conditions)
        return f"SELECT rowid FROM {table} WHERE {table} MATCH :{key}"
    parameters[key] = " & ".join(f"'{pair}'{':*' if begins else ''}" for pair, begins in conditions)
    return f"SELECT id FROM {table} WHERE words @@ CAST(:{key} AS tsquery)"


def matcher(reading: Reading, words: Iterable[tuple[str, bool]]) -> str:
    """Return an expression for identifiers with one of these parts; each with whether it is a prefix."""
    if reading.sqlite:
        return " OR ".join(f'"{word}"{" *" if begins else ""}' for word, begins in words)
    return " | ".join(f"'{word}'{':*' if begins else ''}" for word, begins in words)


def matching(reading: Reading, table: str, key: str, score: float) -> str:
    """Return a query for the IDs of the texts that match the expression in a parameter, all with the same score."""
    if reading.sqlite:
        return f"SELECT rowid AS id, {score} AS score FROM {table} WHERE {table} MATCH :{key}"
    return f"SELECT id, {score} AS score FROM {table} WHERE words @@ CAST(:{key} AS tsquery)"


def indexed(reading: Reading, table: str) -> str:
    """Return a query for the IDs of the indexed texts."""
    return f"SELECT id FROM {table}{'_docsize' if reading.sqlite else ''}"
