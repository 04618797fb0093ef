"""`catchment throttle`: how hosts are asked, what holds syncs back, and the rules that an operator sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catchment.errors import BadInput, NotFound
from catchment.pacing import RateProfile
from console import arguments, render, session
from console.help_pages import CommandGroup
from console.trouble import jobs

if TYPE_CHECKING:
    from catchment.ledger import Ledger

app = CommandGroup("See and steer how hosts are asked and when syncs may run.")

Scope = Annotated[
    str,
    typer.Argument(metavar="SCOPE", help="all, a kind, or a source.", autocompletion=session.source_names),
]
_EVENTS = ("throttle set", "throttle cleared", "paused", "resumed", "breaker opened", "breaker closed", "breaker reset")


@app.command()
def show(as_json: arguments.Json = False) -> None:
    """Show the rules, and how each host is asked at the moment."""
    try:
        with session.reading() as ledger:
            told = overview(ledger)
    except NotFound:
        told = {"rules": [], "hosts": [], "places": [], "breakers": []}
    if as_json:
        render.show_json(told)
    elif any(told.values()):
        _print(told)
    else:
        render.note("nothing is throttled, and no host was asked yet; see `catchment throttle set --help`")


@app.command("set")
def set_rule(
    *,
    scope: Scope,
    profile: Annotated[
        RateProfile | None, typer.Option(help="At most this fast: requests a second to one host.")
    ] = None,
    at_once: Annotated[
        int | None, typer.Option(min=1, max=arguments.LARGEST, help="At most so many transfers to one host at once.")
    ] = None,
    active: Annotated[
        int | None, typer.Option(min=1, max=arguments.LARGEST, help="At most so many jobs at work at once.")
    ] = None,
    per_hour: Annotated[
        int | None, typer.Option(min=1, max=arguments.LARGEST, help="At most so many jobs begun in an hour.")
    ] = None,
    blackout: Annotated[
        list[str] | None,
        typer.Option(metavar="WINDOW", help='Read nothing then: "22:00-06:00 mon-fri Europe/Berlin"; may be repeated.'),
    ] = None,
    reason: arguments.Why = "",
) -> None:
    """Bound a source, a kind or all; what is not given stays.

    Of several rules the strictest counts, from the next request on. Blackout windows replace the ones before; their times
    are local where no zone is named.
    """
    given: dict[str, Any] = {
        name: value
        for name, value in {
            "profile": profile,
            "at_once": at_once,
            "active": active,
            "per_hour": per_hour,
            "blackouts": tuple(blackout or ()),
        }.items()
        if value
    }
    if not given:
        raise BadInput("nothing to set; give at least one of the options that `catchment throttle set --help` shows")
    with session.writing() as ledger:
        where = _scope(ledger, scope)
        rule = replace(ledger.throttles.get(where), **given)
        ledger.throttles.put(where, rule, session.operator(), reason)
    render.say(f"{where}: {rule}")


@app.command()
def clear(scope: Scope, reason: arguments.Why = "") -> None:
    """Remove the rule of a source, a kind or all.

    A pause goes with it.
    """
    from catchment.pacing.rules import Rule

    with session.writing() as ledger:
        where = _scope(ledger, scope)
        if ledger.throttles.get(where) == Rule():
            raise NotFound(f"there is no rule for {where}; `catchment throttle show` lists those there are")
        ledger.throttles.put(where, Rule(), session.operator(), reason)
    render.say(f"{where}: the rule is gone")


@app.command()
def pause(scope: Scope, reason: arguments.Why = "") -> None:
    """Read nothing of a source, a kind or all for now.

    No sync begins and no request is made; what is in the library stays.
    """
    _pause(scope, True, reason)


@app.command()
def resume(scope: Scope, reason: arguments.Why = "") -> None:
    """Go on after `throttle pause`; the other rules stay."""
    _pause(scope, False, reason)


@app.command("reset-breaker")
def reset_breaker(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A source, or a host as `throttle show` names it.")],
) -> None:
    """Let a failing source or host be asked again.

    A refused login is tried again by it, too.
    """
    with session.writing() as ledger:
        keys = [row.key for row in ledger.pacing.breakers() if name in (row.key, row.key.partition(":")[2])]
        if not keys:
            raise NotFound(f"no breaker of {name} has counted a failure; see `catchment throttle show`")
        for key in keys:
            ledger.pacing.reset(key, session.operator())
    render.say(f"{', '.join(keys)}: closed")


@app.command()
def history(
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most so many, the latest.")] = 50,
    as_json: arguments.Json = False,
) -> None:
    """Show who ruled what and when, and which breakers opened."""
    with session.reading() as ledger:
        events = [jobs.event_json(event) for event in ledger.history.decisions(_EVENTS, limit)]
    if as_json:
        render.show_json(events)
    elif events:
        jobs.show_events(events)
    else:
        render.note("no rule was set yet, and no breaker has opened")


def overview(ledger: Ledger) -> dict[str, list[dict[str, Any]]]:
    """Rules, hosts, places and breakers, as `throttle show --json` prints them."""
    places: dict[str, dict[str, Any]] = {}
    for one in ledger.pacing.places():
        counts = places.setdefault(
            one.host, {"host": one.host, "transferring": 0, "waiting": 0, "at_once": one.at_once}
        )
        counts["transferring" if one.held else "waiting"] += 1
    return {
        "rules": [
            {"scope": r.scope, **r.rule.as_json(), "since": r.changed, "begun_this_hour": r.begun, "hour_ends": r.until}
            for r in ledger.throttles.all()
        ],
        "hosts": [
            {
                "host": b.key,
                "rate": b.rate,
                "burst": b.burst,
                "tokens": round(b.tokens, 1),
                "multiplier": round(b.multiplier, 2),
                "not_before": b.not_before,
                "allowed": b.allowed,
                "left": b.left,
                "until": b.until,
            }
            for b in ledger.pacing.buckets()
        ],
        "places": list(places.values()),
        "breakers": [
            {
                "name": b.key,
                "state": b.position.value,
                "failures": b.failures,
                "opened": b.opened,
                "until": b.until,
                "until_reset": b.locked,
            }
            for b in ledger.pacing.breakers()
        ],
    }


def _pause(name: str, on: bool, reason: str) -> None:
    with session.writing() as ledger:
        where = _scope(ledger, name)
        ledger.throttles.put(where, replace(ledger.throttles.get(where), paused=on), session.operator(), reason)
    render.say(f"{where} is paused; go on with `catchment throttle resume {name}`" if on else f"{where} goes on")


def _scope(ledger: Ledger, name: str) -> str:
    """The scope that a person means: "all", a source, a kind, or either with its prefix. Raises BadInput, NotFound."""
    from catchment.pacing.rules import ALL, scope
    from connectors import kinds

    what, colon, rest = name.partition(":")
    name = rest if colon else name
    if name == ALL and not colon:
        return ALL
    if colon and what not in ("kind", "source"):
        raise BadInput(f"{what}: is no scope; write all, kind:{name} or source:{name}")
    is_kind = name in kinds() and what != "source"
    is_source = what != "kind" and any(source.name == name for source in ledger.sources.all())
    if is_kind and is_source and not colon:
        raise BadInput(f"{name} is a source and a kind; write source:{name} or kind:{name}")
    if is_kind:
        return scope(kind=name)
    if not is_source:
        if what == "kind" and colon:
            raise NotFound(f"there is no kind {name}; there are: {', '.join(kinds())}")
        ledger.sources.get(name)
    return scope(source=name)


def _print(told: Mapping[str, list[dict[str, Any]]]) -> None:
    if told["rules"]:
        render.show_table(("SCOPE", "SINCE", "RULE"), [(r["scope"], r["since"], _rule(r)) for r in told["rules"]])
    if told["hosts"]:
        render.say()
        busy = {place["host"]: place for place in told["places"]}
        render.show_table(
            ("HOST", "A SECOND", "TOKENS", "TIMES", "LEFT", "TRANSFERS", "NOT BEFORE"),
            [_host(host, busy) for host in told["hosts"]],
        )
    if told["breakers"]:
        render.say()
        render.show_table(
            ("BREAKER", "STATE", "FAILURES", "UNTIL"),
            [(b["name"], b["state"], b["failures"], _until(b)) for b in told["breakers"]],
        )
        render.say("Close one now: `catchment throttle reset-breaker NAME`.")


def _rule(row: Mapping[str, Any]) -> str:
    told = [
        "paused" if name == "paused" else f"{name.replace('_', ' ')} {' and '.join(v) if isinstance(v, tuple) else v}"
        for name, v in row.items()
        if name not in ("scope", "since", "begun_this_hour", "hour_ends")
    ]
    if row["hour_ends"] is not None:
        told.append(f"{row['begun_this_hour']} begun until {render.when(row['hour_ends'])}")
    return ", ".join(told)


def _host(row: Mapping[str, Any], busy: Mapping[str, dict[str, Any]]) -> tuple[object, ...]:
    place = busy.get(row["host"].partition("#")[0])
    left = "-" if row["allowed"] is None else f"{row['left']} of {row['allowed']}"
    transfers = f"{place['transferring']} of {place['at_once']}, {place['waiting']} waiting" if place else "-"
    return (row["host"], row["rate"], row["tokens"], row["multiplier"], left, transfers, row["not_before"])


def _until(row: Mapping[str, Any]) -> object:
    if row["until_reset"]:
        return "it is reset: the login was refused"
    return row["until"]
