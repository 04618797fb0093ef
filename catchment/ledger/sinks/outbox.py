"""The outbox: which documents each sink has not received yet, and the sinks themselves.

Triggers on `documents` number each change, by any cause, and keep the last number of each document. A sink has received
all changes up to its position. The triggers exist while there is a sink, so that a library without sinks has no cost.
Texts are read when they are sent: a deleted text never waits here.

The position is true of one state of the place only, which a stamp names: the place and its row here get the same new text
after each batch. If they differ, one of the two was put back from a copy, and the place is compared with the library.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, case, delete, func, insert, select, text, update

from catchment.errors import BadInput, NotFound, Refused, did_you_mean
from catchment.ledger.db.database import AnyRow, Reading, Store, Writing, among, maybe_time
from catchment.ledger.db.joined_hosts import JoinedHosts
from catchment.ledger.db.row_records import record
from catchment.ledger.db.schema import (
    counters,
    documents,
    refused_documents,
)
from catchment.ledger.db.schema import outbox as table
from catchment.ledger.db.schema import sinks as sinks_table
from catchment.ledger.sinks.sent_documents import LIVE, SentDocuments
from catchment.records.standing import TO_COMPARE, SinkRow, SinkState

_FIRST_WAIT = timedelta(seconds=15)
_LONGEST_WAIT = timedelta(hours=1)
_MOST_DOUBLINGS = 8
_COMPARED_NONE = -1
"""Value of `compared` once a comparison has begun. A request during it is thus not lost."""
LAST_ID = 2**63 - 1

_NUMBER = "UPDATE counters SET value = value + 1 WHERE name = 'changes';"
_PUT = """INSERT INTO outbox (document_id, position)
    VALUES ({row}.id, (SELECT value FROM counters WHERE name = 'changes'))
    ON CONFLICT (document_id) DO UPDATE SET position = excluded.position;"""
_ROWS = {"INSERT": "NEW", "UPDATE": "NEW", "DELETE": "OLD"}
_SQLITE = tuple(
    f"CREATE TRIGGER IF NOT EXISTS outbox_{verb.lower()} AFTER {verb} ON documents BEGIN {_NUMBER} {_PUT.format(row=row)} END"
    for verb, row in _ROWS.items()
)
_POSTGRES = (
    f"""CREATE OR REPLACE FUNCTION put_into_outbox() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE changed documents%%ROWTYPE;
    BEGIN
        IF TG_OP = 'DELETE' THEN changed := OLD; ELSE changed := NEW; END IF;
        {_NUMBER} {_PUT.format(row="changed")}
        RETURN NULL;
    END $$""",
    "DROP TRIGGER IF EXISTS outbox_change ON documents",
    """CREATE TRIGGER outbox_change AFTER INSERT OR UPDATE OR DELETE ON documents
    FOR EACH ROW EXECUTE FUNCTION put_into_outbox()""",
)
_COMPARE = "UPDATE sinks SET compared = 0 WHERE wants_vectors;"
_EMBEDDED = "SELECT id FROM documents WHERE content_id = NEW.content_id"
_SQLITE_VECTORS = (
    f"""CREATE TRIGGER IF NOT EXISTS outbox_vectors AFTER INSERT ON embeddings BEGIN
    UPDATE documents SET content_id = content_id WHERE id IN ({_EMBEDDED}); END""",
    f"CREATE TRIGGER IF NOT EXISTS outbox_model AFTER UPDATE OF space_id ON search_model BEGIN {_COMPARE} END",
)
_POSTGRES_VECTORS = (
    f"""CREATE OR REPLACE FUNCTION put_vectors_into_outbox() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN UPDATE documents SET content_id = content_id WHERE id IN ({_EMBEDDED}); RETURN NULL; END $$""",
    f"""CREATE OR REPLACE FUNCTION compare_vectors() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN {_COMPARE} RETURN NULL; END $$""",
    "DROP TRIGGER IF EXISTS outbox_vectors ON embeddings",
    "DROP TRIGGER IF EXISTS outbox_model ON search_model",
    """CREATE TRIGGER outbox_vectors AFTER INSERT ON embeddings
    FOR EACH ROW EXECUTE FUNCTION put_vectors_into_outbox()""",
    """CREATE TRIGGER outbox_model AFTER UPDATE OF space_id ON search_model
    FOR EACH ROW EXECUTE FUNCTION compare_vectors()""",
)
_DROP_SQLITE = tuple(f"DROP TRIGGER IF EXISTS outbox_{name}" for name in (*map(str.lower, _ROWS), "vectors", "model"))
_DROP_POSTGRES = (
    "DROP FUNCTION IF EXISTS put_into_outbox(), put_vectors_into_outbox(), compare_vectors() CASCADE",  # with their triggers
)


_WELL: Mapping[str, Any] = {"failures": 0, "not_before": 0, "error": None}


class Outbox(SentDocuments):
    """The sinks of one library, and the changes that each has to receive."""

    def __init__(self, store: Store, hosts: JoinedHosts) -> None:
        super().__init__(store)
        self._hosts = hosts

    def add(
        self,
        name: str,
        kind: str,
        place: str,
        secret: str | None,
        actor: str,
        reason: str = "",
        *,
        wants_vectors: bool = False,
    ) -> SinkRow:
        """Add a sink. The next delivery sends it the whole library. Raises BadInput if the name is taken."""
        with self._store.write() as writing:
            if writing.execute(select(sinks_table.c.id).where(sinks_table.c.name == name)).first():
                raise BadInput(f"{name}: a sink with this name exists; choose another name")
            values = {
                "id": writing.ids("sinks")[0],
                "name": name,
                "kind": kind,
                "place": place,
                "secret": secret,
                "wants_vectors": wants_vectors,
                "state": SinkState.ACTIVE.value,
                "failures": 0,
                "not_before": 0,
                "position": 0,
                "compared": TO_COMPARE,
            }
            writing.execute(insert(sinks_table).values(values))
            _watch(writing)
            writing.record("sink added", actor=actor, reason=f"{name} ({kind}) {reason}".strip())
        return self.get(name)

    def remove(self, name: str, actor: str, reason: str = "") -> None:
        """Forget a sink. Its copies stay there. Raises NotFound."""
        sink = self.get(name)
        with self._store.write() as writing:
            writing.execute(delete(refused_documents).where(refused_documents.c.sink_id == sink.id))
            writing.execute(delete(sinks_table).where(sinks_table.c.id == sink.id))
            if writing.execute(select(sinks_table.c.id).limit(1)).first() is None:
                writing.execute(delete(table))
                unwatch(writing.connection)
            writing.record("sink removed", actor=actor, reason=f"{name} {reason}".strip())

    def set_state(self, name: str, state: SinkState, actor: str, reason: str = "") -> None:
        """Pause a sink; resume it, which compares it with the library; or have it emptied and filled.

        Raises NotFound, and Refused for emptying a paused one: somebody paused it for a reason.
        """
        sink = self.get(name)
        if (sink.state, state) == (SinkState.PAUSED, SinkState.EMPTYING):
            raise Refused(f"{name}: paused; resume it first with `catchment sinks resume {name}`")
        values: dict[str, Any] = {"state": state.value}
        if state is not SinkState.PAUSED:
            values |= {"compared": TO_COMPARE, **_WELL}
        with self._store.write() as writing:
            writing.execute(update(sinks_table).where(sinks_table.c.id == sink.id).values(values))
            writing.record(f"sink {state}", actor=actor, reason=f"{name} {reason}".strip())

    def adopt(self, sink: SinkRow, stamp: str, actor: str, reason: str = "") -> None:
        """Record that a sink took over its place from another home or sink with this stamp; the next delivery compares it."""
        with self._store.write() as writing:
            values = {"stamp": stamp, "compared": TO_COMPARE, **_WELL}
            writing.execute(update(sinks_table).where(sinks_table.c.id == sink.id).values(values))
            writing.record("sink adopted", actor=actor, reason=f"{sink.name} {reason}".strip())

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
        columns = sinks_table.c
        has_work = columns.compared.is_not(None) | (func.coalesce(last, 0) > columns.position)
        with self._store.read() as reading:
            due = select(columns.name).where(
                columns.state != SinkState.PAUSED, columns.not_before <= reading.now, has_work
            )
            return list(reading.execute(due).scalars())

    def refusals(self, sink: SinkRow, limit: int = 100) -> dict[int, str]:
        """Return documents that a sink did not accept, with its reasons."""
        query = select(refused_documents.c.document_id, refused_documents.c.reason)
        query = (
            query.where(refused_documents.c.sink_id == sink.id).order_by(refused_documents.c.document_id).limit(limit)
        )
        return dict(self._store.execute(query).tuples().all())

    def changes(self, sink: SinkRow, limit: int) -> tuple[list[int], int]:
        """Return the next changed documents that a sink has not received, and its position once it has."""
        query = select(table.c.document_id, table.c.position).where(table.c.position > sink.position)
        rows = self._store.execute(query.order_by(table.c.position).limit(limit)).tuples().all()
        return [number for number, _ in rows], rows[-1][1] if rows else sink.position

    def received(
        self,
        sink: SinkRow,
        handled: Collection[int],
        refusals: Mapping[int, str],
        *,
        position: int | None = None,
        compared: int | None = None,
        stamp: str | None = None,
    ) -> SinkRow:
        """Record that a sink received or refused these documents, and how far it is: by changes, or in the comparison.

        `compared`: `LAST_ID` at its end. `stamp`: the new one of the place, if the delivery wrote there.
        """
        columns = sinks_table.c
        with self._store.write() as writing:
            of_documents = among(writing, refused_documents.c.document_id, handled)
            writing.execute(delete(refused_documents).where(of_documents, refused_documents.c.sink_id == sink.id))
            writing.insert(refused_documents, [(sink.id, number, reason) for number, reason in refusals.items()])
            values: dict[str, Any] = dict(_WELL)
            if position is not None:
                values["position"] = position
            if stamp is not None:
                values["stamp"] = stamp
            writing.execute(update(sinks_table).where(columns.id == sink.id).values(values))
            if compared is not None:
                # Unless a command started another comparison meanwhile.
                unchanged = (columns.id == sink.id) & (columns.compared == sink.compared)
                further = None if compared == LAST_ID else compared
                writing.execute(update(sinks_table).where(unchanged).values(compared=further))
            least = select(func.min(columns.position)).scalar_subquery()
            writing.execute(delete(table).where(table.c.position <= least))
        return self._again(sink)

    def compare(self, sink: SinkRow, stamp: str, *, is_emptied: bool = False) -> SinkRow:
        """Begin a comparison: later changes are sent after it. `stamp`: the present one of the place."""
        last = select(counters.c.value).where(counters.c.name == "changes").scalar_subquery()
        values: dict[str, Any] = {"position": last, "compared": _COMPARED_NONE, "stamp": stamp}
        if is_emptied:
            # Unless a command paused it meanwhile.
            emptied = (sinks_table.c.state == SinkState.EMPTYING.value, SinkState.ACTIVE.value)
            values["state"] = case(emptied, else_=sinks_table.c.state)
        return self._set(sink, values)

    def recheck(self, sink: SinkRow) -> SinkRow:
        """Request a comparison: the place is not as the last delivery left it."""
        return self._set(sink, {"compared": TO_COMPARE})

    def caught_up(self, sink: SinkRow) -> SinkRow:
        """Record that a sink has everything now."""
        return self._set(sink, {**_WELL, "current_at": self._store.now()})

    def failed(self, sink: SinkRow, error: str) -> None:
        """Record a failed delivery, and put the next one off: ever longer, up to an hour."""
        wait = min(_FIRST_WAIT * 2 ** min(sink.failures, _MOST_DOUBLINGS), _LONGEST_WAIT)
        until = self._store.now() + wait // timedelta(microseconds=1)
        # Unless a command resumed it meanwhile.
        unchanged = (sinks_table.c.id == sink.id) & (sinks_table.c.failures == sink.failures)
        with self._store.write() as writing:
            values = {"failures": sink.failures + 1, "not_before": until, "error": error}
            writing.execute(update(sinks_table).where(unchanged).values(values))

    def new_stamp(self, sink: SinkRow) -> str:
        """Return a text that no place ever had: the home and the sink that write there, and a random part."""
        return f"{self._home}-{sink.id}-{os.urandom(8).hex()}"

    def is_own(self, sink: SinkRow, stamp: str | None) -> bool:
        """Return whether a stamp is of this sink of this home, or of none. Hosts that share the ledger count as one home."""
        home, _, rest = (stamp or "").partition("-")
        number, _, is_whole = rest.partition("-")
        return not is_whole or (number == str(sink.id) and (home == self._home or self._hosts.is_shared))

    def is_served_here(self, sink: SinkRow) -> bool:
        """Return whether this home writes to the sink, and no other host of the ledger does."""
        return not self._hosts.is_shared or (sink.stamp or "").startswith(f"{self._home}-")

    @property
    def _home(self) -> str:
        ownership = self._store.ownership
        return "0" if ownership is None else f"{ownership.identity:x}"

    def _set(self, sink: SinkRow, values: Mapping[str, Any]) -> SinkRow:
        with self._store.write() as writing:
            writing.execute(update(sinks_table).where(sinks_table.c.id == sink.id).values(values))
        return self._again(sink)

    def _again(self, sink: SinkRow) -> SinkRow:
        """Return the present row. Raises NotFound if the sink was removed, even if a new sink has the same name."""
        with self._store.read() as reading:
            row = reading.execute(select(sinks_table).where(sinks_table.c.id == sink.id)).first()
            if row is None:
                raise NotFound(f"{sink.name!r}: the sink was removed; see `catchment sinks list`")
            return _sink(reading, row)


def lacks_triggers(reading: Reading) -> bool:
    """Return whether there is a sink, but no trigger that notes changes for it."""
    if reading.execute(select(sinks_table.c.id).limit(1)).first() is None:
        return False
    names = "SELECT name FROM sqlite_master" if reading.sqlite else "SELECT tgname AS name FROM pg_trigger"
    count = reading.execute(text(f"SELECT count(*) FROM ({names}) AS triggers WHERE name LIKE 'outbox!_%' ESCAPE '!'"))
    return int(count.scalar_one()) < (len(_ROWS) if reading.sqlite else 1)


def compare_all(writing: Writing) -> None:
    """Let each sink be compared, because the library or its home is another one, and note its changes."""
    writing.execute(update(sinks_table).values(compared=TO_COMPARE, not_before=0))
    _watch(writing)


def unwatch(connection: Connection) -> None:
    """Stop recording changes."""
    _execute(connection, _DROP_SQLITE if connection.dialect.name == "sqlite" else _DROP_POSTGRES)


def _watch(writing: Writing) -> None:
    """Make the triggers that the sinks need, unless they are there."""
    sinks = writing.execute(select(sinks_table.c.wants_vectors)).scalars().all()
    if sinks:
        _execute(writing.connection, _SQLITE if writing.sqlite else _POSTGRES)
    if any(sinks):
        _execute(writing.connection, _SQLITE_VECTORS if writing.sqlite else _POSTGRES_VECTORS)


def _execute(connection: Connection, statements: Sequence[str]) -> None:
    for statement in statements:
        connection.exec_driver_sql(statement)


def _sink(reading: Reading, row: AnyRow) -> SinkRow:
    behind = select(func.count()).select_from(table).where(table.c.position > row.position)
    waiting = int(reading.execute(behind).scalar_one())
    if row.compared is not None:
        rest = select(func.count()).select_from(documents).where(LIVE, documents.c.id > row.compared)
        waiting += int(reading.execute(rest).scalar_one())
    refused = select(func.count()).select_from(refused_documents).where(refused_documents.c.sink_id == row.id)
    its = {"not_before": maybe_time(row.not_before or None), "refused": int(reading.execute(refused).scalar_one())}
    return record(SinkRow, row, waiting=waiting, **its)
