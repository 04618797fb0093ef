"""Consents: the scopes of a source that a user has agreed to, with expiry and withdrawal."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, delete, exists, insert, or_, select, update

from catchment.errors import Refused
from catchment.ledger.db.database import AnyRow, Reading, Store, Writing, maybe_micros
from catchment.ledger.db.row_records import record
from catchment.ledger.db.schema import consents, host_purges, hosts, marks, sources
from catchment.records.standing import Consent, ConsentState

_columns = consents.c


class Consents:
    """Storage of consents, with one row for each scope that a source was ever configured to read."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def all(self, source: str | None = None, *, every: bool = False) -> list[Consent]:
        """Return the consents of one or all sources, ordered by source and scope.

        By default, only consents that determine whether a source is read. `every` includes scopes no longer configured.
        """
        statement = _rows().where(sources.c.state != "removed").order_by(sources.c.name, _columns.scope)
        if source is not None:
            statement = statement.where(sources.c.name == source)
        if not every:
            statement = statement.where(_columns.wanted | _is_purging())
        with self._store.read() as reading:
            return _consents(reading, statement)

    def valid(self, source_id: int) -> frozenset[str]:
        """Return the scopes that may be read now."""
        with self._store.read() as reading:
            rows = reading.execute(select(_columns.scope).where(_columns.source_id == source_id, _holds(reading.now)))
            return frozenset(rows.scalars())

    def agreed(self, source: str) -> bool:
        """Return whether every scope that the source was last configured to read has valid consent."""
        consents = self.all(source)
        return bool(consents) and all(consent.state is ConsentState.GIVEN for consent in consents)

    def ask(self, source_id: int, scopes: Collection[str]) -> None:
        """Record the scopes that a source is configured to read. Existing consents are unchanged."""
        with self._store.write() as writing:
            _make(writing, source_id, scopes)
            of_source = _columns.source_id == source_id
            writing.execute(update(consents).where(of_source).values(wanted=_columns.scope.in_(scopes)))

    def give(
        self,
        source_id: int,
        scopes: Collection[str],
        by: str,
        until: datetime | None,
        reason: str = "",
        *,
        if_new: bool = False,
    ) -> None:
        """Give consent for these scopes, until a time or until it is withdrawn. Replaces earlier consents. Idempotent.

        Deletes the source's marks, so that previously skipped items are listed again. Raises Refused during a purge.

        `if_new`: change nothing if any of the scopes is known, for example because consent was withdrawn.
        """
        with self._store.write() as writing:
            of_scopes = (_columns.source_id == source_id) & _columns.scope.in_(scopes)
            known = _consents(writing, _rows().where(of_scopes))
            if if_new and known:
                return
            if any(consent.state is ConsentState.PURGING for consent in known):
                raise Refused("deletion of revoked data is incomplete; finish it with `catchment consent revoke` first")
            _make(writing, source_id, scopes)
            writing.execute(
                update(consents)
                .where(of_scopes)
                .values(
                    wanted=True,
                    given_at=writing.now,
                    given_by=by,
                    expires_at=maybe_micros(until),
                    withdrawn_at=None,
                    purged_at=None,
                )
            )
            if not {consent.scope for consent in known if consent.state is ConsentState.GIVEN}.issuperset(scopes):
                writing.execute(delete(marks).where(marks.c.source_id == source_id))
            end = f" until {until:%Y-%m-%d %H:%M} UTC" if until else ""
            for scope in sorted(scopes):
                writing.record("consent given", actor=by, source_id=source_id, fact=f"{scope}{end}", reason=reason)

    def withdraw(self, source_id: int, scopes: Collection[str], by: str, reason: str = "") -> None:
        """Withdraw consent for these scopes immediately. `Purging` deletes the data. Idempotent."""
        with self._store.write() as writing:
            _make(writing, source_id, scopes)
            of_scopes = (_columns.source_id == source_id) & _columns.scope.in_(scopes) & _columns.withdrawn_at.is_(None)
            values = {"withdrawn_at": writing.now, "purged_at": None}
            withdrawn = (
                writing.execute(update(consents).where(of_scopes).values(values).returning(_columns.scope))
                .scalars()
                .all()
            )
            for scope in sorted(withdrawn):
                writing.record("consent withdrawn", actor=by, source_id=source_id, fact=scope, reason=reason)


def purged(writing: Writing, source_id: int, scopes: Iterable[str], actor: str) -> None:
    """Record the purge of these scopes as complete, except those with new consent."""
    for scope in sorted(scopes):
        withdrawn = (_columns.source_id == source_id) & (_columns.scope == scope) & _columns.withdrawn_at.is_not(None)
        if writing.execute(update(consents).where(withdrawn).values(purged_at=writing.now)).rowcount:
            writing.record("purged", actor=actor, source_id=source_id, reason=scope)


def forget(writing: Writing, source_id: int) -> None:
    """Delete the consents of a removed source, so that adding it again requires new consent."""
    writing.execute(delete(consents).where(_columns.source_id == source_id))


def _holds(now: int) -> ColumnElement[bool]:
    lasts = or_(_columns.expires_at.is_(None), _columns.expires_at > now)
    return and_(_columns.given_at.is_not(None), _columns.withdrawn_at.is_(None), lasts)


def _is_purging() -> ColumnElement[bool]:
    waits_for_hosts = exists().where(host_purges.c.source_id == _columns.source_id)
    return _columns.withdrawn_at.is_not(None) & (_columns.purged_at.is_(None) | waits_for_hosts)


def _make(writing: Writing, source_id: int, scopes: Collection[str]) -> None:
    there = set(writing.execute(select(_columns.scope).where(_columns.source_id == source_id)).scalars())
    for scope in sorted(set(scopes) - there):
        writing.execute(insert(consents).values(source_id=source_id, scope=scope, wanted=True))


def _rows() -> Select[Any]:
    facts = sources.c.name.label("source"), sources.c.kind, _is_purging().label("is_purging")
    return select(consents, *facts).join(sources, sources.c.id == _columns.source_id)


def _consents(reading: Reading, statement: Select[Any]) -> list[Consent]:
    rows = reading.execute(statement).all()
    purges = select(host_purges.c.source_id, hosts.c.name).join(hosts, hosts.c.id == host_purges.c.host_id)
    # Few sources are being purged, and in a home that runs alone no host has to purge.
    waiting = reading.execute(purges.order_by(hosts.c.name)).all() if any(row.is_purging for row in rows) else ()
    names = {row.source_id: tuple(host for source_id, host in waiting if source_id == row.source_id) for row in rows}
    return [
        record(
            Consent,
            row,
            state=_state(row, reading.now),
            by=row.given_by,
            hosts=names[row.source_id] if row.is_purging else (),
        )
        for row in rows
    ]


def _state(row: AnyRow, now: int) -> ConsentState:
    if row.withdrawn_at is not None:
        return ConsentState.PURGING if row.is_purging else ConsentState.WITHDRAWN
    if row.given_at is None:
        return ConsentState.ASKED
    return ConsentState.EXPIRED if row.expires_at is not None and row.expires_at <= now else ConsentState.GIVEN
