"""`catchment mcp`: serve assistants, and register the server with their programs."""

from __future__ import annotations

import json
import os
import sys
from typing import Annotated

import typer

from catchment.errors import BadInput, CatchmentError
from console import render, session
from console.help_pages import CommandGroup

_PORT = 8_572

app = CommandGroup(
    "Let an assistant search and read the library (MCP).\n\n"
    "The assistant's program starts this command; `catchment mcp install` registers it there. It changes nothing. Mail "
    "accounts are kept from assistants unless a source has the setting `assistants: true`; see docs/assistants.md.\n\n"
    "Example: catchment mcp --http --port 8572",
    invoke_without_command=True,
)


@app.callback()
def mcp(
    context: typer.Context,
    over_http: Annotated[
        bool, typer.Option("--http", help="Serve over HTTP on 127.0.0.1, with a token, instead of standard input.")
    ] = False,
    port: Annotated[
        int | None, typer.Option(min=0, max=65_535, metavar="PORT", help="Port for --http. Default: 8572.")
    ] = None,
) -> None:
    """Serve an assistant until it ends."""
    if port is not None and not over_http:
        raise BadInput("--port: only with --http")
    if context.invoked_subcommand is not None:
        return
    if over_http:
        _serve_http(_PORT if port is None else port)
        return
    from assistant import mcp_server

    if sys.stdin.isatty():
        render.note("waiting for an assistant on standard input; end with Ctrl-D. See: catchment mcp --help")
    mcp_server.serve(session.home())


def _serve_http(port: int) -> None:
    from assistant import over_http as http

    home = session.home()
    file = http.token_file(home)
    is_new = not file.exists()

    def report(address: str) -> None:
        where = f"kept in {render.clean(file)}"
        token = f"{file.read_text().strip()} (shown once, {where})" if is_new else where
        render.note(f"listening at {address}; bearer token: {token}")

    http.serve(home, port, report)


@app.command()
def install(
    only_print: Annotated[bool, typer.Option("--print", help="Print the entry without writing it.")] = False,
) -> None:
    """Register the server with the programs of assistants.

    Adds an entry to the configuration of each program that is found, and changes nothing else in it.

    Example: catchment mcp install --print
    """
    from assistant import clients
    from assistant.sharing import Sharing

    home = session.home()
    entry, programs = clients.entry(home), clients.found()
    if only_print or not programs:
        render.say(json.dumps({"mcpServers": {clients.NAME: entry}}, ensure_ascii=False, indent=2))
    if not programs:
        render.note("no program with assistants found; add this entry to the configuration of yours")
    problems = []
    for program in programs:
        if only_print:
            render.say(f"{program.name}: {render.place(program.file)}, in {program.key}")
            continue
        try:
            is_new = program.add(entry)
        except CatchmentError as problem:
            problems.append(str(problem))
        else:
            place = render.place(program.file)
            render.say(
                f"{program.name}: {f'added to {place}; restart the program' if is_new else f'already in {place}'}"
            )
    sharing = Sharing(home)
    render.say(f"assistants can read: {', '.join(sharing.shared()) or 'no source yet'}")
    if private := sharing.kept():
        render.say(
            f"kept from assistants: {', '.join(private)}; to open one: catchment sources set NAME assistants=true"
        )
    if os.environ.get("CATCHMENT_DATABASE_URL"):
        render.note("CATCHMENT_DATABASE_URL: not written, because it may contain a password; set it in the entry's env")
    if problems:
        raise BadInput("; ".join(problems))
