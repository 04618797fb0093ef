"""Storage of operator rules by scope (a source, a kind or everything), and the job counts for their quotas."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import delete, func, insert, select, update

from catchment.ledger.db.database import Reading, Store, Writing, from_json, from_micros, to_json, to_micros
from catchment.ledger.db.job_states import RUNNING
from catchment.ledger.db.lookup import source_of
from catchment.ledger.db.monotonic_clock import MonotonicClock
from catchment.ledger.db.schema import jobs, sources, throttles
from catchment.pacing.bucket import HOUR
from catchment.pacing.operator_rules import ALL, Rule, scope, strictest, windows_of
from catchment.pacing.waits import Wait, WaitKind
from catchment.pacing.windows import blocked_until as in_window
from catchment.pacing.windows import parse
from catchment.records.rows import Source

_SOON = 60_000_000
"""Interval, in microseconds, after which a pause or a limit on active jobs is checked again, since neither has a known end."""
_FIRST = select(throttles.c.scope).limit(1)


@dataclass(frozen=True, slots=True)
class RuleRow:
    """A rule and its scope. `begun` jobs were started in the hour that ends at `until`. Times are aware UTC."""

    scope: str
    rule: Rule
    changed: datetime
    begun: int
    until: datetime | None


class Throttles:
    """The operator's rules. A scope is "all", "kind:KIND" or "source:NAME"."""

    def __init__(self, store: Store, monotonic: MonotonicClock) -> None:
        self._store = store
        self._monotonic = monotonic

    def all(self) -> list[RuleRow]:
        """Return all rules, by scope."""
        with self._store.read() as reading:
            now = self._monotonic.now(reading)
            rows = reading.execute(select(throttles).order_by(throttles.c.scope)).all()
            result = []
            for row in rows:
                runs = row.hour is not None and row.hour > now
                until = self._monotonic.moment(row.hour, reading) if runs else None
                rule, changed = Rule.of_json(from_json(row.rule)), from_micros(row.changed_at)
                result.append(RuleRow(row.scope, rule, changed, row.began if runs else 0, until))
            return result

    def get(self, where: str) -> Rule:
        """Return the rule of exactly this scope, or an empty rule."""
        with self._store.read() as reading:
            return _rules(reading, [where]).get(where, Rule())

    def put(self, where: str, rule: Rule, actor: str, reason: str) -> None:
        """Replace the rule of a scope. Idempotent. Raises BadInput."""
        for window in rule.blackouts:
            parse(window)
        with self._store.write() as writing:
            before = _rules(writing, [where]).get(where, Rule())
            if rule == before:
                return
            _tell(writing, where, before, rule, actor, reason)
            if rule == Rule():
                writing.execute(delete(throttles).where(throttles.c.scope == where))
                return
            values = {"rule": to_json(rule.as_json()), "changed_at": writing.now}
            if not writing.execute(update(throttles).where(throttles.c.scope == where).values(values)).rowcount:
                writing.execute(insert(throttles).values(scope=where, began=0, **values))

    def of(self, source: str) -> Rule:
        """Return the combined rule of all scopes that apply to a source."""
        with self._store.read() as reading:
            return rule_of(reading, source)

    def blocked(self, source: str) -> Wait | None:
        """Return the wait of a source that a rule blocks now; None if none does."""
        with self._store.read() as reading:
            rule = rule_of(reading, source)
            if rule.paused:
                return WaitKind.RULE.of(source, why=f"{WaitKind.RULE.why}: {rule.why}" if rule.why else "")
            until = blocked_until(rule, reading.now)
            return None if until is None else WaitKind.BLACKOUT.of(source, from_micros(until))

    def quota(self, source: Source) -> Wait | None:
        """Return the wait of a source if its hourly quota of jobs is used up; otherwise None."""
        with self._store.read() as reading:
            ends = [count.hour for count in _counts(reading, source.id, self._monotonic) if count.over]
            return WaitKind.QUOTA.of(source.name, self._monotonic.moment(max(ends), reading)) if ends else None

    def next_allowed(self, source_id: int) -> datetime | None:
        """Return when the quotas permit another job of this source; None if they do now."""
        with self._store.read() as reading:
            now = self._monotonic.now(reading)
            waits = [
                count.hour if count.over else now + _SOON
                for count in _counts(reading, source_id, self._monotonic)
                if count.left <= 0
            ]
            return self._monotonic.moment(max(waits, default=None), reading)


@dataclass(frozen=True, slots=True)
class _Count:
    """Count of one scope: `left` jobs may start. `over`: the hourly quota is used up, until `hour`."""

    where: str
    left: int
    over: bool
    began: int
    hour: int


class Quota:
    """The quotas of one source, enforced within the transaction that claims jobs."""

    def __init__(self, writing: Writing, monotonic: MonotonicClock, source_id: int) -> None:
        self._writing = writing
        self._counts = _counts(writing, source_id, monotonic) if _any(writing) else []

    def left(self, limit: int) -> int:
        """Return how many of `limit` jobs may start."""
        return max(0, min([limit, *(count.left for count in self._counts)]))

    def spend(self, number: int) -> None:
        """Count started jobs."""
        for count in self._counts if number else ():
            of_scope = throttles.c.scope == count.where
            self._writing.execute(update(throttles).where(of_scope).values(began=count.began + number, hour=count.hour))


def rule_of(reading: Reading, source: str) -> Rule:
    """Return the combined rule of all scopes that apply to a source."""
    if not _any(reading):
        return Rule()
    kind = reading.execute(select(sources.c.kind).where(sources.c.name == source)).scalar()
    return strictest(_rules(reading, _scopes(kind, source)).values())


def blocked_until(rule: Rule, now: int) -> int | None:
    """Return the end of the current block in microseconds since 1970, or None. A pause is checked again after a minute."""
    if rule.paused:
        return now + _SOON
    until = in_window(windows_of(rule), from_micros(now)) if rule.blackouts else None
    return None if until is None else to_micros(until)


def _any(reading: Reading) -> bool:
    return reading.execute(_FIRST).first() is not None


def _scopes(kind: str | None, source: str) -> list[str]:
    return [ALL, scope(source=source), *([scope(kind=kind)] if kind else [])]


def _rules(reading: Reading, scopes: Iterable[str]) -> dict[str, Rule]:
    rows = reading.execute(select(throttles.c.scope, throttles.c.rule).where(throttles.c.scope.in_(list(scopes))))
    return {where: Rule.of_json(from_json(rule)) for where, rule in rows}


def _counts(reading: Reading, source_id: int, monotonic: MonotonicClock) -> list[_Count]:
    now = monotonic.now(reading)
    source = reading.execute(select(sources.c.name, sources.c.kind).where(sources.c.id == source_id)).one()
    of_source = throttles.c.scope.in_(_scopes(source.kind, source.name))
    counts = []
    for row in reading.execute(select(throttles).where(of_source)).all():
        rule = Rule.of_json(from_json(row.rule))
        if rule.active is None and rule.per_hour is None:
            continue
        began, hour = (row.began, row.hour) if row.hour is not None and row.hour > now else (0, now + HOUR)
        hourly = rule.per_hour - began if rule.per_hour is not None else None
        active = rule.active - _running(reading, row.scope) if rule.active is not None else None
        left = min(number for number in (hourly, active) if number is not None)
        counts.append(_Count(row.scope, left, hourly is not None and hourly <= 0, began, hour))
    return counts


def _running(reading: Reading, where: str) -> int:
    statement = select(func.count()).select_from(jobs).where(jobs.c.state == RUNNING.value)
    kind, _, name = where.partition(":")
    if name:
        column = sources.c.name if kind == "source" else sources.c.kind
        statement = statement.join(sources, sources.c.id == jobs.c.source_id).where(column == name)
    return int(reading.execute(statement).scalar_one())


def _tell(writing: Writing, where: str, before: Rule, after: Rule, actor: str, reason: str) -> None:
    # The reason is at the end of the line.
    before, after = replace(before, why=""), replace(after, why="")
    event = "throttle cleared" if after == Rule() else "throttle set"
    if replace(before, paused=after.paused) == after:
        event = "paused" if after.paused else "resumed"
    fact = f"{where}: {after}, before: {before}"
    writing.record(event, actor=actor, source_id=source_of(writing, where), fact=fact, reason=reason)
