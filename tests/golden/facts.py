"""Facts about a home that must survive a new version, read from the ledger file by SQL."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import yaml

TABLES = (
    *("breakers", "chain", "chunks", "consents", "contents", "documents", "entities", "formers", "history"),
    *("holds", "items", "jobs", "links", "mail_names", "mails", "marks", "moves", "quarantine", "sources", "syncs"),
    "throttles",
)
"""Tables with rows that must not change when the ledger is opened. The other tables hold indexes, clocks and leases."""

_DOCUMENTS = """
    SELECT documents.id, sources.name, items.locator, documents.title, documents.removed_at IS NULL,
        contents.hash, contents.text
    FROM documents JOIN items ON items.id = documents.item_id JOIN sources ON sources.id = documents.source_id
    JOIN contents ON contents.id = documents.content_id ORDER BY documents.id
"""
_HISTORY = """
    SELECT id, at, actor, event, source_id, item_id, job_id, sync_id, attempt, reason, lower(hex(hash)) FROM history ORDER BY id
"""


def facts_of(home: Path) -> dict[str, Any]:
    """Return row counts, documents, history with its hashes, and the sources of a home as JSON values."""
    with closing(sqlite3.connect(f"file:{home / 'ledger.db'}?mode=ro", uri=True)) as ledger:
        return {
            "revision": ledger.execute("SELECT version_num FROM revision").fetchone()[0],
            "rows": {table: ledger.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in TABLES},
            "documents": list(_documents(ledger)),
            "history": [list(row) for row in ledger.execute(_HISTORY)],
            "sources": yaml.safe_load((home / "sources.yaml").read_text(encoding="utf-8")),
        }


def _documents(ledger: sqlite3.Connection) -> Iterator[dict[str, Any]]:
    for number, source, item, title, present, content, text in ledger.execute(_DOCUMENTS):
        digest = hashlib.sha256(text.encode()).hexdigest()
        yield {
            "id": number,
            "source": source,
            "item": item,
            "title": title,
            "present": bool(present),
            "content": content,
            "text": digest,
        }
