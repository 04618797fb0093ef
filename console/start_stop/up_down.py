"""`catchment up` and `catchment down`: start and stop the server and the worker."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from catchment.errors import NotFound, Refused, SchemaMismatch, TryAgain
from catchment.runtime.membership import Membership
from console import render, session
from console.start_stop.web_page import signin_link
from deployments.server.logs import FORMAT_VARIABLE, LogFormat


def up(
    detach: Annotated[bool, typer.Option("--detach", help="Run in the background; return when ready.")] = False,
    port: Annotated[
        int | None,
        typer.Option(
            min=1, max=65_535, metavar="PORT", help="Port of the server. Default: the last one, or a free one."
        ),
    ] = None,
    listen: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Address on which the page listens, too; needs --allow-host.")
    ] = None,
    allow_host: Annotated[
        str | None, typer.Option(metavar="NAME[:PORT]", help="Name of the page in browsers; needs --listen.")
    ] = None,
    log_format: Annotated[
        LogFormat | None, typer.Option(metavar="text|json", help="Format of the log files. Default: text.")
    ] = None,
) -> int:
    """Start the server, worker and watcher, and deploy the sources.

    Runs until Ctrl-C, or with --detach until `catchment down`. Processes that exit are restarted.

    Example: catchment up --detach
    """
    from deployments.server.ports import Exposure
    from deployments.supervisor import supervisor

    home, exposure = session.home(), Exposure.parse(listen, allow_host)
    if log_format:
        os.environ[FORMAT_VARIABLE] = log_format
    check_preconditions()
    shown: set[str] = set()

    def announce(line: str) -> None:
        # It is announced again, with a link, once the system is recorded.
        if not line.startswith("Page: "):
            render.say(render.clean(line))
        if (file := supervisor.ui_login(home)) and file not in shown:
            render.say(f"User name and password: see {file}")
            shown.add(file)
        show_page()
        sys.stdout.flush()

    def show_page() -> None:
        if (server := session.running()) and server.page_url not in shown:
            # The output of a service goes to a log.
            is_private = detach or sys.stdout.isatty()
            render.say(f"Page: {signin_link(server) if is_private else server.page_url}")
            shown.add(server.page_url)

    code = supervisor.up(home, port=port, exposure=exposure, detach=detach, announce=announce)
    show_page()
    return code


def down() -> None:
    """Stop the server, the worker and the watcher.

    Running syncs are interrupted; the next sync continues where they stopped.

    Example: catchment down
    """
    from deployments.supervisor import supervisor

    stopped = supervisor.down(session.home())
    render.say("stopped" if stopped else "Catchment was not running")


def check_preconditions() -> None:
    """Raise if every sync would fail: a full disk, a ledger that is damaged, of a newer version or of another home, or
    after an interrupted `join` or `leave`.

    Migrates an older ledger.
    """
    if session.running():
        return
    if (membership := Membership.of(session.home())) and membership.problem:
        raise Refused(membership.problem)
    if session.disk_is_full():
        raise TryAgain(session.DISK_IS_FULL)
    try:
        with session.reading() as ledger:
            ledger.require_owner()
    except NotFound:
        return
    except SchemaMismatch:
        # `writing` migrates an older ledger and raises again for a newer one.
        pass
    with session.writing():
        pass
