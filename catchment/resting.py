"""Read-only overview of pauses, rules and quotas that currently hold back sources and hosts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from catchment.ledger import Ledger
from catchment.pacing.breaker import Position
from catchment.pacing.rules import ALL, scope


@dataclass(frozen=True, slots=True)
class Rest:
    """Reason for a pause and its end (aware UTC); None if it lasts until an operator lifts it."""

    why: str
    until: datetime | None


@dataclass(frozen=True, slots=True)
class QuotaStatus:
    """A quota, the unused part, and the end of its window (aware UTC)."""

    allowed: int
    left: int
    until: datetime | None


@dataclass(frozen=True, slots=True)
class HostStatus:
    """Pause and quota of a host. `name` includes a hash of the login, if there is one."""

    name: str
    rest: Rest | None
    quota: QuotaStatus | None


def resting(ledger: Ledger) -> dict[str, Rest]:
    """Return every source that a rule or its own circuit breaker currently pauses, by name."""
    opened = _opened(ledger)
    found = {}
    for source in ledger.sources.all():
        if (rest := opened.get(f"source:{source.name}")) is not None:
            found[source.name] = rest
        if (ruled := ledger.throttles.blocked(source.name)) is not None:
            found[source.name] = Rest(ruled[1], ruled[0])
    return found


def rules(ledger: Ledger) -> dict[str, str]:
    """Return the combined rules of each source as text, by name. Sources without rules are omitted."""
    if not ledger.throttles.all():
        return {}
    ruled = {source.name: ledger.throttles.of(source.name) for source in ledger.sources.all()}
    return {name: str(rule) for name, rule in ruled.items() if rule.as_json()}


def quotas(ledger: Ledger) -> dict[str, QuotaStatus]:
    """Return the hourly job quota of each source: of all applicable rules, the one with the smallest remainder."""
    ruled = {
        row.scope: QuotaStatus(row.rule.per_hour, max(0, row.rule.per_hour - row.begun), row.until)
        for row in ledger.throttles.all()
        if row.rule.per_hour is not None
    }
    if not ruled:
        return {}
    found = {}
    for source in ledger.sources.all():
        mine = [ruled[name] for name in (ALL, scope(kind=source.kind), scope(source=source.name)) if name in ruled]
        if mine:
            found[source.name] = min(mine, key=lambda quota: quota.left)
    return found


def hosts(ledger: Ledger) -> list[HostStatus]:
    """Return the hosts that are paused or have an hourly quota."""
    opened = {key.removeprefix("host:"): rest for key, rest in _opened(ledger).items() if key.startswith("host:")}
    found = []
    for row in ledger.pacing.buckets():
        rest = opened.pop(row.key.partition("#")[0], None)
        if row.not_before is not None:
            rest = Rest("requested by the host", row.not_before)
        quota = None
        if row.allowed is not None and row.left is not None:
            quota = QuotaStatus(row.allowed, row.left, row.until)
        if rest or quota:
            found.append(HostStatus(row.key, rest, quota))
    return [*found, *(HostStatus(name, rest, None) for name, rest in opened.items())]


def _opened(ledger: Ledger) -> dict[str, Rest]:
    """Return the reasons of all open circuit breakers, by key."""
    return {
        row.key: Rest("login refused" if row.locked else "repeated failures", row.until)
        for row in ledger.pacing.breakers()
        if row.position is Position.OPEN
    }
