"""`catchment doctor`: what may go wrong soon or went wrong unseen, each with the command that mends it."""

from __future__ import annotations

from typing import Annotated

import typer

from console import arguments, session
from console.trouble import health


def doctor(
    mend: Annotated[
        bool, typer.Option("--mend", help="Clear away what is left over; changes no source and no document.")
    ] = False,
    as_json: arguments.Json = False,
) -> int:
    """Examine what may go wrong soon, or went wrong unseen.

    Limits of the system, network disks, what dead processes left, leaked slots and stuck runs, clocks, growth, versions,
    the port; each with the command that mends it. Exits with 1 when something fails; a warning is no failure.
    """
    from deployments.health import doctor

    home = session.home()
    if mend:
        doctor.mend(home)
    return health.show(doctor.examine(home), as_json)
