"""`catchment doctor`: hidden or upcoming problems, each with the command that fixes it."""

from __future__ import annotations

from typing import Annotated

import typer

from console import arguments, session
from console.trouble import health


def doctor(
    mend: Annotated[
        bool, typer.Option("--mend", help="Remove leftovers of dead processes; changes no source and no document.")
    ] = False,
    as_json: arguments.Json = False,
) -> int:
    """Find hidden or upcoming problems.

    Checks system limits, network disks, leftovers of dead processes, leaked slots, stuck runs, clocks, growth, versions and
    the port, and names the command that fixes each problem. Exits with 1 on failures, not on warnings.

    Example: catchment doctor --mend
    """
    from deployments.health import doctor

    home = session.home()
    if mend:
        doctor.mend(home)
    return health.show(doctor.examine(home), as_json)
