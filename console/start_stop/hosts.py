"""`catchment join`, `leave` and `hosts`: several machines that share a library."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from catchment.errors import BadInput
from console import arguments, render, session

_HostName = Annotated[str | None, typer.Argument(metavar="[NAME]", help="A host that is gone. Default: this one.")]


def join(
    *,
    server: Annotated[str, typer.Argument(metavar="URL", help="Prefect server of all hosts, such as https://nas.lan.")],
    ledger: Annotated[str, typer.Option(metavar="URL", help="Library: postgresql://USER@HOST/DB?sslmode=verify-full")],
    name: Annotated[str, typer.Option(metavar="HOST", help="Name of this host. Default: that of the machine.")] = "",
    also: Annotated[str | None, typer.Option(metavar="any", help="`any`: also sync sources of no host.")] = None,
    ca: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The only trusted certificate authority, as PEM.")
    ] = None,
    login: Annotated[
        str | None, typer.Option(metavar="REF", help="user:password of the server: file:PATH, env:, keyring:")
    ] = None,
) -> None:
    """Share a library with other machines.

    Checks the server and the library first. Run it again to change the login or to finish an interrupted call.

    Example: catchment join https://nas.lan --ledger 'postgresql://me@nas.lan/library?sslmode=verify-full'
    """
    from catchment.runtime.home import expanded
    from catchment.runtime.membership import ANY
    from deployments.actions import hosts

    if also not in (None, ANY):
        raise BadInput("--also: only `any` is possible; omit it to sync only the sources of this host")
    reference = arguments.located(login) if login else None
    if reference and not reference.startswith(("file:", "env:", "keyring:")):
        raise BadInput("--login: not a reference; use file:PATH, env:VARIABLE or keyring:SERVICE/USER")
    file = expanded(ca).absolute() if ca else None
    request = hosts.JoinRequest(server, ledger, name, also == ANY, file, reference)
    joined = hosts.join(session.desk(), request, session.operator(), ask=_ask_login, warn=render.note)
    render.say(f"joined as {joined.name}; start with `catchment up --detach`")


def _ask_login() -> str:
    if not render.interactive():
        raise BadInput("not a terminal; pass --login file:PATH with user:password of the Prefect server")
    return str(typer.prompt("user:password of the Prefect server", hide_input=True, err=True))


def leave(name: _HostName = None) -> None:
    """Leave the shared library, or take out a host that is gone.

    The sources of this host are moved or removed first. The last host keeps the library.

    Example: catchment leave
    """
    from deployments.actions import hosts

    if name is None:
        is_kept, home = hosts.leave(session.desk(), session.operator()), session.home()
        if is_kept:
            render.say("left; this home has the library to itself")
            return
        render.say(f"left; the library of this home is {home.path / 'ledger.db'} again")
        for copy in (home.backups, *sorted(home.path.glob("replaced-*"))):
            if copy.exists():
                render.note(f"not deleted: {copy}")
        return
    left = hosts.take_out(session.desk(), name, session.operator())
    render.say(f"{name} was taken out; its disk may still have content of the library")
    if left:
        render.note(
            f"its sources wait: {', '.join(left)}; move each here (catchment sources move NAME --to HOST), or remove it"
        )


def hosts(as_json: arguments.Json = False) -> None:
    """Show the machines that share the library.

    Example: catchment hosts
    """
    from catchment.views.hosts import hosts as standings
    from deployments.server.planned import latest_report

    rows = session.asked(lambda ledger: standings(ledger, latest_report(session.home())), ())
    if render.show_rows(
        rows,
        as_json,
        ("HOST", "STATE", "LAST BEAT", "SOURCES", "SYNCS NOW", "VERSION", "ANY"),
        lambda host: (
            f"{host.name} (this one)" if host.is_me else host.name,
            host.state,
            host.last_beat or "-",
            "-" if host.sources is None else len(host.sources),
            len(host.syncs),
            host.version.partition(" ")[0],
            "yes" if host.takes_any else "no",
        ),
        "no hosts: this home has its library to itself; share it with `catchment join`",
    ):
        for host in rows:
            if host.problem:
                render.say(render.paint(f"{host.name}: {host.problem}", "yellow"))
