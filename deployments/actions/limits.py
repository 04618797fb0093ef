"""Limits, pauses and circuit breakers: the rate of requests to sources and hosts, and whether they are allowed."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

from catchment.errors import BadInput, CatchmentError, NotFound
from catchment.ledger import Ledger
from catchment.pacing.operator_rules import ALL, Rule, scope
from deployments.actions.desk import Desk


def change(desk: Desk, where: str, actor: str, reason: str = "", **limits: Any) -> tuple[str, Rule]:
    """Set limits of a scope; those not given stay. Return the canonical scope and its rule.

    Args:
        where: "all", a kind or a source, where needed as "kind:KIND" or "source:NAME".
        limits: Fields of `Rule`; `paused=True` pauses the scope.

    Raises BadInput or NotFound.
    """
    with desk.writing() as ledger:
        canonical = _canonical(desk, ledger, where)
        if "paused" in limits:
            limits["why"] = reason if limits["paused"] else ""
        rule = replace(ledger.throttles.get(canonical), **limits)
        ledger.throttles.put(canonical, rule, actor, reason)
        if not rule.paused:
            _retry_now(desk, ledger, canonical)
    return canonical, rule


def clear(desk: Desk, where: str, actor: str, reason: str = "") -> str:
    """Remove all limits of a scope, also a pause. Return the canonical scope. Raises BadInput, or NotFound without limits."""
    with desk.writing() as ledger:
        canonical = _canonical(desk, ledger, where)
        if ledger.throttles.get(canonical) == Rule():
            raise NotFound(f"{canonical}: no limits set; see `catchment throttle show`")
        ledger.throttles.put(canonical, Rule(), actor, reason)
        _retry_now(desk, ledger, canonical)
    return canonical


def reset_breaker(desk: Desk, name: str, actor: str, reason: str = "") -> list[str]:
    """Close the circuit breakers of a source or host. Return their keys. Raises NotFound."""
    with desk.writing() as ledger:
        keys = [row.key for row in ledger.pacing.breakers() if name in (row.key, row.key.partition(":")[2])]
        if not keys:
            raise NotFound(f"{name}: no circuit breaker has recorded a failure; see `catchment throttle show`")
        for key in keys:
            ledger.pacing.reset(key, actor, reason)
    return keys


def _retry_now(desk: Desk, ledger: Ledger, canonical: str) -> None:
    """Start the syncs of a scope that were planned for the end of a limit. A sync plans its next retry itself."""
    scopes = {source.name: (ALL, scope(kind=source.kind), scope(source=source.name)) for source in ledger.sources.all()}
    with suppress(CatchmentError):
        desk.retry_now([name for name, scope_names in scopes.items() if canonical in scope_names])


def _canonical(desk: Desk, ledger: Ledger, name: str) -> str:
    """Return the canonical scope: "all", "kind:KIND" or "source:NAME". Raises BadInput, NotFound."""
    prefix, colon, subject = name.partition(":")
    name = subject if colon else name
    if name == ALL and not colon:
        return ALL
    if colon and prefix not in ("kind", "source"):
        raise BadInput(f"{prefix}:{name}: not a scope; use all, kind:{name} or source:{name}")
    is_kind = name in desk.kinds and prefix != "source"
    is_source = prefix != "kind" and any(source.name == name for source in ledger.sources.all())
    if is_kind and is_source and not colon:
        raise BadInput(f"{name}: both a source and a kind; use source:{name} or kind:{name}")
    if is_kind:
        return scope(kind=name)
    if not is_source:
        if prefix == "kind" and colon:
            raise NotFound(f"{name}: no such kind; choose {', '.join(desk.kinds)}")
        ledger.sources.get(name)
    return scope(source=name)
