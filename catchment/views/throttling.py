"""Read-only overview of pauses, rules and quotas that currently hold back sources and hosts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from catchment.ledger import Ledger
from catchment.pacing.breaker import Position
from catchment.pacing.operator_rules import ALL, scope


@dataclass(frozen=True, slots=True)
class Pause:
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
    """Pause and quota of a host. `host` includes a hash of the login, if there is one."""

    host: str
    rests: Pause | None
    quota: QuotaStatus | None


def paused_sources(ledger: Ledger) -> dict[str, Pause]:
    """Return every source that a rule or its own circuit breaker currently pauses, by name."""
    breakers = _open_breakers(ledger)
    pauses = {}
    for source in ledger.sources.all():
        if (pause := breakers.get(f"source:{source.name}")) is not None:
            pauses[source.name] = pause
        if (blocked := ledger.throttles.blocked(source.name)) is not None:
            pauses[source.name] = Pause(blocked[1], blocked[0])
    return pauses


def rules(ledger: Ledger) -> dict[str, str]:
    """Return the combined rules of each source as text, by name. Sources without rules are omitted."""
    if not ledger.throttles.all():
        return {}
    combined = {source.name: ledger.throttles.of(source.name) for source in ledger.sources.all()}
    return {name: str(rule) for name, rule in combined.items() if rule.as_json()}


def quotas(ledger: Ledger) -> dict[str, QuotaStatus]:
    """Return the hourly job quota of each source: of all applicable rules, the one with the smallest remainder."""
    by_scope = {
        row.scope: QuotaStatus(row.rule.per_hour, max(0, row.rule.per_hour - row.begun), row.until)
        for row in ledger.throttles.all()
        if row.rule.per_hour is not None
    }
    if not by_scope:
        return {}
    result = {}
    for source in ledger.sources.all():
        applicable = [
            by_scope[name] for name in (ALL, scope(kind=source.kind), scope(source=source.name)) if name in by_scope
        ]
        if applicable:
            result[source.name] = min(applicable, key=lambda quota: quota.left)
    return result


def hosts(ledger: Ledger) -> list[HostStatus]:
    """Return the hosts that are paused or have an hourly quota."""
    breakers = {
        key.removeprefix("host:"): pause for key, pause in _open_breakers(ledger).items() if key.startswith("host:")
    }
    result = []
    for row in ledger.pacing.buckets():
        pause = breakers.pop(row.key.partition("#")[0], None)
        if row.not_before is not None:
            pause = Pause("requested by the host", row.not_before)
        quota = None
        if row.allowed is not None and row.left is not None:
            quota = QuotaStatus(row.allowed, row.left, row.until)
        if pause or quota:
            result.append(HostStatus(row.key, pause, quota))
    return [*result, *(HostStatus(name, pause, None) for name, pause in breakers.items())]


def _open_breakers(ledger: Ledger) -> dict[str, Pause]:
    """Return the reasons of all open circuit breakers, by key."""
    return {
        row.key: Pause("login refused" if row.locked else "repeated failures", row.until)
        for row in ledger.pacing.breakers()
        if row.position is Position.OPEN
    }
