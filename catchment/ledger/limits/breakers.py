"""Storage of the circuit breakers of sources and hosts. `catchment.pacing.breaker` implements their behaviour."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import bindparam, delete, insert, select

from catchment.ledger.db.database import Reading, Writing, among
from catchment.ledger.db.lookup import source_of
from catchment.ledger.db.monotonic_clock import MonotonicClock
from catchment.ledger.db.schema import breakers
from catchment.pacing.breaker import Breaker, Position

_ALL = select(breakers.c.key, breakers.c.failures, breakers.c.opened, breakers.c.locked, breakers.c.prober)
# Built once, because each request executes it.
_THESE = _ALL.where(breakers.c.key.in_(bindparam("keys", expanding=True)))


@dataclass(frozen=True, slots=True)
class BreakerRow:
    """A circuit breaker with failures. `until` is when it permits a probe; None if it is closed or must be reset."""

    key: str
    position: Position
    failures: int
    opened: datetime | None
    locked: bool
    until: datetime | None


def of_source(name: str) -> str:
    """Return the key of a source's breaker."""
    return f"source:{name}"


def of_host(host: str) -> str:
    """Return the key of a host's breaker."""
    return f"host:{host}"


def ask(
    writing: Writing, now: int, keys: Sequence[str], who: str, alive: Callable[[str], bool]
) -> tuple[int | None, bool]:
    """Return the microseconds to wait (None if all breakers permit requests), and whether one has failures.

    If a breaker is half open and all permit it, `who` becomes the prober.
    """
    stored = _load(writing, keys)
    results = {key: breaker.ask(now, who, alive) for key, breaker in stored.items()}
    waits = [until - now for _, until in results.values() if until is not None]
    if waits:
        return max(waits), True
    for key, (breaker, _) in results.items():
        if breaker != stored[key]:
            _save(writing, key, breaker)
    return None, bool(stored)


def failed(writing: Writing, now: int, key: str, *, login: bool = False) -> None:
    """Record a failure."""
    before = _load(writing, [key]).get(key, Breaker())
    after = before.failed(now, login=login)
    _save(writing, key, after)
    if after.opened is not None and after.opened != before.opened:
        _tell(writing, "breaker opened", key, "login refused" if login else f"{after.failures} failures")


def succeeded(writing: Writing, now: int, key: str) -> None:
    """Close the breaker, unless it is open: the request was admitted before it opened."""
    before = _load(writing, [key]).get(key)
    if before is not None and before.succeeded(now) != before:
        writing.execute(delete(breakers).where(breakers.c.key == key))
        if before.opened is not None:
            _tell(writing, "breaker closed", key, "requests succeed again")


def reset(writing: Writing, key: str, actor: str, reason: str = "") -> bool:
    """Clear the failures. Return whether there were any."""
    existed = bool(writing.execute(delete(breakers).where(breakers.c.key == key)).rowcount)
    if existed:
        _tell(writing, "breaker reset", key, reason, actor)
    return existed


def forget(writing: Writing, hosts: Iterable[str]) -> None:
    """Delete the breakers of hosts."""
    writing.execute(delete(breakers).where(among(writing, breakers.c.key, [of_host(host) for host in hosts])))


def every(reading: Reading, now: int, monotonic: MonotonicClock) -> list[BreakerRow]:
    """Return all breakers with failures, by key."""
    return [
        BreakerRow(
            key,
            breaker.position(now),
            breaker.failures,
            monotonic.moment(breaker.opened, reading),
            breaker.locked,
            monotonic.moment(breaker.until, reading),
        )
        for key, breaker in sorted(_load(reading).items())
    ]


def _load(reading: Reading, keys: Sequence[str] | None = None) -> dict[str, Breaker]:
    rows = reading.execute(_ALL) if keys is None else reading.execute(_THESE, {"keys": keys})
    return {key: Breaker(*fields) for key, *fields in rows}


def _save(writing: Writing, key: str, breaker: Breaker) -> None:
    writing.execute(delete(breakers).where(breakers.c.key == key))
    values = {
        "failures": breaker.failures,
        "opened": breaker.opened,
        "locked": breaker.locked,
        "prober": breaker.prober,
    }
    writing.execute(insert(breakers).values(key=key, **values))


def _tell(writing: Writing, event: str, key: str, reason: str, actor: str = "pacing") -> None:
    source_id = source_of(writing, key)
    writing.record(event, actor=actor, source_id=source_id, reason=f"{key}: {reason}" if reason else key)
