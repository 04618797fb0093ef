"""The bare loop: the same reading, parsing and writing as a sync, in one process, without any bookkeeping.

No jobs, attempts, history, isolation or change detection: only the work itself. Prints JSON.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from catchment.content.extract import extract
from catchment.content.normalize import NORMALIZER, normalize
from catchment.content.secret_masking import masked
from catchment.errors import ItemError
from catchment.ledger.library.word_parts import SQLITE as PAIRS
from catchment.ledger.library.word_parts import parts
from catchment.model import Document, EntityKind, Extraction, RawContent

_COMMIT_EVERY = 500
_TABLES = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA cache_size = -16000;
PRAGMA temp_store = MEMORY;
PRAGMA wal_autocheckpoint = 4000;
CREATE TABLE contents (id INTEGER PRIMARY KEY, hash TEXT NOT NULL, normalizer TEXT NOT NULL, text TEXT NOT NULL,
    media_type TEXT NOT NULL, title TEXT, language TEXT, author TEXT, created INTEGER, modified INTEGER, properties TEXT,
    warnings TEXT, UNIQUE (hash, normalizer));
CREATE TABLE chunks (id INTEGER PRIMARY KEY, content_id INTEGER NOT NULL, start INTEGER NOT NULL, stop INTEGER NOT NULL,
    heading TEXT NOT NULL);
CREATE INDEX chunks_by_content ON chunks (content_id);
CREATE TABLE links (content_id INTEGER, position INTEGER, kind TEXT NOT NULL, target TEXT NOT NULL, anchor TEXT NOT NULL,
    label TEXT NOT NULL, start INTEGER NOT NULL, stop INTEGER NOT NULL, name TEXT NOT NULL,
    PRIMARY KEY (content_id, position)) WITHOUT ROWID;
CREATE INDEX links_by_name ON links (name);
CREATE TABLE entities (content_id INTEGER, position INTEGER, kind TEXT NOT NULL, value TEXT NOT NULL,
    detail TEXT NOT NULL, start INTEGER NOT NULL, stop INTEGER NOT NULL, confidence REAL NOT NULL,
    PRIMARY KEY (content_id, position)) WITHOUT ROWID;
CREATE TABLE documents (id INTEGER PRIMARY KEY, content_id INTEGER NOT NULL, title TEXT NOT NULL, aliases TEXT NOT NULL,
    properties TEXT NOT NULL, path TEXT NOT NULL, modified INTEGER);
CREATE INDEX documents_by_content ON documents (content_id);
CREATE VIEW chunk_text AS SELECT chunks.id, chunks.heading,
    substr(contents.text, chunks.start + 1, chunks.stop - chunks.start) AS text
    FROM chunks JOIN contents ON contents.id = chunks.content_id;
CREATE VIRTUAL TABLE chunk_index USING fts5(heading, text, content = 'chunk_text', content_rowid = 'id',
    tokenize = 'unicode61 remove_diacritics 2');
CREATE VIRTUAL TABLE document_index USING fts5(title, aliases, properties, path, content = 'documents', content_rowid = 'id',
    tokenize = 'unicode61 remove_diacritics 2');
"""
_INSERTS = {
    "contents": "INSERT INTO contents VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    "chunks": "INSERT INTO chunks VALUES (?, ?, ?, ?, ?)",
    "chunk_index": "INSERT INTO chunk_index (rowid, heading, text) VALUES (?, ?, ?)",
    "links": "INSERT INTO links VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
    "entities": "INSERT INTO entities VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    "documents": "INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?, ?)",
    "document_index": "INSERT INTO document_index (rowid, title, aliases, properties, path) VALUES (?, ?, ?, ?, ?)",
    "chunk_pairs": "INSERT INTO chunk_pairs (rowid, pairs) VALUES (?, ?)",
    "document_pairs": "INSERT INTO document_pairs (rowid, pairs) VALUES (?, ?)",
}


@dataclass
class _Rows:
    """Rows of all tables, collected between two commits, and their total number."""

    of: dict[str, list[tuple[Any, ...]]] = field(default_factory=lambda: {table: [] for table in _INSERTS})
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_INSERTS, 0))

    def add(self, table: str, row: tuple[Any, ...]) -> None:
        self.of[table].append(row)
        self.counts[table] += 1

    def write(self, database: sqlite3.Connection) -> None:
        with database:
            for table, rows in self.of.items():
                database.executemany(_INSERTS[table], rows)
                rows.clear()


def files(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield every file below `folder` that is not hidden, with its stat."""
    waiting = [str(folder)]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    yield entry.path, entry.stat(follow_symlinks=False)


def walk(folder: Path) -> dict[str, Any]:
    """List and stat every file: the minimum cost of finding no changes."""
    start = time.perf_counter()
    number = sum(1 for _ in files(folder))
    return {"files": number, "seconds": time.perf_counter() - start}


def ingest(folder: Path, file: Path) -> dict[str, Any]:
    """Read all files below `folder` into a new database."""
    start = time.perf_counter()
    database = sqlite3.connect(file)
    database.executescript(_TABLES)
    for statement in PAIRS:
        database.execute(statement)
    rows = _Rows()
    known: dict[str, tuple[int, str, str]] = {}
    failed = 0
    for number, (path, status) in enumerate(files(folder), 1):
        try:
            _take(rows, known, folder, path, status)
        except ItemError:
            failed += 1
        if number % _COMMIT_EVERY == 0:
            rows.write(database)
    rows.write(database)
    database.close()
    return {"seconds": time.perf_counter() - start, "failed": failed, **rows.counts}


def _take(rows: _Rows, known: dict[str, tuple[int, str, str]], folder: Path, path: str, status: os.stat_result) -> None:
    data = Path(path).read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    name = os.path.basename(path)  # noqa: PTH119 - the fastest way, as a baseline requires
    stem = name.rpartition(".")[0] or name
    modified = datetime.fromtimestamp(status.st_mtime, UTC)
    if digest not in known:
        document = masked(normalize(RawContent(data, name, title=stem, modified=modified)))
        known[digest] = _add_content(rows, len(known) + 1, digest, document, extract(document))
    content_id, aliases, properties = known[digest]
    place = path[len(str(folder)) + 1 :]
    number = rows.counts["documents"] + 1
    rows.add("documents", (number, content_id, stem, aliases, properties, place, status.st_mtime_ns // 1_000))
    rows.add("document_index", (number, stem, aliases, properties, place))
    if letters := parts("\n".join((stem, aliases, properties, place))):
        rows.add("document_pairs", (number, letters))


def _add_content(
    rows: _Rows, number: int, digest: str, document: Document, extraction: Extraction
) -> tuple[int, str, str]:
    """Return the ID of the new content, its aliases, and its frontmatter."""
    text = document.text
    about = (document.media_type, document.title, document.language, document.author)
    times = (_micros(document.created), _micros(document.modified))
    rows.add(
        "contents",
        (number, digest, NORMALIZER, text, *about, *times, _json(document.properties), _json(document.warnings)),
    )
    for chunk in extraction.chunks:
        chunk_id = rows.counts["chunks"] + 1
        rows.add("chunks", (chunk_id, number, chunk.start, chunk.end, chunk.heading))
        passage = text[chunk.start : chunk.end]
        rows.add("chunk_index", (chunk_id, chunk.heading, passage))
        if letters := parts(passage):
            rows.add("chunk_pairs", (chunk_id, letters))
    for position, link in enumerate(extraction.links):
        name = link.target.rstrip("/").rpartition("/")[2].lower().removesuffix(".md")
        written = (link.kind.value, link.target, link.anchor, link.label, link.start, link.end)
        rows.add("links", (number, position, *written, name))
    for position, found in enumerate(extraction.entities):
        said = (found.kind.value, found.value, found.detail, found.start, found.end, found.confidence)
        rows.add("entities", (number, position, *said))
    aliases = "\n".join(e.value for e in extraction.entities if e.kind is EntityKind.ALIAS)
    return number, aliases, "\n".join(_strings(document.properties))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _strings(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _strings(one)


def _micros(moment: datetime | None) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1_000_000)


def _json(value: Any) -> str | None:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=list) if value else None


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["walk", folder]:
            print(json.dumps(walk(Path(folder))))
        case ["ingest", folder, file]:
            print(json.dumps(ingest(Path(folder), Path(file))))
        case _:
            sys.exit("usage: python -m benchmarks.bare walk FOLDER | ingest FOLDER DATABASE")
