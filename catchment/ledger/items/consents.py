"""Consent: what of a source a person has agreed to have read, until when, and whether that was taken back."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from sqlalchemy import ColumnElement, and_, delete, insert, or_, select, update

from catchment.errors import Refused
from catchment.ledger.db.database import AnyRow, Reading, Store, Writing, maybe_micros, maybe_time
from catchment.ledger.db.schema import consents, marks, sources

_columns = consents.c


class ConsentState(StrEnum):
    """How a consent stands. Only while it is `given` anything is read."""

    ASKED = "asked"
    GIVEN = "given"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    PURGING = "purging"
    """Withdrawn, and not all that came from there is gone yet."""


@dataclass(frozen=True, slots=True)
class Consent:
    """What was said about one scope of a source; `wanted` is whether the source is set to read it.

    Moments are aware UTC; `expires` None: it holds until it is withdrawn.
    """

    source: str
    kind: str
    scope: str
    state: ConsentState
    wanted: bool
    by: str | None
    given: datetime | None
    expires: datetime | None
    withdrawn: datetime | None
    purged: datetime | None


class Consents:
    """What a person agreed to. There is one row for each scope of a source that was ever asked for."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def all(self, source: str | None = None, *, every: bool = False) -> list[Consent]:
        """The consents of all sources or of one, by the name of the source and scope: those that decide whether it is read.

        `every`: also to what a source is not set to read any more.
        """
        statement = (
            select(consents, sources.c.name, sources.c.kind)
            .join(sources, sources.c.id == _columns.source_id)
            .where(sources.c.state != "removed")
            .order_by(sources.c.name, _columns.scope)
        )
        if source is not None:
            statement = statement.where(sources.c.name == source)
        if not every:
            statement = statement.where(_columns.wanted | _is_purging())
        with self._store.read() as reading:
            return [_consent(row, reading.now) for row in reading.execute(statement)]

    def valid(self, source_id: int) -> frozenset[str]:
        """The scopes that may be read now."""
        with self._store.read() as reading:
            rows = reading.execute(select(_columns.scope).where(_columns.source_id == source_id, _holds(reading.now)))
            return frozenset(rows.scalars())

    def agreed(self, source: str) -> bool:
        """Whether a person agrees now to all that the source of this name was last set to read."""
        said = self.all(source)
        return bool(said) and all(consent.state is ConsentState.GIVEN for consent in said)

    def ask(self, source_id: int, scopes: Collection[str]) -> None:
        """Remember that a source is set to read these scopes and no others; what was said of any of them before stays."""
        with self._store.write() as writing:
            _make(writing, source_id, scopes)
            mine = _columns.source_id == source_id
            writing.execute(update(consents).where(mine).values(wanted=_columns.scope.in_(scopes)))

    def give(self, source_id: int, scopes: Collection[str], by: str, until: datetime | None) -> None:
        """Agree to these scopes, until a moment or until it is withdrawn; may be called again, and replaces what was said.

        What was passed over without consent is listed anew. Raises Refused while a purge is not done.
        """
        with self._store.write() as writing:
            mine = (_columns.source_id == source_id) & _columns.scope.in_(scopes)
            if any(row.state is ConsentState.PURGING for row in _of(writing, mine)):
                raise Refused(
                    "What came from there is not all deleted yet; finish with `catchment consent revoke` first"
                )
            held = set(writing.execute(select(_columns.scope).where(mine, _holds(writing.now))).scalars())
            _make(writing, source_id, scopes)
            writing.execute(
                update(consents)
                .where(mine)
                .values(
                    wanted=True,
                    given_at=writing.now,
                    given_by=by,
                    expires_at=maybe_micros(until),
                    withdrawn_at=None,
                    purged_at=None,
                )
            )
            if not held.issuperset(scopes):
                writing.execute(delete(marks).where(marks.c.source_id == source_id))
            end = f" until {until:%Y-%m-%d %H:%M} UTC" if until else ""
            for scope in sorted(scopes):
                writing.record("consent given", actor=by, source_id=source_id, reason=f"{scope}{end}")

    def withdraw(self, source_id: int, scopes: Collection[str], by: str) -> None:
        """Take consent to these scopes back, at once; what is in the library is for `Purging`. May be called again."""
        with self._store.write() as writing:
            _make(writing, source_id, scopes)
            mine = (_columns.source_id == source_id) & _columns.scope.in_(scopes) & _columns.withdrawn_at.is_(None)
            values = {"withdrawn_at": writing.now, "purged_at": None}
            taken = (
                writing.execute(update(consents).where(mine).values(values).returning(_columns.scope)).scalars().all()
            )
            for scope in sorted(taken):
                writing.record("consent withdrawn", actor=by, source_id=source_id, reason=scope)


def purged(writing: Writing, source_id: int, scopes: Iterable[str], actor: str) -> None:
    """Note that what came from these scopes is gone, unless somebody has agreed to them again meanwhile."""
    for scope in sorted(scopes):
        mine = (_columns.source_id == source_id) & (_columns.scope == scope) & _columns.withdrawn_at.is_not(None)
        if writing.execute(update(consents).where(mine).values(purged_at=writing.now)).rowcount:
            writing.record("purged", actor=actor, source_id=source_id, reason=scope)


def forget(writing: Writing, source_id: int) -> None:
    """Forget what was said of a source that is removed: whoever adds it again is asked again."""
    writing.execute(delete(consents).where(_columns.source_id == source_id))


def _holds(now: int) -> ColumnElement[bool]:
    lasts = or_(_columns.expires_at.is_(None), _columns.expires_at > now)
    return and_(_columns.given_at.is_not(None), _columns.withdrawn_at.is_(None), lasts)


def _is_purging() -> ColumnElement[bool]:
    return _columns.withdrawn_at.is_not(None) & _columns.purged_at.is_(None)


def _make(writing: Writing, source_id: int, scopes: Collection[str]) -> None:
    there = set(writing.execute(select(_columns.scope).where(_columns.source_id == source_id)).scalars())
    for scope in sorted(set(scopes) - there):
        writing.execute(insert(consents).values(source_id=source_id, scope=scope, wanted=True))


def _of(reading: Reading, where: ColumnElement[bool]) -> list[Consent]:
    statement = select(consents, sources.c.name, sources.c.kind).join(sources, sources.c.id == _columns.source_id)
    return [_consent(row, reading.now) for row in reading.execute(statement.where(where))]


def _consent(row: AnyRow, now: int) -> Consent:
    return Consent(
        row.name,
        row.kind,
        row.scope,
        _state(row, now),
        row.wanted,
        row.given_by,
        maybe_time(row.given_at),
        maybe_time(row.expires_at),
        maybe_time(row.withdrawn_at),
        maybe_time(row.purged_at),
    )


def _state(row: AnyRow, now: int) -> ConsentState:
    if row.withdrawn_at is not None:
        return ConsentState.PURGING if row.purged_at is None else ConsentState.WITHDRAWN
    if row.given_at is None:
        return ConsentState.ASKED
    return ConsentState.EXPIRED if row.expires_at is not None and row.expires_at <= now else ConsentState.GIVEN
