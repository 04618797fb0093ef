"""The incidents: what was wrong, from when until when, and who said what about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select, update

from catchment.errors import NotFound
from catchment.ledger.db.database import AnyRow, Store, from_json, from_micros, maybe_time, to_json, to_micros
from catchment.ledger.db.lookup import ListPage, before, cut, key_of
from catchment.ledger.db.schema import incidents

_LONGEST_TIMELINE = 50


@dataclass(frozen=True, slots=True)
class Moment:
    """An entry in the timeline of an incident: what happened (opened, changed, told, acknowledged, closed), and details."""

    at: datetime
    event: str
    text: str


@dataclass(frozen=True, slots=True)
class Incident:
    """An incident. It is open while `closed` is None.

    Attributes:
        number: 0 if it is not stored yet.
        reason: Its reason code ("source.unreachable").
        subject: What it is about: "source:NAME" or "" for the whole system.
        message, remedy: The latest. Neither contains a path.
        timeline: The first entry and the latest 49.
    """

    number: int
    reason: str
    subject: str
    opened: datetime
    closed: datetime | None
    message: str
    remedy: str
    timeline: tuple[Moment, ...]
    acknowledged: datetime | None = None
    acknowledged_by: str | None = None
    note: str | None = None


class Incidents:
    """All incidents. At most one of a reason and subject is open."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def open(self) -> list[Incident]:
        """Return the open incidents, oldest first."""
        with self._store.read() as reading:
            statement = select(incidents).where(incidents.c.closed_at.is_(None)).order_by(incidents.c.id)
            return [_row(row) for row in reading.execute(statement)]

    def get(self, number: int) -> Incident:
        """Return an incident. Raises NotFound."""
        with self._store.read() as reading:
            row = reading.execute(select(incidents).where(incidents.c.id == number)).first()
        if row is None:
            raise NotFound(f"incident {number}: not found; see `catchment incidents list`")
        return _row(row)

    def page(self, *, after: str | None = None, limit: int = 50) -> ListPage[Incident]:
        """Return the incidents in parts, newest first."""
        with self._store.read() as reading:
            rows = reading.execute(
                select(incidents).where(before(after, incidents.c.id)).order_by(incidents.c.id.desc()).limit(limit + 1)
            ).all()
            total = reading.execute(select(func.count(incidents.c.id))).scalar_one()
        return cut(rows, limit, total, _row, lambda row: key_of(row.id))

    def save(self, changed: Sequence[Incident]) -> list[Incident]:
        """Store incidents as they are now, in one transaction; those without a number get one. Idempotent for the others."""
        if not changed:
            return []
        with self._store.write() as writing:
            saved = []
            for one in changed:
                values = {
                    "message": one.message,
                    "remedy": one.remedy,
                    "closed_at": to_micros(one.closed) if one.closed else None,
                    "timeline": to_json([[to_micros(m.at), m.event, m.text] for m in _cut(one.timeline)]),
                }
                number = one.number or writing.ids("incidents")[0]
                if one.number:
                    writing.execute(update(incidents).where(incidents.c.id == number).values(values))
                else:
                    row = {"id": number, "reason": one.reason, "subject": one.subject}
                    writing.insert_named(incidents, [row | {"opened_at": to_micros(one.opened)} | values])
                saved.append(number)
            rows = writing.execute(select(incidents).where(incidents.c.id.in_(saved)).order_by(incidents.c.id)).all()
            return [_row(row) for row in rows]

    def acknowledge(self, number: int, actor: str, note: str | None) -> Incident:
        """Record that a person knows of an incident. Raises NotFound."""
        known = self.get(number)
        with self._store.write() as writing:
            moments = [
                *known.timeline,
                Moment(from_micros(writing.now), "acknowledged", f"{actor}: {note}" if note else actor),
            ]
            values = {
                "acknowledged_at": writing.now,
                "acknowledged_by": actor,
                "note": note,
                "timeline": to_json([[to_micros(m.at), m.event, m.text] for m in _cut(moments)]),
            }
            writing.execute(update(incidents).where(incidents.c.id == number).values(values))
            writing.record("incident acknowledged", actor=actor, reason=f"#{number}" + (f": {note}" if note else ""))
        return self.get(number)


def _cut(moments: Sequence[Moment]) -> Sequence[Moment]:
    return moments if len(moments) <= _LONGEST_TIMELINE else [moments[0], *moments[1 - _LONGEST_TIMELINE :]]


def _row(row: AnyRow) -> Incident:
    return Incident(
        row.id,
        row.reason,
        row.subject,
        from_micros(row.opened_at),
        maybe_time(row.closed_at),
        row.message,
        row.remedy,
        tuple(Moment(from_micros(at), event, said) for at, event, said in from_json(row.timeline) or ()),
        maybe_time(row.acknowledged_at),
        row.acknowledged_by,
        row.note,
    )
