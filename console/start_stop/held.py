"""What holds sources and hosts back, and how much they may still do, as `status` tells it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from console import render

if TYPE_CHECKING:
    from catchment.ledger import Ledger
    from catchment.resting import QuotaStatus, Rest


def of_sources(ledger: Ledger) -> dict[str, dict[str, Any]]:
    """What is ruled for each source, why it rests, its quota of jobs in an hour, by its name; only what there is to tell."""
    from catchment.resting import quotas, resting, rules

    found: dict[str, dict[str, Any]] = {name: {"rule": rule} for name, rule in rules(ledger).items()}
    for name, rest in resting(ledger).items():
        found.setdefault(name, {})["rests"] = _rest(rest)
    for name, quota in quotas(ledger).items():
        found.setdefault(name, {})["quota"] = _quota(quota)
    return found


def of_hosts(ledger: Ledger) -> list[dict[str, Any]]:
    """The hosts that rest, or allow a number of requests, as `status --json` prints them."""
    from catchment.resting import hosts

    return [
        {"host": host.name, "rests": host.rest and _rest(host.rest), "quota": host.quota and _quota(host.quota)}
        for host in hosts(ledger)
    ]


def lines(sources: Iterable[Mapping[str, Any]], hosts: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """What a person is told of it; a source that is held or paused is told of elsewhere."""
    active = [(source["name"], "jobs", source) for source in sources if source["state"] == "active"]
    for name, _, source in active:
        if source["rule"]:
            yield f"{name} is held to: {source['rule']}"
    for name, what, one in [*active, *((host["host"], "requests", host) for host in hosts)]:
        if one["rests"]:
            until = _until(one["rests"]["until"]) or " until a person says otherwise"
            yield f"{name} rests{until}: {one['rests']['why']}; see `catchment throttle show`"
        if one["quota"]:
            left, allowed = one["quota"]["left"], one["quota"]["allowed"]
            yield f"{name}: {left} of {allowed} {what} left{_until(one['quota']['until']) or ' in an hour'}"


def _rest(rest: Rest) -> dict[str, Any]:
    return {"why": rest.why, "until": rest.until}


def _quota(quota: QuotaStatus) -> dict[str, Any]:
    return {"allowed": quota.allowed, "left": quota.left, "until": quota.until}


def _until(moment: datetime | None) -> str:
    return f" until {render.clock(moment)}" if moment else ""
