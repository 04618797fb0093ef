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
    render.show_rows(
        rows,
        as_json,
        ("N", "STATE", "REASON", "ABOUT", "SINCE", "UNTIL", "MESSAGE"),
        lambda incident: (
            *(incident.id or "-", _state(incident), incident.reason, incident.about),
            *(incident.opened_at, incident.closed_at, incident.message),
        ),
        "no incidents",
    )


@app.command("show")
def show_incident(number: Number, as_json: arguments.Json = False) -> None:
    """Show an incident with its timeline, remedy and runbook.

    Example: catchment incidents show 3
    """
    from catchment.views.telemetry import incidents as views

    with session.reading() as ledger:
        view = views.incident(ledger, number)
    if as_json:
        render.show_json(view)
        return
    render.show_fields(
        {
            "incident": view.id,
            "state": _state(view),
            "reason": f"{view.reason}: {view.help}",
            "about": view.about,
            "message": view.message,
            "what helps": view.remedy,
            "runbook": view.runbook,
            "since": view.opened_at,
            "until": view.closed_at,
            "acknowledged": view.acknowledged_at,
            "note": view.note,
            "syncs": ", ".join(map(str, view.affects.syncs)) or None,
            "items": len(view.affects.items) or None,
        }
    )
    render.say()
    render.show_table(("TIME", "EVENT", "TEXT"), [(moment.at, moment.event, moment.text) for moment in view.timeline])
    if view.affects.items:
        render.say()
        render.show_table(
            ("JOB", "REASON", "ITEM"), [(entry.job, entry.reason, entry.item) for entry in view.affects.items]
        )


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


def _state(incident: IncidentView) -> str:
    return "acknowledged" if incident.state == "open" and incident.acknowledged_at else incident.state
