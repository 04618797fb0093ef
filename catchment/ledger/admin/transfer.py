"""The whole ledger, row by row, into an empty database of either kind: moves, and the backups of PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain as in_turn

from sqlalchemy import Connection, delete, func, inspect, select, text

from catchment.errors import LedgerCorrupt, Refused
from catchment.ledger.admin import index_check
from catchment.ledger.admin.opening import make
from catchment.ledger.db.database import Reading, Store, Writing
from catchment.ledger.db.ownership import forget_owner
from catchment.ledger.db.schema import (
    chain,
    counters,
    doc_folders,
    doc_tags,
    host_purges,
    hosts,
    metadata,
    revision,
    search_model,
)
from catchment.ledger.library.word_index import INDEXES
from catchment.ledger.sinks import outbox
from catchment.runtime import heartbeat

_ROWS_AT_ONCE = 500
_REBUILT = (doc_tags, doc_folders)
_LEFT = (hosts, host_purges)
"""Hosts join the new ledger themselves."""
_TABLES = [table for table in metadata.sorted_tables if table not in (*_REBUILT, *_LEFT, counters)]


def move(source: Store, target: Store) -> int:
    """Copy a ledger into an empty database, in one transaction. Return the number of rows of its history.

    Raises Refused if the target has tables, and LedgerCorrupt if the copy differs.
    """
    with source.read() as reading, target.write(as_owner=False) as writing:
        if inspect(writing.connection).get_table_names():
            raise Refused("the new database: not empty; name an empty one, or move its tables away")
        copy(reading, writing)
        return int(writing.execute(select(chain.c.length)).scalar_one())


def copy(reading: Reading, writing: Writing) -> None:
    """Copy a ledger into a database without its tables, build the index there, and compare. Raises LedgerCorrupt.

    The copy belongs to the next home that writes to it.
    """
    make(writing.connection)
    for table in (revision, chain, search_model):
        writing.execute(delete(table))
    total = sum(_count(reading, table.name) for table in _TABLES)
    count = 0
    with _indexed_afterwards(writing):
        for table in _TABLES:
            rows = select(table).order_by(*table.primary_key).execution_options(yield_per=_ROWS_AT_ONCE)
            for part in reading.execute(rows).partitions():
                writing.insert(table, list(map(tuple, part)))
                heartbeat.report("copying", count := count + len(part), total + 1)
        index_check.rebuild(writing)
    # The rebuilt index has new IDs.
    writing.execute(delete(counters))
    writing.insert(counters, list(map(tuple, reading.execute(select(counters)))))
    for table in (*_TABLES, *_REBUILT, counters):
        if _count(reading, table.name) != _count(writing, table.name):
            raise LedgerCorrupt(f"ledger: the copy of {table.name} is incomplete; nothing was changed")
    if reading.execute(select(chain)).all() != writing.execute(select(chain)).all():
        raise LedgerCorrupt("ledger: the history of the copy ends elsewhere; nothing was changed")
    forget_owner(writing.connection)
    outbox.compare_all(writing)
    heartbeat.report("copying", total + 1, total + 1)


def set_aside(connection: Connection, schema: str) -> None:
    """Move the tables of a ledger on PostgreSQL into a new schema, where the database owner can read or drop them."""
    outbox.unwatch(connection)
    run = connection.exec_driver_sql
    run(f'CREATE SCHEMA "{schema}"')
    for view in ("chunk_text", "document_names"):
        run(f"DROP VIEW {view}")
    known = set(inspect(connection).get_table_names())
    for table in in_turn(metadata.tables, INDEXES, ("index_words", "backup")):
        if table in known:
            run(f'ALTER TABLE {table} SET SCHEMA "{schema}"')
    for function in ("fold(text)", "count_words()", "history_is_append_only()"):
        run(f'ALTER FUNCTION {function} SET SCHEMA "{schema}"')


def _count(reading: Reading, table: str) -> int:
    return int(reading.execute(select(func.count()).select_from(text(table))).scalar_one())


@contextmanager
def _indexed_afterwards(writing: Writing) -> Iterator[None]:
    """Drop the indexes on PostgreSQL during the block: it builds one of all rows in a fraction of the time."""
    made = """SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = current_schema()
        AND indexname NOT IN (SELECT conname FROM pg_constraint)"""
    indexes = [] if writing.sqlite else writing.connection.exec_driver_sql(made).all()
    for name, _ in indexes:
        writing.connection.exec_driver_sql(f"DROP INDEX {name}")
    yield
    for _, definition in indexes:
        writing.connection.exec_driver_sql(definition)
