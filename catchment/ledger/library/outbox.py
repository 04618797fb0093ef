"""The outbox: which documents each sink has not received yet, and the sinks themselves.

Triggers on `documents` number each change, whatever causes it, and keep the last number of each document. A sink has received
all changes up to its position. The triggers exist while there is a sink, so that a library without sinks pays nothing.
Texts are read when they are sent: a deleted text never waits here.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import orjson
from sqlalchemy import Connection, Select, delete, func, insert, select, update

from catchment.errors import BadInput, NotFound, did_you_mean
from catchment.ledger.db.database import AnyRow, Reading, Store, among, from_json, maybe_time
from catchment.ledger.db.job_states import in_parts
from catchment.ledger.db.schema import (
    chunks,
    contents,
    counters,
    documents,
    entities,
    items,
    links,
    refused_documents,
    sources,
)
from catchment.ledger.db.schema import outbox as table
from catchment.ledger.db.schema import sinks as sinks_table
from catchment.model import Chunk, DocumentCopy, Entity, EntityKind, Link, LinkKind

_LIVE = documents.c.removed_at.is_(None)
_FIRST_WAIT = timedelta(seconds=15)
_LONGEST_WAIT = timedelta(hours=1)
_MOST_DOUBLINGS = 8
LAST_ID = 2**63 - 1

_NUMBER = "UPDATE counters SET value = value + 1 WHERE name = 'outbox';"
_PUT = """INSERT INTO outbox (document_id, position)
    VALUES ({row}.id, (SELECT value FROM counters WHERE name = 'outbox'))
    ON CONFLICT (document_id) DO UPDATE SET position = excluded.position;"""
_ROWS = {"INSERT": "NEW", "UPDATE": "NEW", "DELETE": "OLD"}
_SQLITE = tuple(
    f"CREATE TRIGGER outbox_{verb.lower()} AFTER {verb} ON documents BEGIN {_NUMBER} {_PUT.format(row=row)} END"
    for verb, row in _ROWS.items()
)
_POSTGRES = (
    f"""CREATE FUNCTION put_into_outbox() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE changed documents%%ROWTYPE;
    BEGIN
        IF TG_OP = 'DELETE' THEN changed := OLD; ELSE changed := NEW; END IF;
        {_NUMBER} {_PUT.format(row="changed")}
        RETURN NULL;
    END $$""",
    """CREATE TRIGGER outbox_change AFTER INSERT OR UPDATE OR DELETE ON documents
    FOR EACH ROW EXECUTE FUNCTION put_into_outbox()""",
)
_DROP_SQLITE = tuple(f"DROP TRIGGER outbox_{verb.lower()}" for verb in _ROWS)
_DROP_POSTGRES = ("DROP TRIGGER outbox_change ON documents", "DROP FUNCTION put_into_outbox()")


class SinkState(StrEnum):
    """`emptying`: everything is deleted at the sink and sent again."""

    ACTIVE = "active"
    PAUSED = "paused"
    EMPTYING = "emptying"


@dataclass(frozen=True, slots=True)
class SinkRow:
    """A place that documents are copied to.

    Attributes:
        secret: The reference to its password, or None.
        compared: Documents up to this ID were compared with the library; None once all are.
        failures: Consecutive failed deliveries; the next is not made before `not_before`. `error`: the last one's.
        current: When it had received everything last.
        waiting: Number of changed documents that it has not received; while it is compared, at least the rest of the library.
        refused: Number of documents that it did not accept.
    """

    id: int
    name: str
    kind: str
    place: str
    secret: str | None
    state: SinkState
    position: int
    compared: int | None
    failures: int
    not_before: datetime | None
    error: str | None
    current: datetime | None
    waiting: int
    refused: int


class Outbox:
    """The sinks of one library, and what each has to receive."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, name: str, kind: str, place: str, secret: str | None, actor: str, reason: str = "") -> SinkRow:
        """Add a sink, to which the whole library is to be sent. Raises BadInput if the name is taken."""
        with self._store.write() as writing:
            if writing.execute(select(sinks_table.c.id).where(sinks_table.c.name == name)).first():
                raise BadInput(f"{name}: a sink with this name exists; choose another name")
            if writing.execute(select(sinks_table.c.id).limit(1)).first() is None:
                _execute(writing.connection, _SQLITE if writing.sqlite else _POSTGRES)
            values = {"id": writing.ids("sinks")[0], "name": name, "kind": kind, "place": place, "secret": secret}
            values |= {"state": SinkState.ACTIVE.value, "failures": 0, "not_before": 0, "position": 0, "compared": 0}
            writing.execute(insert(sinks_table).values(values))
            writing.record("sink_added", actor=actor, reason=f"{name} ({kind}) {reason}".strip())
        return self.get(name)

    def remove(self, name: str, actor: str, reason: str = "") -> None:
        """Forget a sink. What it has received stays there. Raises NotFound."""
        sink = self.get(name)
        with self._store.write() as writing:
            writing.execute(delete(refused_documents).where(refused_documents.c.sink_id == sink.id))
            writing.execute(delete(sinks_table).where(sinks_table.c.id == sink.id))
            if writing.execute(select(sinks_table.c.id).limit(1)).first() is None:
                writing.execute(delete(table))
                _execute(writing.connection, _DROP_SQLITE if writing.sqlite else _DROP_POSTGRES)
            writing.record("sink_removed", actor=actor, reason=f"{name} {reason}".strip())

    def set_state(self, name: str, state: SinkState, actor: str, reason: str = "") -> None:
        """Pause a sink; resume it, which compares it with the library; or have it emptied and filled. Raises NotFound."""
        sink = self.get(name)
        values: dict[str, Any] = {"state": state.value}
        if state is not SinkState.PAUSED:
            values |= {"compared": 0, "failures": 0, "not_before": 0, "error": None}
        with self._store.write() as writing:
            writing.execute(update(sinks_table).where(sinks_table.c.id == sink.id).values(values))
            writing.record(f"sink_{state}", actor=actor, reason=f"{name} {reason}".strip())

    def get(self, name: str) -> SinkRow:
        """Return the sink with this name. Raises NotFound."""
        known = {sink.name: sink for sink in self.all()}
        if name in known:
            return known[name]
        raise NotFound(f"{name!r}: no such sink; {did_you_mean(name, known, 'see `catchment sinks list`')}")

    def all(self) -> list[SinkRow]:
        """Return all sinks, by name."""
        with self._store.read() as reading:
            return [_sink(reading, row) for row in reading.execute(select(sinks_table).order_by(sinks_table.c.name))]

    def due(self) -> list[str]:
        """Return the names of the sinks that have something to receive now."""
        last = select(func.max(table.c.position)).scalar_subquery()
        its = sinks_table.c
        has_work = its.compared.is_not(None) | (func.coalesce(last, 0) > its.position)
        with self._store.read() as reading:
            mine = select(its.name).where(its.state != SinkState.PAUSED, its.not_before <= reading.now, has_work)
            return list(reading.execute(mine).scalars())

    def refusals(self, sink: SinkRow, limit: int = 100) -> dict[int, str]:
        """Return documents that a sink did not accept, with its reasons."""
        mine = select(refused_documents.c.document_id, refused_documents.c.reason)
        mine = mine.where(refused_documents.c.sink_id == sink.id).order_by(refused_documents.c.document_id).limit(limit)
        with self._store.read() as reading:
            return dict(reading.execute(mine).tuples().all())

    def changes(self, sink: SinkRow, limit: int) -> tuple[list[int], int]:
        """Return the next changed documents that a sink has not received, and its position once it has."""
        mine = select(table.c.document_id, table.c.position).where(table.c.position > sink.position)
        with self._store.read() as reading:
            rows = reading.execute(mine.order_by(table.c.position).limit(limit)).tuples().all()
        return [number for number, _ in rows], rows[-1][1] if rows else sink.position

    def versions(self, after: int, limit: int) -> dict[int, str]:
        """Return the versions of the next documents of the library, by ID, from `after` on (exclusive)."""
        page = _head().where(_LIVE, documents.c.id > after).order_by(documents.c.id).limit(limit)
        with self._store.read() as reading:
            return {row.id: _version(row) for row in reading.execute(page)}

    def documents(self, document_ids: Collection[int]) -> list[DocumentCopy]:
        """Return those documents that are in the library now."""
        with self._store.read() as reading:
            rows = reading.execute(_whole().where(_LIVE, among(reading, documents.c.id, document_ids))).all()
            of_links, of_entities, of_chunks = _parts(reading, {row.content_id for row in rows})
        return [
            _copy(row, of_links[row.content_id], of_entities[row.content_id], of_chunks[row.content_id]) for row in rows
        ]

    def received(
        self,
        sink: SinkRow,
        handled: Collection[int],
        refusals: Mapping[int, str],
        *,
        position: int | None = None,
        compared: int | None = None,
    ) -> SinkRow:
        """Record that a sink received or refused these documents, and how far it is: by changes, or in the comparison.

        `compared`: `LAST_ID` at its end.
        """
        its = sinks_table.c
        with self._store.write() as writing:
            for part in in_parts(handled):
                old = refused_documents.c.document_id.in_(part) & (refused_documents.c.sink_id == sink.id)
                writing.execute(delete(refused_documents).where(old))
            writing.insert(refused_documents, [(sink.id, number, reason) for number, reason in refusals.items()])
            values: dict[str, Any] = {"failures": 0, "not_before": 0, "error": None}
            if position is not None:
                values["position"] = position
            writing.execute(update(sinks_table).where(its.id == sink.id).values(values))
            if compared is not None:
                # Unless a command started another comparison meanwhile.
                mine = (its.id == sink.id) & (its.compared == sink.compared)
                further = None if compared == LAST_ID else compared
                writing.execute(update(sinks_table).where(mine).values(compared=further))
            least = select(func.min(its.position)).scalar_subquery()
            writing.execute(delete(table).where(table.c.position <= least))
        return self.get(sink.name)

    def compare(self, sink: SinkRow) -> SinkRow:
        """Begin a comparison: whatever changes from now on is sent after it."""
        last = select(counters.c.value).where(counters.c.name == "outbox").scalar_subquery()
        return self._set(sink, position=last, compared=0, state=SinkState.ACTIVE.value)

    def caught_up(self, sink: SinkRow) -> SinkRow:
        """Record that a sink has everything now."""
        return self._set(sink, current_at=self._store.now())

    def failed(self, sink: SinkRow, error: str) -> None:
        """Record a failed delivery, and put the next one off: ever longer, up to an hour."""
        wait = min(_FIRST_WAIT * 2 ** min(sink.failures, _MOST_DOUBLINGS), _LONGEST_WAIT)
        until = self._store.now() + wait // timedelta(microseconds=1)
        self._set(sink, failures=sink.failures + 1, not_before=until, error=error)

    def compare_all(self) -> None:
        """Let each sink be compared with the library, because another library took its place."""
        with self._store.write() as writing:
            writing.execute(update(sinks_table).values(compared=0, not_before=0))

    def _set(self, sink: SinkRow, **values: Any) -> SinkRow:
        with self._store.write() as writing:
            writing.execute(update(sinks_table).where(sinks_table.c.id == sink.id).values(values))
        return self.get(sink.name)


def _execute(connection: Connection, statements: Sequence[str]) -> None:
    for statement in statements:
        connection.exec_driver_sql(statement)


def _sink(reading: Reading, row: AnyRow) -> SinkRow:
    behind = select(func.count()).select_from(table).where(table.c.position > row.position)
    waiting = int(reading.execute(behind).scalar_one())
    if row.compared is not None:
        rest = select(func.count()).select_from(documents).where(_LIVE, documents.c.id > row.compared)
        waiting += int(reading.execute(rest).scalar_one())
    refused = select(func.count()).select_from(refused_documents).where(refused_documents.c.sink_id == row.id)
    return SinkRow(
        row.id,
        row.name,
        row.kind,
        row.place,
        row.secret,
        SinkState(row.state),
        row.position,
        row.compared,
        row.failures,
        maybe_time(row.not_before or None),
        row.error,
        maybe_time(row.current_at),
        waiting,
        int(reading.execute(refused).scalar_one()),
    )


def _head(*more: Any) -> Select[Any]:
    """Select what the version of a document depends on."""
    return (
        select(documents, items.c.locator, sources.c.name.label("source"), sources.c.kind)
        .add_columns(contents.c.hash, contents.c.normalizer, *more)
        .join_from(documents, items, items.c.id == documents.c.item_id)
        .join(sources, sources.c.id == documents.c.source_id)
        .join(contents, contents.c.id == documents.c.content_id)
    )


def _whole() -> Select[Any]:
    return _head(
        contents.c.text,
        contents.c.media_type,
        contents.c.language,
        contents.c.author,
        contents.c.created,
        contents.c.modified.label("own_modified"),
        contents.c.properties.label("own_properties"),
    )


def _version(row: AnyRow) -> str:
    known = [row.hash, row.normalizer, row.source, row.locator, row.title, row.aliases, row.modified, row.metadata]
    return hashlib.blake2b(orjson.dumps(known), digest_size=8).hexdigest()


def _copy(row: AnyRow, its_links: list[Link], its_entities: list[Entity], its_chunks: list[Chunk]) -> DocumentCopy:
    return DocumentCopy(
        id=row.id,
        version=_version(row),
        source=row.source,
        kind=row.kind,
        item=row.locator,
        title=row.title,
        media_type=row.media_type,
        language=row.language,
        author=row.author,
        created=maybe_time(row.created),
        modified=maybe_time(row.modified if row.modified is not None else row.own_modified),
        text=row.text,
        properties=from_json(row.own_properties),
        metadata=from_json(row.metadata),
        aliases=tuple(row.aliases.split("\n")) if row.aliases else (),
        links=tuple(its_links),
        entities=tuple(its_entities),
        chunks=tuple(its_chunks),
    )


def _parts(
    reading: Reading, content_ids: Collection[int]
) -> tuple[Mapping[int, list[Link]], Mapping[int, list[Entity]], Mapping[int, list[Chunk]]]:
    """Return the links, entities and chunks of contents."""
    of_links, of_entities = defaultdict[int, list[Link]](list), defaultdict[int, list[Entity]](list)
    of_chunks = defaultdict[int, list[Chunk]](list)
    mine = select(links).where(among(reading, links.c.content_id, content_ids))
    for row in reading.execute(mine.order_by(links.c.content_id, links.c.position)):
        link = Link(LinkKind(row.kind), row.target, row.anchor, row.label, row.start, row.stop)
        of_links[row.content_id].append(link)
    named = select(entities).where(among(reading, entities.c.content_id, content_ids))
    for row in reading.execute(named.order_by(entities.c.content_id, entities.c.position)):
        entity = Entity(EntityKind(row.kind), row.value, row.detail, row.start, row.stop, row.confidence)
        of_entities[row.content_id].append(entity)
    cut = select(chunks).where(among(reading, chunks.c.content_id, content_ids)).order_by(chunks.c.id)
    for row in reading.execute(cut):
        of_chunks[row.content_id].append(Chunk(row.start, row.stop, row.heading))
    return of_links, of_entities, of_chunks
