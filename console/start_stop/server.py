"""`catchment up` and `catchment down`: the server and the worker on this machine."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from catchment.errors import NotFound, SchemaMismatch, TryAgain
from console import render, session


def up(
    detach: Annotated[
        bool, typer.Option("--detach", help="Return when it is ready; it stays up until `down`.")
    ] = False,
    port: Annotated[
        int | None, typer.Option(min=1, max=65_535, help="The port; otherwise the last one, or a free one.")
    ] = None,
) -> int:
    """Start server, worker and watcher, and deploy the sources.

    Keeps them alive until Ctrl-C, or with --detach until `catchment down`.
    """
    from deployments.supervisor import supervisor

    home = session.home()
    _refuse_what_cannot_work()
    told = False

    def announce(line: str) -> None:
        nonlocal told
        render.say(render.clean(line))
        if not told and (place := supervisor.ui_login(home)):
            render.say(f"The name and the password that the page asks for are in {place}")
            told = True
        sys.stdout.flush()

    return supervisor.up(home, port=port, detach=detach, announce=announce)


def down() -> None:
    """Stop the server, the worker and the watcher.

    A sync that runs is handed back; the next one goes on where it was.
    """
    from deployments.supervisor import supervisor

    stopped = supervisor.down(session.home())
    render.say("stopped" if stopped else "nothing was running")


def _refuse_what_cannot_work() -> None:
    """Raise in place of starting what every sync would fail with: a full disk, a ledger that is damaged or too new.

    A ledger that is there and older is led forward.
    """
    if session.running():
        return
    if session.disk_is_full():
        raise TryAgain(session.DISK_IS_FULL)
    try:
        with session.reading():
            pass
    except NotFound:
        return
    except SchemaMismatch:
        # An older one is what `writing` leads forward; of a newer one it says the same again.
        pass
    with session.writing():
        pass
