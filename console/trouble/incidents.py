"""`catchment incidents`: problems with their start, end and remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from console import arguments, render, session
from console.help_pages import CommandGroup

if TYPE_CHECKING:
    from catchment.views.telemetry.incidents import IncidentView

app = CommandGroup("Show and acknowledge incidents.\n\nExample: catchment incidents list")

Number = Annotated[int, typer.Argument(metavar="N", max=arguments.LARGEST, help="Number of the incident.")]


@app.command("list")
def list_incidents(
    since: arguments.Since = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000, metavar="N", help="Maximum number of closed ones.")] = 20,
    as_json: arguments.Json = False,
) -> None:
    """List open incidents, worst first, then closed ones.

    Example: catchment incidents list --json
    """
    from catchment.views.telemetry import incidents as views

    with session.reading() as ledger:
        closed = views.incidents(ledger, limit=limit).closed.rows
        rows = [*views.current(session.home(), ledger), *(row for row in closed if not since or row.opened_at >= since)]
    if as_json:
        render.show_json(rows)
    elif rows:
        render.show_table(
            ("N", "STATE", "REASON", "ABOUT", "SINCE", "UNTIL", "MESSAGE"),
            [
                (one.id or "-", _state(one), one.reason, one.about, one.opened_at, one.closed_at, one.message)
                for one in rows
            ],
            states={"STATE"},
        )
    else:
        render.note("no incidents")


@app.command("show")
def show_incident(number: Number, as_json: arguments.Json = False) -> None:
    """Show an incident with its timeline, remedy and runbook.

    Example: catchment incidents show 3
    """
    from catchment.views.telemetry import incidents as views

    with session.reading() as ledger:
        found = views.incident(ledger, number)
    if as_json:
        render.show_json(found)
        return
    render.show_fields(
        {
            "incident": found.id,
            "state": _state(found),
            "reason": f"{found.reason}: {found.help}",
            "about": found.about,
            "message": found.message,
            "what helps": found.remedy,
            "runbook": found.runbook,
            "since": found.opened_at,
            "until": found.closed_at,
            "acknowledged": found.acknowledged_at,
            "note": found.note,
            "syncs": ", ".join(map(str, found.affects.syncs)) or None,
            "items": len(found.affects.items) or None,
        }
    )
    render.say()
    render.show_table(("TIME", "EVENT", "TEXT"), [(one.at, one.event, one.text) for one in found.timeline])
    if found.affects.items:
        render.say()
        render.show_table(("JOB", "REASON", "ITEM"), [(one.job, one.reason, one.item) for one in found.affects.items])


@app.command("ack")
def acknowledge(
    number: Number,
    note: Annotated[str, typer.Option("--note", metavar="TEXT", help="What you know about it.")] = "",
    as_json: arguments.Json = False,
) -> None:
    """Acknowledge an incident; it closes when its cause is solved.

    Example: catchment incidents ack 3 --note "the provider works on it"
    """
    from catchment.views.telemetry import incidents as views
    from deployments.actions import incidents, outcomes

    incidents.acknowledge(session.desk(), number, session.operator(), note)
    if as_json:
        with session.reading() as ledger:
            render.show_json(views.incident(ledger, number))
    else:
        render.say(outcomes.ACKNOWLEDGED.format(number))


def _state(one: IncidentView) -> str:
    return "acknowledged" if one.state == "open" and one.acknowledged_at else one.state
