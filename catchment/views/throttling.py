"""Read-only overview of the rules, quotas, rates and circuit breakers that currently hold back sources and hosts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from catchment.pacing.operator_rules import ALL, Rule, scope
from catchment.pacing.waits import Wait, WaitKind
from catchment.records import record_of
from catchment.records.rows import Source
from catchment.views import waits

if TYPE_CHECKING:
    from catchment.ledger import Ledger


@dataclass(frozen=True, slots=True)
class QuotaStatus:
    """A quota, the unused part, and the end of its window (aware UTC)."""

    allowed: int
    left: int
    until: datetime | None


@dataclass(frozen=True, slots=True)
class HostStatus:
    """The wait for a host and its quota. `host` includes a hash of the login, if there is one."""

    host: str
    wait: Wait | None
    quota: QuotaStatus | None


def rules(ledger: Ledger) -> dict[str, str]:
    """Return the combined limits of each source as text, by name, without pauses: these are waits. None: it is omitted."""
    if not ledger.throttles.all():
        return {}
    names = [source.name for source in ledger.sources.all()]
    combined = {name: replace(ledger.throttles.of(name), paused=False, why="") for name in names}
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
    """Return the hosts that are paused or have an hourly quota, except those of sources with many hosts."""
    breakers = {wait.subject: wait for key, wait in waits.breakers(ledger).items() if key.startswith("host:")}
    result = []
    for row in ledger.pacing.buckets():
        if row.is_one_of_many:
            continue
        wait = breakers.pop(row.key.partition("#")[0], None)
        if row.not_before is not None:
            wait = WaitKind.HOST_PAUSE.of(row.key, row.not_before)
        quota = None
        if row.allowed is not None and row.left is not None:
            quota = QuotaStatus(row.allowed, row.left, row.until)
        if wait or quota:
            result.append(HostStatus(row.key, wait, quota))
    return [*result, *(HostStatus(name, wait, None) for name, wait in breakers.items())]


@dataclass(frozen=True, slots=True)
class RuleStatus:
    """A rule and its scope. `begun_this_hour` jobs were started in the hour of its quota, which ends at `hour_ends`."""

    scope: str
    rule: Rule
    since: datetime
    begun_this_hour: int
    hour_ends: datetime | None


@dataclass(frozen=True, slots=True)
class HostRate:
    """How fast a host may be asked: requests per second, burst, tokens left, and the factor that its answers led to.

    `left` of `allowed` requests remain until `until`.
    """

    host: str
    rate: float
    burst: int
    tokens: float
    multiplier: float
    not_before: datetime | None
    allowed: int | None
    left: int | None
    until: datetime | None


@dataclass(frozen=True, slots=True)
class HostTransfers:
    """Number of transfers of a host that run and wait, and how many may run at once."""

    host: str
    transferring: int
    waiting: int
    at_once: int


@dataclass(frozen=True, slots=True)
class BreakerStatus:
    """A circuit breaker with failures. `until_reset`: it stays open until it is reset, because a login was refused."""

    name: str
    state: str
    failures: int
    opened: datetime | None
    until: datetime | None
    until_reset: bool


@dataclass(frozen=True, slots=True)
class Throttling:
    """All limits and what they do now. The fields are those of `throttle show --json`."""

    rules: tuple[RuleStatus, ...] = ()
    hosts: tuple[HostRate, ...] = ()
    places: tuple[HostTransfers, ...] = ()
    breakers: tuple[BreakerStatus, ...] = ()


@dataclass(frozen=True, slots=True)
class LimitsView:
    """The rule of a scope ("all", "kind:KIND", "source:NAME"), all limits, and the first wait of each source that waits now."""

    scope: str
    rule: Rule
    all: Throttling
    waits: Mapping[str, Wait]


def limits(ledger: Ledger, where: str, source: Source | None = None) -> LimitsView:
    """Return the limits, with the rule of exactly this scope. `source`: only what applies to it, without hosts."""
    throttling = overview(ledger)
    waiting = {name: its[0] for name, its in waits.of_limits(ledger).items() if its}
    if source is not None:
        own = scope(source=source.name)
        applying = (ALL, scope(kind=source.kind), own)
        rules = tuple(rule for rule in throttling.rules if rule.scope in applying)
        throttling = Throttling(
            rules, breakers=tuple(breaker for breaker in throttling.breakers if breaker.name == own)
        )
        waiting = {name: wait for name, wait in waiting.items() if name == source.name}
    return LimitsView(where, ledger.throttles.get(where), throttling, waiting)


def overview(ledger: Ledger) -> Throttling:
    """Return the rules, the rate and transfers of each host, and the circuit breakers."""
    places: dict[str, Counter[bool]] = {}
    at_once: dict[str, int] = {}
    for place in ledger.pacing.places():
        places.setdefault(place.host, Counter())[place.held] += 1
        at_once.setdefault(place.host, place.at_once)
    hosts = (
        record_of(
            HostRate,
            row,
            host=row.key,
            rate=round(row.rate, 3),
            tokens=round(row.tokens, 1),
            multiplier=round(row.multiplier, 2),
        )
        for row in ledger.pacing.buckets()
        if row.not_before or not row.is_one_of_many
    )
    return Throttling(
        tuple(RuleStatus(row.scope, row.rule, row.changed, row.begun, row.until) for row in ledger.throttles.all()),
        tuple(hosts),
        tuple(HostTransfers(host, its[True], its[False], at_once[host]) for host, its in places.items()),
        tuple(
            BreakerStatus(row.key, row.position.value, row.failures, row.opened, row.until, row.locked)
            for row in ledger.pacing.breakers()
        ),
    )
