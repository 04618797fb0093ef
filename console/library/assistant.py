"""`catchment mcp`: serve assistants."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from catchment.errors import BadInput
from console import render, session

_PORT = 8_572


def mcp(
    over_http: Annotated[
        bool, typer.Option("--http", help="Serve over HTTP on 127.0.0.1, with a token, instead of standard input.")
    ] = False,
    port: Annotated[
        int | None, typer.Option(min=0, max=65_535, metavar="PORT", help="Port for --http. Default: 8572.")
    ] = None,
) -> None:
    """Let an assistant search and read the library (MCP).

    The assistant's program starts this command; see docs/assistants.md. It changes nothing. Mail is kept from assistants
    unless a source has the setting `assistants: true`.

    To connect Claude Code: claude mcp add catchment -- catchment mcp

    Example: catchment mcp --http --port 8572
    """
    if port is not None and not over_http:
        raise BadInput("--port: only with --http")
    if over_http:
        from assistant import over_http as http

        home = session.home()

        def report(address: str) -> None:
            render.note(f"listening at {address}; the bearer token is in {render.clean(http.token_file(home))}")

        http.serve(home, _PORT if port is None else port, report)
        return
    from assistant import mcp_server

    if sys.stdin.isatty():
        render.note("waiting for an assistant on standard input; end with Ctrl-D. See: catchment mcp --help")
    mcp_server.serve(session.home())
