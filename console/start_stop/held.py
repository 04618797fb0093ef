"""Throttling in `status`: sources and hosts that are held back, and their remaining quotas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from console import render

if TYPE_CHECKING:
    from catchment.ledger import Ledger
    from catchment.views.throttling import Pause, QuotaStatus


def of_sources(ledger: Ledger) -> dict[str, dict[str, Any]]:
    """Return the rule, the reason for a wait and the hourly quota of each source that has one, by name."""
    from catchment.views.throttling import paused_sources, quotas, rules

    throttling: dict[str, dict[str, Any]] = {name: {"rule": rule} for name, rule in rules(ledger).items()}
    for name, rest in paused_sources(ledger).items():
        throttling.setdefault(name, {})["rests"] = _rest(rest)
    for name, quota in quotas(ledger).items():
        throttling.setdefault(name, {})["quota"] = _quota(quota)
    return throttling


def of_hosts(ledger: Ledger) -> list[dict[str, Any]]:
    """Return the hosts that are backed off or report a quota, in the form of `status --json`."""
    from catchment.views.throttling import hosts

    return [
        {"host": host.name, "rests": host.pause and _rest(host.pause), "quota": host.quota and _quota(host.quota)}
        for host in hosts(ledger)
    ]


def lines(sources: Iterable[Mapping[str, Any]], hosts: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Return one line for each rule, wait and quota. Sources that are held or paused are left out."""
    active = [(source["name"], "jobs", source) for source in sources if source["state"] == "active"]
    for name, _, source in active:
        if source["rule"]:
            yield f"{name}: limited to {source['rule']}"
    for name, unit, row in [*active, *((host["host"], "requests", host) for host in hosts)]:
        if row["rests"]:
            until = _until(row["rests"]["until"]) or " until reset or resumed"
            yield f"{name}: throttled{until} ({row['rests']['why']}); see `catchment throttle show`"
        if row["quota"]:
            left, allowed = row["quota"]["left"], row["quota"]["allowed"]
            yield f"{name}: {left} of {allowed} {unit} left{_until(row['quota']['until']) or ' this hour'}"


def _rest(rest: Pause) -> dict[str, Any]:
    return {"why": rest.reason, "until": rest.until}


def _quota(quota: QuotaStatus) -> dict[str, Any]:
    return {"allowed": quota.allowed, "left": quota.left, "until": quota.until}


def _until(moment: datetime | None) -> str:
    return f" until {render.clock(moment)}" if moment else ""
