"""A ledger that consists of some sources only: on its connections, views stand in for the tables.

Every statement then sees the rows of these sources alone, and so does every count, listing and suggestion. The full-text index
with its statistics stays global (see `word_index` and `vocabulary`), and so do the counters of IDs and the threads of mail.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from sqlalchemy import Engine, event

from catchment.ledger.db.schema import chunks, contents, embeddings, metadata, sources

_SOURCES = "SELECT id FROM {base}.sources WHERE name IN (SELECT name FROM visible_names)"
_OF_CONTENT = f"""EXISTS (SELECT 1 FROM {{base}}.documents AS owner WHERE owner.content_id = {{table}}.{{column}}
    AND owner.removed_at IS NULL AND owner.source_id IN ({_SOURCES}))"""
_CONTENT_COLUMNS = {contents: "id", chunks: "content_id", embeddings: "content_id"}
_USUAL_SIZE = 150
"""Words of a passage whose score is not reduced for its length."""


def limit_to(engine: Engine, names: Collection[str]) -> None:
    """Let the connections of an engine see only the sources with these names. They cannot change these sources."""
    is_sqlite = engine.dialect.name == "sqlite"

    @event.listens_for(engine, "connect")
    def _stand_in(connection: Any, _record: object) -> None:
        cursor = connection.cursor()
        cursor.execute("CREATE TEMPORARY TABLE visible_names (name TEXT PRIMARY KEY)")
        mark = "?" if is_sqlite else "%s"
        cursor.executemany(f"INSERT INTO visible_names VALUES ({mark})", [(name,) for name in names])
        if is_sqlite:
            base = "main"
            connection.create_function("local_score", 4, local_score, deterministic=True)
            connection.create_function("mean_size", 1, mean_size, deterministic=True)
        else:
            base = cursor.execute("SELECT quote_ident(current_schema())").fetchone()[0]
        for statement in _views(base) if is_sqlite or _has_tables(cursor) else ():
            cursor.execute(statement)
        connection.commit()


def _has_tables(cursor: Any) -> bool:
    return cursor.execute("SELECT to_regclass('documents')").fetchone()[0] is not None


def _views(base: str) -> list[str]:
    conditions = {sources: "id IN ({sources})"}
    conditions |= {table: "source_id IN ({sources})" for table in metadata.tables.values() if "source_id" in table.c}
    conditions |= dict.fromkeys(_CONTENT_COLUMNS, _OF_CONTENT)
    return [
        f"CREATE TEMPORARY VIEW {table.name} AS SELECT * FROM {base}.{table.name} WHERE "
        + condition.format(
            base=base, table=table.name, column=_CONTENT_COLUMNS.get(table), sources=_SOURCES.format(base=base)
        )
        for table, condition in conditions.items()
    ]


def local_score(scored: float, complete: float, sizes: bytes, mean: float) -> float:
    """Return the score of one phrase in a row of FTS5, without the statistics of the index that are part of `bm25`.

    Args:
        scored: `bm25` of the phrase.
        complete: `bm25` with infinite weights. The rarity of the phrase is a factor of both.
        sizes: The sizes of the row, in the table `docsize`.
        mean: `mean_size` of the index.

    https://www.sqlite.org/fts5.html#the_bm25_function
    """
    share, size = scored / complete, sum(_numbers(sizes))
    # The weighted number of matches is a whole number, so that it does not depend on the mean.
    matches = round(share / max(1 - share, 1e-6) * (0.3 + 0.9 * size / mean))
    return 2.2 * matches / (matches + 0.3 + 0.9 * size / _USUAL_SIZE)


def mean_size(averages: bytes) -> float:
    """Return the mean number of words of a row, from the record of averages of an FTS5 index."""
    rows, *words = _numbers(averages)
    return max(1.0, sum(words) / max(rows, 1))


def rarity(number: int, of: int) -> float:
    """Return the factor of `bm25` for a phrase in so many of the passages."""
    return math.log(1 + (max(of, number) - number + 0.5) / (number + 0.5))


def _numbers(record: bytes) -> list[int]:
    """Return the numbers in a record of FTS5: seven bits in each byte, the highest first."""
    found, number = [], 0
    for byte in record:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            found.append(number)
            number = 0
    return found
