"""The invariants of the ledger, each as a query for violating rows."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from sqlalchemy import Table, Text, func, select, text

from catchment.errors import LedgerCorrupt, LedgerError, LedgerUnavailable
from catchment.ledger.admin import index_check, opening
from catchment.ledger.admin.damage import is_cut
from catchment.ledger.db.database import Reading, Store, as_map, from_json
from catchment.ledger.db.driver_errors import translated
from catchment.ledger.db.schema import COUNTED, MOMENT, counters, metadata
from catchment.ledger.jobs import history
from catchment.ledger.jobs.queue import RUNNER_LOST
from catchment.ledger.library import embeddings
from catchment.ledger.library.conversation_index import MAIL
from catchment.ledger.sinks import outbox

_RESTORE = "restore a backup with `catchment restore FILE`"
_JSON = {
    "contents": ("properties", "warnings"),
    "documents": ("metadata",),
    "items": ("attributes",),
    "quarantine": ("notes", "circumstances"),
    "syncs": ("summary", "circumstances"),
    "throttles": ("rule",),
}
"""Columns that contain JSON."""

_FINISHED = "('succeeded', 'quarantined', 'skipped', 'cancelled', 'superseded')"

_INVARIANTS = (
    (
        "Job {} is running and has no lease",
        "SELECT id FROM jobs WHERE state = 'running' AND (token IS NULL OR owner IS NULL OR lease_until IS NULL)",
    ),
    (
        "Job {} is running and its lease has expired; the next sync claims it again",
        "SELECT id FROM jobs WHERE state = 'running' AND lease_until <= :now",
    ),
    ("Job {} is not running and has a lease", "SELECT id FROM jobs WHERE state <> 'running' AND token IS NOT NULL"),
    (
        "Job {} is finished without a finish time, or unfinished with one",
        f"SELECT id FROM jobs WHERE (state IN {_FINISHED}) <> (finished_at IS NOT NULL)",
    ),
    (
        "Job {} was started without an attempt",
        "SELECT id FROM jobs WHERE attempt = 0 AND state IN ('running', 'succeeded')",
    ),
    (
        "Item {} has no current job",
        "SELECT id FROM items WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE item_id = items.id AND current)",
    ),
    (
        "Item {} differs in version from its current job",
        "SELECT items.id FROM items JOIN jobs ON jobs.item_id = items.id AND jobs.current"
        " WHERE items.state = 'present' AND items.version <> '' AND jobs.version <> items.version"
        " AND jobs.state NOT IN ('succeeded', 'skipped')",
    ),
    (
        "Job {} is unfinished and was replaced by another",
        "SELECT id FROM jobs WHERE NOT current AND state IN ('pending', 'running', 'retrying', 'quarantined')",
    ),
    (
        "Job {} waits for an item that is missing at the source",
        "SELECT jobs.id FROM jobs JOIN items ON items.id = jobs.item_id"
        " WHERE jobs.state IN ('pending', 'running', 'retrying') AND items.state <> 'present'",
    ),
    (
        "Job {} has succeeded and its item has no document",
        "SELECT jobs.id FROM jobs JOIN items ON items.id = jobs.item_id WHERE jobs.current AND jobs.state = 'succeeded'"
        " AND items.state <> 'deleted' AND NOT EXISTS"
        " (SELECT 1 FROM documents WHERE documents.item_id = items.id AND documents.removed_at IS NULL)",
    ),
    (
        "Document {} belongs to no successful job",
        "SELECT id FROM documents WHERE NOT EXISTS"
        " (SELECT 1 FROM jobs WHERE jobs.item_id = documents.item_id AND jobs.state = 'succeeded')",
    ),
    (
        "Document {} is in the library although its item is deleted",
        "SELECT documents.id FROM documents JOIN items ON items.id = documents.item_id"
        " WHERE documents.removed_at IS NULL AND items.state = 'deleted'",
    ),
    (
        "Item {} and its document differ in content",
        "SELECT items.id FROM items LEFT JOIN documents ON documents.item_id = items.id AND documents.removed_at IS NULL"
        " LEFT JOIN contents ON contents.id = documents.content_id"
        " WHERE coalesce(items.content_hash, '') <> coalesce(contents.hash, '')",
    ),
    (
        "Document {} has a different time from its content",
        "SELECT documents.id FROM documents JOIN contents ON contents.id = documents.content_id"
        f" WHERE coalesce(documents.moment, 0) <> coalesce({MOMENT}, 0)",
    ),
    (
        "Content {} belongs to no document",
        "SELECT id FROM contents WHERE NOT EXISTS (SELECT 1 FROM documents WHERE content_id = contents.id)"
        " AND NOT EXISTS (SELECT 1 FROM formers WHERE content_id = contents.id)",
    ),
    (
        "Content {} is a mail message without a conversation",
        f"SELECT id FROM contents WHERE media_type = '{MAIL}' AND NOT EXISTS"
        " (SELECT 1 FROM mails JOIN mail_names ON mail_names.content_id = mails.content_id AND mail_names.name = mails.name"
        " WHERE mails.content_id = contents.id)",
    ),
    (
        "Document {} and another with the same content differ in names",
        "SELECT min(id) AS id FROM documents GROUP BY content_id"
        " HAVING min(aliases) <> max(aliases) OR min(properties) <> max(properties)",
    ),
    *(
        (
            f"Document {{}} has a row in {table} that differs from it",
            f"SELECT document_id AS id FROM {table} AS its WHERE NOT EXISTS (SELECT 1 FROM documents"
            " WHERE id = its.document_id AND removed_at IS NULL AND content_id = its.content_id"
            " AND coalesce(moment, 0) = its.moment)",
        )
        for table in ("doc_tags", "doc_folders")
    ),
    (
        "Job {} is quarantined without an open entry",
        "SELECT id FROM jobs WHERE state = 'quarantined' AND NOT EXISTS"
        " (SELECT 1 FROM quarantine WHERE job_id = jobs.id AND resolved_at IS NULL)",
    ),
    (
        "The quarantine entry of job {} is open, but the job is not quarantined",
        "SELECT job_id AS id FROM quarantine JOIN jobs ON jobs.id = quarantine.job_id"
        " WHERE resolved_at IS NULL AND jobs.state <> 'quarantined'",
    ),
)

_ATTEMPTS_FALL = (
    "The attempts of job {} decreased",
    "SELECT job_id AS id FROM (SELECT job_id, attempt, lag(attempt) OVER (PARTITION BY job_id ORDER BY id) AS earlier,"
    f" CASE WHEN reason = '{RUNNER_LOST}' THEN 1 ELSE 0 END AS given_back"
    " FROM history WHERE attempt IS NOT NULL) AS steps WHERE attempt < earlier - given_back",
)


def check(store: Store, deep: bool) -> list[str]:
    """Implement `Ledger.check`."""
    if not deep:
        return _shallow(store, _INVARIANTS)
    if damaged := pages(store):
        # Further findings in a damaged file would be meaningless.
        return damaged
    with ThreadPoolExecutor(1) as beside:
        # The word index takes half of the time, and SQLite releases the GIL meanwhile.
        words = beside.submit(check_words, store)
        violations = [*_references(store), *_shallow(store, (*_INVARIANTS, _ATTEMPTS_FALL)), *_texts(store)]
        violations += _vectors(store)
        return [*violations, *words.result()]


def _shallow(store: Store, invariants: Sequence[tuple[str, str]]) -> list[str]:
    findings: list[str] = []
    with store.read() as reading:
        for sentence, query in invariants:
            number = reading.execute(text(f"SELECT min(id) FROM ({query}) AS broken"), {"now": reading.now})
            if (first := number.scalar()) is not None:
                findings.append(sentence.format(first))
        if outbox.lacks_triggers(reading):
            findings.append("There is a sink, but changes of documents are not noted for it")
        return [*findings, *_counters(reading), *index_check.check(reading), *history.verify(reading)]


def _counters(reading: Reading) -> list[str]:
    """Return a finding for the first counter that would reuse an ID."""
    values = as_map(reading.execute(select(counters.c.name, counters.c.value)))
    for name in COUNTED:
        table = metadata.tables.get(name)
        highest = None if table is None else reading.execute(select(func.max(table.c.id))).scalar()
        if values.get(name, -1) < (highest or 0):
            return [f"The counter of {name} is too low"]
    return []


def _references(store: Store) -> list[str]:
    with store.read() as reading:
        if reading.sqlite and reading.connection.exec_driver_sql("PRAGMA foreign_key_check").first() is not None:
            return ["A row refers to a missing row"]
    return []


def _texts(store: Store) -> list[str]:
    """Find values that are not valid text or are indexed wrongly. Reads all texts, because a page check cannot detect this."""
    with store.read() as reading:
        for table in metadata.sorted_tables:
            try:
                _read_texts(reading, table)
            except LedgerCorrupt:
                return [f"The table {table.name} contains invalid text; {_RESTORE}"]
        names = index_check.check_names(reading)
        return [*names, *index_check.check_parts(reading), *index_check.check_ways(reading)]


def _vectors(store: Store) -> list[str]:
    with store.read() as reading:
        damaged = (
            ("passages", "chunk", embeddings.damaged(reading)),
            ("names", "document", embeddings.damaged_titles(reading)),
        )
    return [
        f"The vectors of {len(stored)} {what} are damaged, first of {row} {stored[0]}; the next run of `embed` makes them again"
        for what, row, stored in damaged
        if stored
    ]


def _read_texts(reading: Reading, table: Table) -> None:
    """Raise LedgerCorrupt if a value does not have the type of its column."""
    names = [column.name for column in table.columns if isinstance(column.type, Text)]
    positions = [number for number, name in enumerate(names) if name in _JSON.get(table.name, ())]
    rows = select(*(table.c[name] for name in names)).execution_options(yield_per=2_000)
    with translated():
        for row in reading.execute(rows) if names else ():
            for number in positions:
                from_json(row[number])


def pages(store: Store) -> list[str]:
    """Return findings about the SQLite file's pages and schema. Reads the whole file."""
    if store.file is None:
        return []
    with store.read() as reading:
        is_well = reading.connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar_one() == "ok"
        is_ours = is_well and opening.is_as_made(reading)
    # Only now, because a ledger on a full disk permits no second connection.
    if not is_well or is_cut(store):
        return [f"The file is damaged; {_RESTORE}"]
    return [] if is_ours else [f"The tables do not match this version of Catchment; {_RESTORE}"]


def check_words(store: Store) -> list[str]:
    """Check the word index against the texts. On SQLite, waits for other writers."""
    if store.file is None:
        with store.read() as reading:
            return ["The word index differs from the texts"] if index_check.differs_on_postgresql(reading) else []
    try:
        with store.write(as_owner=False) as writing:
            index_check.check_words(writing)
    except LedgerUnavailable:
        raise
    except LedgerError:
        return ["The word index differs from the texts"]
    return []
