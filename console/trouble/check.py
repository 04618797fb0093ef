"""`catchment check`: the state of every component, and hidden or upcoming problems, each with the command that fixes it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from catchment.errors import BadInput
from catchment.runtime.home import expanded
from console import arguments, render, session
from console.operate import trends

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catchment.telemetry.incidents import Condition


def check(
    context: typer.Context,
    mend: Annotated[
        bool, typer.Option("--mend", help="Remove leftovers of dead processes; changes no source and no document.")
    ] = False,
    bundle: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a zip file for a bug report, without names. A folder is possible."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Write the bundle without confirmation.")] = False,
    objectives: Annotated[bool, typer.Option("--objectives", help="Show whether the objectives are kept.")] = False,
    as_json: arguments.Json = False,
) -> int:
    """Check every component, and find hidden or upcoming problems.

    Checks the server, the processes and every source, then the machine: limits, disks, leftovers of dead processes, stuck
    runs, clocks, growth and versions. Names the command that fixes each problem. Exits with 1 on failures, not on warnings.

    A bundle holds versions, checks, incidents, metrics and logs. Secrets, addresses and paths are removed, names of sources,
    sinks, hosts and files replaced by numbers. Its contents are listed before it is written.

    Examples: catchment check --mend
              catchment check --bundle report.zip
    """
    from deployments.health import checks, doctor

    home = session.home()
    if objectives:
        trends.slo(as_json)
        return 0
    if mend:
        doctor.mend(home)
    if bundle:
        return _write_bundle(bundle, yes)
    # By its old names, it shows one half.
    halves = {"health": (checks,), "doctor": (doctor,)}.get(context.info_name or "", (checks, doctor))
    return _show(list(dict.fromkeys(each for half in halves for each in half.examine(home))), as_json)


def _show(conditions: Sequence[Condition], as_json: bool) -> int:
    """Print conditions with their remedies. Return the exit code."""
    from catchment.views.health import HealthReport

    report = HealthReport.of(conditions, datetime.now(UTC))
    if as_json:
        render.show_json(report)
    else:
        rows = [
            (each.probe, each.verdict, " → ".join(filter(None, (each.message, each.remedy)))) for each in conditions
        ]
        render.show_table(("PROBE", "VERDICT", "FINDING"), rows)
    return int(report.verdict == "fail")


def _write_bundle(file: Path, yes: bool) -> int:
    from deployments.health.bundle import contents, require_free, write

    file = expanded(file)
    if file.is_dir():
        file /= f"catchment-{datetime.now(UTC):%Y%m%dT%H%M%S}.zip"
    require_free(file)
    if not yes and not render.interactive():
        raise BadInput("not a terminal; pass --yes to write the bundle without confirmation")
    files = contents(session.home())
    render.show_table(("FILE", "LINES"), [(name, text.count("\n") + 1) for name, text in files.items()])
    if not yes:
        typer.confirm(f"Write these files, with names replaced by numbers, to {file}?", abort=True, err=True)
    write(file, files)
    render.say(f"wrote {file}; read it before you send it")
    return 0
