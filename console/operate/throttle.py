"""`catchment throttle`: rate limits, quotas, blackout windows and circuit breakers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from catchment.errors import BadInput
from catchment.pacing import RateProfile
from console import arguments, render, session
from console.help_pages import CommandGroup
from console.trouble import jobs

if TYPE_CHECKING:
    from catchment.views.throttling import HostRate, HostTransfers, RuleStatus, Throttling

app = CommandGroup("View and set rate limits, quotas and blackout windows.\n\nExample: catchment throttle show")

Scope = Annotated[
    str,
    typer.Argument(metavar="SCOPE", help="all, a kind or a source.", autocompletion=session.source_names),
]
_EVENTS = ("throttle set", "throttle cleared", "paused", "resumed", "breaker opened", "breaker closed", "breaker reset")


@app.command()
def show(as_json: arguments.Json = False) -> None:
    """Show rules, circuit breakers and the rate of each host.

    Example: catchment throttle show
    """
    from catchment.views import throttling

    nothing = throttling.Throttling()
    limits_view = session.asked(throttling.overview, nothing)
    if as_json:
        render.show_json(limits_view)
    elif limits_view != nothing:
        _print(limits_view)
    else:
        render.note("no limits are set and no host was contacted yet; see `catchment throttle set --help`")


@app.command("set")
def set_rule(
    *,
    scope: Scope,
    profile: Annotated[RateProfile | None, typer.Option(help="Maximum request rate per host.")] = None,
    at_once: Annotated[
        int | None,
        typer.Option(min=1, max=arguments.LARGEST, metavar="N", help="Maximum concurrent transfers per host."),
    ] = None,
    active: Annotated[
        int | None, typer.Option(min=1, max=arguments.LARGEST, metavar="N", help="Maximum jobs in progress.")
    ] = None,
    per_hour: Annotated[
        int | None, typer.Option(min=1, max=arguments.LARGEST, metavar="N", help="Maximum jobs started per hour.")
    ] = None,
    blackout: Annotated[
        list[str] | None,
        typer.Option(metavar="WINDOW", help='Do not read during: "22:00-06:00 mon-fri Europe/Berlin". Repeatable.'),
    ] = None,
    reason: arguments.Why = "",
) -> None:
    """Set limits for a source, a kind or everything.

    Omitted options stay as they are. The strictest of several rules applies, from the next request on. New blackout windows
    replace the old ones; their times are local unless a time zone is given.

    Example: catchment throttle set mail --per-hour 500 --blackout "08:00-18:00 mon-fri"
    """
    limits_by_name: dict[str, Any] = {
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
    if not limits_by_name:
        raise BadInput("options: none given; see `catchment throttle set --help`")
    from deployments.actions import limits, outcomes

    canonical, rule = limits.change(session.desk(), scope, session.operator(), reason, **limits_by_name)
    render.say(outcomes.LIMITED.format(canonical, rule))


@app.command()
def clear(scope: Scope, reason: arguments.Why = "") -> None:
    """Remove all limits of a source, a kind or everything.

    Also ends a pause.

    Example: catchment throttle clear mail
    """
    from deployments.actions import limits, outcomes

    render.say(outcomes.LIMITS_REMOVED.format(limits.clear(session.desk(), scope, session.operator(), reason)))


@app.command(now="sources pause")
def pause(scope: Scope, reason: arguments.Why = "") -> None:
    """Pause a source, a kind or everything."""
    _pause(scope, True, reason)


@app.command(now="sources resume")
def resume(scope: Scope, reason: arguments.Why = "") -> None:
    """Resume a source, a kind or everything."""
    _pause(scope, False, reason)


@app.command("reset-breaker")
def reset_breaker(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A source, or a host as shown by `throttle show`.")],
    reason: arguments.Why = "",
) -> None:
    """Close the circuit breaker of a source or host.

    Requests are allowed again, also after a refused login.

    Example: catchment throttle reset-breaker mail
    """
    from deployments.actions import limits, outcomes

    render.say(outcomes.breakers_closed(limits.reset_breaker(session.desk(), name, session.operator(), reason)))


@app.command()
def history(
    since: arguments.Since = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, metavar="N", help="Number of latest events.")] = 50,
    as_json: arguments.Json = False,
) -> None:
    """Show changes of limits, and circuit-breaker events.

    Example: catchment throttle history --limit 20
    """
    with session.reading() as ledger:
        decisions = ledger.history.decisions(_EVENTS, limit)
    events = [event for event in decisions if since is None or event.at >= since]
    if as_json:
        render.show_json(events)
    elif events:
        jobs.show_events(events)
    else:
        render.note("no limits were changed and no circuit breaker has opened")


def _pause(name: str, on: bool, reason: str) -> None:
    from deployments.actions import limits, outcomes

    canonical, _ = limits.change(session.desk(), name, session.operator(), reason, paused=on)
    again = f"{outcomes.PAUSED.format(canonical)}; resume with `catchment sources resume {canonical}`"
    render.say(again if on else outcomes.RESUMED.format(canonical))


def _print(limits_view: Throttling) -> None:
    if limits_view.rules:
        render.show_table(("SCOPE", "SINCE", "RULE"), [(row.scope, row.since, _rule(row)) for row in limits_view.rules])
    if limits_view.hosts:
        render.say()
        busy = {place.host: place for place in limits_view.places}
        render.show_table(
            ("HOST", "PER SECOND", "TOKENS", "FACTOR", "LEFT", "TRANSFERS", "NOT BEFORE"),
            [_host(host, busy.get(host.host.partition("#")[0])) for host in limits_view.hosts],
        )
    if limits_view.breakers:
        render.say()
        render.show_table(
            ("BREAKER", "STATE", "FAILURES", "UNTIL"),
            [
                (row.name, row.state, row.failures, "reset (login refused)" if row.until_reset else row.until)
                for row in limits_view.breakers
            ],
        )
        render.say("Close a breaker: `catchment throttle reset-breaker NAME`.")


def _rule(row: RuleStatus) -> str:
    ends = (
        ""
        if row.hour_ends is None
        else f"{row.begun_this_hour} started this hour, which ends {render.ago(row.hour_ends)}"
    )
    return ", ".join(filter(None, (str(row.rule), ends)))


def _host(row: HostRate, busy: HostTransfers | None) -> tuple[object, ...]:
    left = "-" if row.allowed is None else f"{row.left} of {row.allowed}"
    transfers = f"{busy.transferring} of {busy.at_once}, {busy.waiting} waiting" if busy else "-"
    return (row.host, f"{row.rate:g}", row.tokens, row.multiplier, left, transfers, row.not_before)
