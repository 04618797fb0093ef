"""A ledger that consists of some sources only: on its connections, views stand in for the tables.

Every statement then sees the rows of these sources alone, and so does every count, listing and suggestion. The full-text index
stays global: `word_index` and `vocabulary` count in it again, and only the mean length of its rows has an effect. The counters
of IDs and the conversations of mail are global too.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from sqlalchemy import Engine, event

from catchment.ledger.db.schema import chunks, contents, embeddings, metadata, page_texts, sources

_SOURCES = "SELECT id FROM {base}.sources WHERE name IN (SELECT name FROM visible_names)"
_OF_CONTENT = f"""EXISTS (SELECT 1 FROM {{base}}.documents AS owner WHERE owner.content_id = {{table}}.{{column}}
    AND owner.removed_at IS NULL AND owner.source_id IN ({_SOURCES}))"""
_OF_FORMER = f"""EXISTS (SELECT 1 FROM {{base}}.formers AS owner WHERE owner.content_id = {{table}}.{{column}}
    AND owner.source_id IN ({_SOURCES}))"""
_OF_DOCUMENT = f"""EXISTS (SELECT 1 FROM {{base}}.documents AS owner WHERE owner.id = {{table}}.document_id
    AND owner.removed_at IS NULL AND owner.source_id IN ({_SOURCES}))"""
_OF_HASH = f"""EXISTS (SELECT 1 FROM {{base}}.contents JOIN {{base}}.documents AS owner ON owner.content_id = contents.id
    WHERE contents.hash = {{table}}.content_hash AND owner.removed_at IS NULL AND owner.source_id IN ({_SOURCES}))"""
_CONTENT_COLUMNS = {contents: "id", chunks: "content_id", embeddings: "content_id"}


def limit_to(engine: Engine, names: Collection[str]) -> None:
    """Let the connections of an engine see only the sources with these names. They cannot change these sources."""
    is_sqlite = engine.dialect.name == "sqlite"

    @event.listens_for(engine, "connect")
    def _stand_in(connection: Any, _record: object) -> None:
        cursor = connection.cursor()
        cursor.execute("CREATE TEMPORARY TABLE visible_names (name TEXT PRIMARY KEY)")
        mark = "?" if is_sqlite else "%s"
        cursor.executemany(f"INSERT INTO visible_names VALUES ({mark})", [(name,) for name in names])
        base = "main" if is_sqlite else cursor.execute("SELECT quote_ident(current_schema())").fetchone()[0]
        for statement in _views(base) if is_sqlite or _has_tables(cursor) else ():
            cursor.execute(statement)
        connection.commit()


def _has_tables(cursor: Any) -> bool:
    return cursor.execute("SELECT to_regclass('documents')").fetchone()[0] is not None


def _views(base: str) -> list[str]:
    conditions = {sources: "id IN ({sources})"}
    conditions |= {table: "source_id IN ({sources})" for table in metadata.tables.values() if "source_id" in table.c}
    conditions |= {table: _OF_DOCUMENT for table in metadata.tables.values() if "document_id" in table.c}
    conditions |= dict.fromkeys(_CONTENT_COLUMNS, _OF_CONTENT) | {contents: f"({_OF_CONTENT} OR {_OF_FORMER})"}
    conditions[page_texts] = _OF_HASH
    return [
        f"CREATE TEMPORARY VIEW {table.name} AS SELECT * FROM {base}.{table.name} WHERE "
        + condition.format(
            base=base, table=table.name, column=_CONTENT_COLUMNS.get(table), sources=_SOURCES.format(base=base)
        )
        for table, condition in conditions.items()
    ]


def rarity(number: int, of: int) -> float:
    """Return the factor of `bm25` for a phrase in so many of the passages."""
    return math.log(1 + (max(of, number) - number + 0.5) / (number + 0.5))
