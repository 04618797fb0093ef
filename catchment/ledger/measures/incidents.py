"""The incidents: problems with their start, end, timeline and notes."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import func, insert, select, update

from catchment.errors import NotFound
from catchment.ledger.db.database import (
    AnyRow,
    Reading,
    Store,
    Writing,
    from_json,
    from_micros,
    maybe_micros,
    to_json,
    to_micros,
)
from catchment.ledger.db.lookup import before, cut, key_of
from catchment.ledger.db.row_records import record
from catchment.ledger.db.schema import incidents
from catchment.records.standing import Incident, ListPage, Moment

_LONGEST_TIMELINE = 50


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
            return _incident(reading, number)

    def closed(self, *, after: str | None = None, limit: int = 50) -> ListPage[Incident]:
        """Return the closed incidents in parts, newest first."""
        closed = incidents.c.closed_at.is_not(None)
        page = select(incidents).where(closed, before(after, incidents.c.id)).order_by(incidents.c.id.desc())
        with self._store.read() as reading:
            rows = reading.execute(page.limit(limit + 1)).all()
            total = reading.execute(select(func.count(incidents.c.id)).where(closed)).scalar_one()
        return cut(rows, limit, total, _row, lambda row: key_of(row.id))

    def save(self, changed: Sequence[Incident]) -> list[Incident]:
        """Store incidents as they are now, in one transaction, and return them; those without an ID get one.

        Idempotent for the others: of their timeline, new entries are added.
        """
        if not changed:
            return []
        with self._store.write() as writing:
            return [self._saved(writing, incident) for incident in changed]

    def _saved(self, writing: Writing, incident: Incident) -> Incident:
        values = {
            "message": incident.message,
            "remedy": incident.remedy,
            "closed_at": maybe_micros(incident.closed_at),
            "timeline": _timeline(incident.timeline),
        }
        number = incident.id or writing.ids("incidents")[0]
        if incident.id:
            moments = dict.fromkeys((*_incident(writing, number).timeline, *incident.timeline))
            values["timeline"] = _timeline(sorted(moments, key=lambda moment: moment.at))
            writing.execute(update(incidents).where(incidents.c.id == number).values(values))
        else:
            row = {
                "id": number,
                "reason": incident.reason,
                "subject": incident.subject,
                "opened_at": to_micros(incident.opened_at),
            }
            writing.execute(insert(incidents).values(row | values))
        return _incident(writing, number)

    def acknowledge(self, number: int, actor: str, note: str = "") -> Incident:
        """Record that a person knows of an incident, with a note. Raises NotFound."""
        with self._store.write() as writing:
            known = _incident(writing, number).timeline
            moment = Moment(from_micros(writing.now), "acknowledged", f"{actor}: {note}" if note else actor)
            values = {
                "acknowledged_at": writing.now,
                "acknowledged_by": actor,
                "note": note or None,
                "timeline": _timeline([*known, moment]),
            }
            writing.execute(update(incidents).where(incidents.c.id == number).values(values))
            writing.record("incident acknowledged", actor=actor, reason=f"{number}: {note}" if note else str(number))
            return _incident(writing, number)


def _incident(reading: Reading, number: int) -> Incident:
    row = reading.execute(select(incidents).where(incidents.c.id == number)).first()
    if row is None:
        raise NotFound(f"incident {number}: not found; see `catchment incidents list`")
    return _row(row)


def _timeline(moments: Sequence[Moment]) -> str | None:
    if len(moments) > _LONGEST_TIMELINE:
        moments = [moments[0], *moments[1 - _LONGEST_TIMELINE :]]
    return to_json([[to_micros(moment.at), moment.event, moment.text] for moment in moments])


def _row(row: AnyRow) -> Incident:
    timeline = tuple(Moment(from_micros(at), event, text) for at, event, text in from_json(row.timeline))
    return record(Incident, row, timeline=timeline)
