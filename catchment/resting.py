"""What holds sources and hosts back at the moment, for whoever wants to see it; asking changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from catchment.ledger import Ledger
from catchment.pacing.breaker import Position
from catchment.pacing.rules import ALL, scope


@dataclass(frozen=True, slots=True)
class Rest:
    """Why a source or a host is left alone, and until when: aware UTC, None where that is for a person to say."""

    why: str
    until: datetime | None


@dataclass(frozen=True, slots=True)
class QuotaStatus:
    """How much of something is allowed until a moment (aware UTC), and how much of it is left."""

    allowed: int
    left: int
    until: datetime | None


@dataclass(frozen=True, slots=True)
class HostStatus:
    """A host that holds its sources back, or says how much it allows; `name` bears the mark of a login where there is one."""

    name: str
    rest: Rest | None
    quota: QuotaStatus | None


def resting(ledger: Ledger) -> dict[str, Rest]:
    """Every source that a rule or its own breaker holds back at the moment, by name."""
    opened = _opened(ledger)
    found = {}
    for source in ledger.sources.all():
        if (rest := opened.get(f"source:{source.name}")) is not None:
            found[source.name] = rest
        if (ruled := ledger.throttles.blocked(source.name)) is not None:
            found[source.name] = Rest(ruled[1], ruled[0])
    return found


def rules(ledger: Ledger) -> dict[str, str]:
    """What an operator ruled for each source, in words, of all scopes together; only where there is a rule."""
    if not ledger.throttles.all():
        return {}
    ruled = {source.name: ledger.throttles.of(source.name) for source in ledger.sources.all()}
    return {name: str(rule) for name, rule in ruled.items() if rule.as_json()}


def quotas(ledger: Ledger) -> dict[str, QuotaStatus]:
    """How many jobs each source may begin in this hour, of all rules that bound them the one with the least left."""
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
    """The hosts that hold their sources back, or allow a number of requests in an hour, by name."""
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
    """Why the breakers that are open are so, by their keys."""
    return {
        row.key: Rest("login refused" if row.locked else "repeated failures", row.until)
        for row in ledger.pacing.breakers()
        if row.position is Position.OPEN
    }
