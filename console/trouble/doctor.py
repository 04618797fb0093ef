"""`catchment doctor`: hidden or upcoming problems, each with the command that fixes it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from catchment.errors import BadInput
from catchment.runtime.home import expanded
from console import arguments, render, session
from console.trouble import health


def doctor(
    mend: Annotated[
        bool, typer.Option("--mend", help="Remove leftovers of dead processes; changes no source and no document.")
    ] = False,
    bundle: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a zip file for a bug report, without names. A folder is possible."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Write the bundle without confirmation.")] = False,
    as_json: arguments.Json = False,
) -> int:
    """Find hidden or upcoming problems.

    Checks system limits, network disks, leftovers of dead processes, leaked slots, stuck runs, clocks, growth, versions and
    the port, and names the command that fixes each problem. Exits with 1 on failures, not on warnings.

    A bundle holds versions, checks, incidents, metrics and logs. Secrets, addresses and paths are removed, names of sources and
    files replaced by numbers. Its contents are listed before it is written.

    Example: catchment doctor --bundle report.zip
    """
    from deployments.health import doctor

    home = session.home()
    if mend:
        doctor.mend(home)
    if bundle:
        return _write_bundle(bundle, yes)
    return health.show(doctor.examine(home), as_json)


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
