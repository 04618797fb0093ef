"""Purge: delete all data of a source in small transactions, and verify that none is left."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sqlalchemy import ColumnElement, Table, delete, exists, func, insert, literal, select, text, update

from catchment.ledger.db.database import Reading, Store, Writing, among, as_map, to_micros
from catchment.ledger.db.job_states import in_small_parts
from catchment.ledger.db.joined_hosts import UNCONFIRMED, JoinedHosts
from catchment.ledger.db.schema import (
    backfills,
    before_images,
    chunks,
    contents,
    documents,
    history,
    holds,
    host_purges,
    hosts,
    items,
    jobs,
    marks,
    metadata,
    sources,
    syncs,
)
from catchment.ledger.db.vacuum import rewrite
from catchment.ledger.items import consents
from catchment.ledger.library import query_sql, withdraw, word_parts
from catchment.ledger.library.before_images import uses as was_used
from catchment.ledger.library.query import Query, Term
from catchment.runtime import heartbeat

_ITEMS_AT_ONCE = 1_000

_FACTS = frozenset(
    {"backfills", "consents", "history", "host_purges", "measures", "outbox", "refused_documents", "syncs", "turns"}
)
"""Tables about a source or its documents that contain no data from it."""

_INDEXES = (
    ("chunk_index", "SELECT id FROM chunks"),
    ("document_index", "SELECT id FROM documents WHERE removed_at IS NULL"),
    (word_parts.CHUNKS, "SELECT id FROM chunks"),
    (word_parts.DOCUMENTS, "SELECT id FROM documents WHERE removed_at IS NULL"),
)
_PASSAGE = re.compile(r"\S+(?: \S+){3,9}|\S{12,40}")
_LEAST_PASSAGE = 24
"""Minimum size in bytes. Shorter passages are not specific enough."""
_LONGEST_ASKED = 1_000
"""Characters of a passage that are searched: PostgreSQL refuses long words."""

Which = Callable[[str], bool]
"""Selects items by locator."""

_COPY_HEADER = b"SQLite format 3\x00"
_PLACES_IN_COPY = (
    "SELECT locator FROM items JOIN sources ON sources.id = items.source_id WHERE sources.name = ?",
    "SELECT DISTINCT path FROM formers JOIN sources ON sources.id = formers.source_id WHERE sources.name = ?",
)


@dataclass(frozen=True, slots=True)
class Holdings:
    """The data exclusive to one source: IDs of documents and contents, and the number of chunks."""

    documents: tuple[int, ...]
    contents: tuple[int, ...]
    chunks: int


class Purging:
    """Deletes the data of a source. No sync of it may be running. Every step may be repeated after a kill."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._hosts = JoinedHosts(store)

    def ids(self, source_id: int, which: Which) -> Sequence[int]:
        """Return the IDs of the items."""
        with self._store.read() as reading:
            rows = reading.execute(select(items.c.id, items.c.locator).where(items.c.source_id == source_id))
            return [number for number, locator in rows if which(locator)]

    def items(self, source_id: int, which: Which) -> Iterator[int]:
        """Delete items with all data derived from them. Yield the number of items after each transaction.

        Contents shared with another source remain.
        """
        for part in in_small_parts(self._sized(source_id, self._paths_before(source_id, which)), _ITEMS_AT_ONCE):
            with self._store.write() as writing:
                withdraw.forget_before_images(
                    writing, (before_images.c.source_id == source_id) & among(writing, before_images.c.path, part)
                )
            self._store.let_others_write()
        numbers = self.ids(source_id, which)
        with self._store.read() as reading:
            sized = list(withdraw.sizes_of_items(reading, numbers))
        deleted = 0
        for part in in_small_parts(sized, _ITEMS_AT_ONCE):
            with self._store.write() as writing:
                withdraw.forget_items(writing, part)
            deleted += len(part)
            heartbeat.report("deleting", deleted, len(sized))
            yield len(part)
            self._store.let_others_write()

    def rest(self, source_id: int) -> None:
        """Delete the source's data outside items: its cursor, held deletions, root and error messages. End its backfills."""
        with self._store.write() as writing:
            _forget_rest(writing, source_id)

    def end(self, source_id: int, scopes: Collection[str], actor: str) -> None:
        """Record the purge of these scopes as complete."""
        with self._store.write() as writing:
            consents.purged(writing, source_id, scopes, actor)

    def ask_hosts(self, source_id: int) -> None:
        """Request that the other hosts delete the data of a source on their disks. Idempotent."""
        ownership = self._store.ownership
        with self._store.write() as writing:
            if ownership is None or not ownership.is_shared:
                return
            other_hosts = select(hosts.c.id, literal(source_id), literal(writing.now)).where(
                hosts.c.id != ownership.identity
            )
            writing.execute(delete(host_purges).where(host_purges.c.source_id == source_id))
            writing.execute(insert(host_purges).from_select(["host_id", "source_id", "asked_at"], other_hosts))

    def asked_of_me(self) -> dict[int, str]:
        """Return the sources, by ID, of which this host still has to delete its data: their names."""
        ownership = self._store.ownership
        if ownership is None or not self._hosts.is_shared:
            return {}
        statement = (
            select(sources.c.id, sources.c.name)
            .join(host_purges, host_purges.c.source_id == sources.c.id)
            .where(host_purges.c.host_id == ownership.identity)
        )
        return as_map(self._store.execute(statement))

    def done_here(self, source_id: int) -> None:
        """Record that this host has deleted its data of a source. Idempotent."""
        ownership = self._store.ownership
        if ownership is not None:
            of_host = (host_purges.c.source_id == source_id) & (host_purges.c.host_id == ownership.identity)
            with self._store.write() as writing:
                writing.execute(delete(host_purges).where(of_host))

    def unfinished(self) -> dict[str, tuple[str, ...]]:
        """Return the names of the hosts that still have to delete their data, by the name of the source."""
        if not self._hosts.is_shared:
            return {}
        statement = (
            select(sources.c.name, hosts.c.name)
            .join(host_purges, host_purges.c.source_id == sources.c.id)
            .join(hosts, hosts.c.id == host_purges.c.host_id)
            .order_by(sources.c.name, hosts.c.name)
        )
        unfinished: dict[str, tuple[str, ...]] = {}
        for source, host in self._store.execute(statement):
            unfinished[source] = (*unfinished.get(source, ()), host)
        return unfinished

    def unconfirmed(self, source_id: int, since: datetime) -> list[str]:
        """Return the hosts that left, since a time, before they deleted their data of a source."""
        which = (
            (history.c.event == UNCONFIRMED) & (history.c.source_id == source_id) & (history.c.at >= to_micros(since))
        )
        return list(self._store.execute(select(history.c.reason).where(which).distinct()).scalars())

    def left(self, source_id: int, which: Which, *, whole: bool) -> dict[str, int]:
        """Return the number of remaining rows by table, including orphaned rows. All are 0 after a complete purge."""
        counts = {"items": len(self.ids(source_id, which)), "formers": len(self._paths_before(source_id, which))}
        with self._store.read() as reading:
            for table in metadata.sorted_tables:
                if table.name in _FACTS or table.name in counts:
                    continue
                if whole and "source_id" in table.c:
                    counts[table.name] = _count(reading, table, table.c.source_id == source_id)
                elif (owned := _has_owner(table)) is not None:
                    counts[table.name] = _count(reading, table, ~owned)
            for index, stored in _INDEXES:
                statement = f"SELECT count(*) FROM ({word_parts.indexed(reading, index)} EXCEPT {stored}) AS difference"
                counts[index] = int(reading.execute(text(statement)).scalar_one())
        return counts

    def holdings(self, source_id: int, which: Which) -> Holdings:
        """Return the holdings for these items, to be counted again after the purge. Includes texts of any length."""
        others = documents.alias()
        shared = exists().where(others.c.content_id == documents.c.content_id, others.c.source_id != source_id)
        statement = select(documents.c.id, documents.c.path, documents.c.content_id, shared.label("shared"))
        its_documents, its_contents, elsewhere = [], set(), set()
        with self._store.read() as reading:
            for row in reading.execute(statement.where(documents.c.source_id == source_id)):
                if which(row.path):
                    its_documents.append(row.id)
                if row.shared or not which(row.path):
                    elsewhere.add(row.content_id)
                else:
                    its_contents.add(row.content_id)
            only_its = sorted(its_contents - elsewhere)
            number = _count(reading, chunks, among(reading, chunks.c.content_id, only_its))
        return Holdings(tuple(its_documents), tuple(only_its), number)

    def remaining(self, holdings: Holdings) -> tuple[int, int]:
        """Return the number of remaining documents and chunks of `holdings`.

        Chunks of a content that another item has delivered since do not count.
        """
        its_content = select(documents.c.content_id)
        with self._store.read() as reading:
            of_documents = its_content.where(among(reading, documents.c.id, holdings.documents))
            of_contents = its_content.where(among(reading, documents.c.content_id, holdings.contents))
            left = reading.execute(of_documents).scalars().all()
            exclusive = set(holdings.contents) - (set(reading.execute(of_contents).scalars()) - set(left))
            return len(left), _count(reading, chunks, among(reading, chunks.c.content_id, exclusive))

    def passages(self, source_id: int, which: Which, limit: int = 20) -> list[str]:
        """Return up to `limit` passages exclusive to this source, from random documents, to search for after the purge."""
        others = documents.alias()
        shared = exists(select(literal(1)).where(others.c.content_id == contents.c.id, others.c.source_id != source_id))
        statement = (
            select(documents.c.path, contents.c.text)
            .join(contents, contents.c.id == documents.c.content_id)
            .where(documents.c.source_id == source_id, ~shared)
            .order_by(func.random())
            .limit(10 * limit)
        )
        passages: list[str] = []
        # Until a result is read to its end or closed, SQLite counts it as a reader, for which `erase` would wait.
        with self._store.read() as reading, reading.execute(statement) as rows:
            for path, words in rows:
                if which(path) and (passage := _passage(words)):
                    passages.append(passage)
                if len(passages) == limit:
                    break
        return passages

    def is_found(self, source_id: int, which: Which, passage: str) -> bool:
        """Return whether a search for a passage finds a document of the source among these items."""
        term = Term(passage[:_LONGEST_ASKED], prefix=len(passage) > _LONGEST_ASKED, is_quoted=True)
        if not term.words:
            return False
        with self._store.read() as reading:
            contents_found = [hit.content_id for hit in query_sql.rank(reading, Query(((term,),), ()), 1_000, 0).ranked]
            rows = select(documents.c.path).where(
                documents.c.source_id == source_id,
                documents.c.removed_at.is_(None),
                among(reading, documents.c.content_id, contents_found),
            )
            return any(map(which, reading.execute(rows).scalars().all()))

    def said_elsewhere(self, passage: str) -> bool:
        """Return whether any content in the library has this passage. Reads every text."""
        with self._store.read() as reading:
            position = func.instr if reading.sqlite else func.strpos
            statement = select(contents.c.id).where(position(contents.c.text, passage) > 0).limit(1)
            return reading.execute(statement).first() is not None

    def erase(self) -> None:
        """Erase the bytes of deleted rows (`catchment.ledger.db.vacuum.rewrite`)."""
        rewrite(self._store)

    def files(self) -> list[Path]:
        """Return the ledger's files; empty on PostgreSQL."""
        file = self._store.file
        return [] if file is None else [there for n in ("", "-wal") if (there := Path(f"{file}{n}")).exists()]

    def replaced(self) -> list[str]:
        """Return the schemas with the tables that a restore on PostgreSQL replaced."""
        if self._store.file is not None:
            return []
        schemas = "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'replaced-%'"
        return list(self._store.execute(text(schemas)).scalars())

    def _sized(self, source_id: int, paths: Sequence[str]) -> list[tuple[str, int]]:
        """Return paths with the size of their stored before-images, in characters."""
        statement = (
            select(before_images.c.path, func.coalesce(func.sum(func.length(contents.c.text)), 0))
            .outerjoin(contents, contents.c.id == before_images.c.content_id)
            .where(before_images.c.source_id == source_id)
            .group_by(before_images.c.path)
        )
        with self._store.read() as reading:
            rows = reading.execute(statement.where(among(reading, before_images.c.path, paths)))
            return [(path, int(size)) for path, size in rows]

    def _paths_before(self, source_id: int, which: Which) -> Sequence[str]:
        """Return the paths with before-images."""
        with self._store.read() as reading:
            paths = reading.execute(
                select(before_images.c.path).where(before_images.c.source_id == source_id).distinct()
            )
            return [path for path in paths.scalars() if which(path)]


def items_in_copy(file: Path, source: str, which: Which) -> int:
    """Return the number of a source's items in a copy of a ledger, such as a backup; 0 for other files.

    Raises OSError, or sqlite3.DatabaseError for a damaged copy.
    """
    with file.open("rb") as opened:
        if opened.read(len(_COPY_HEADER)) != _COPY_HEADER:
            return 0
    # Open as immutable: SQLite must not write files beside a backup, which may be on a read-only disk.
    with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as database:
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
        if not {"items", "sources", "formers"} <= tables:
            return 0
        places = {place for statement in _PLACES_IN_COPY for (place,) in database.execute(statement, (source,))}
    return sum(map(which, places))


def _forget_rest(writing: Writing, source_id: int) -> None:
    for table in (marks, holds):
        writing.execute(delete(table).where(table.c.source_id == source_id))
    unlisted = (backfills.c.source_id == source_id) & backfills.c.listed_at.is_(None)
    writing.execute(update(backfills).where(unlisted).values(wish="cancel"))
    writing.execute(update(syncs).where(syncs.c.source_id == source_id, syncs.c.error.is_not(None)).values(error=None))
    writing.execute(update(sources).where(sources.c.id == source_id).values(root=None, seen_root=None))
    held = (sources.c.id == source_id) & (sources.c.state == "held")
    writing.execute(update(sources).where(held).values(state_reason="it failed"))


def _has_owner(table: Table) -> ColumnElement[bool] | None:
    """Return the condition that a row belongs to an existing document, before-image, item or job."""
    for column, owner in (("item_id", items), ("job_id", jobs), ("document_id", documents)):
        if column in table.c:
            return exists(select(literal(1)).where(owner.c.id == table.c[column]))
    content = table.c.id if table is contents else table.c.get("content_id")
    if content is None:
        return None
    return exists(select(literal(1)).where(documents.c.content_id == content)) | was_used(content)


def _count(reading: Reading, table: Table, where: ColumnElement[bool]) -> int:
    return int(reading.execute(select(func.count()).select_from(table).where(where)).scalar_one())


def _passage(words: str) -> str | None:
    """Return a specific passage: the longest among the first 300."""
    matches = (match[0] for match, _ in zip(_PASSAGE.finditer(words), range(300), strict=False))
    longest = max(matches, key=len, default="")
    return longest if len(longest.encode()) >= _LEAST_PASSAGE else None
