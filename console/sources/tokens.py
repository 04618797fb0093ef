"""`catchment tokens`: the tokens of programs that push documents."""

from __future__ import annotations

from typing import Annotated

import typer

from console import arguments, render, session
from console.help_pages import CommandGroup

app = CommandGroup("Let programs push documents.\n\nExample: catchment tokens add browser --source clips")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the program.")]


@app.command()
def add(
    *,
    name: Name,
    source: Annotated[
        str,
        typer.Option("--source", metavar="NAME", help="The source to push to.", autocompletion=session.source_names),
    ],
    reason: arguments.Why = "",
) -> None:
    """Make a token with which a program may push to one source.

    The token is shown once, and stored as a digest.

    Example: catchment tokens add browser --source clips
    """
    from deployments.actions import pushed

    render.say(pushed.add_token(session.desk(), name, source, session.operator(), reason))


@app.command("list")
def list_tokens(as_json: arguments.Json = False) -> None:
    """List the programs that may push, with their source.

    Example: catchment tokens list --json
    """
    from deployments.actions import pushed

    tokens = pushed.tokens(session.home())
    if as_json:
        render.show_json(tokens)
    elif tokens:
        render.show_table(("NAME", "SOURCE", "ADDED"), [(token.name, token.source, token.added) for token in tokens])
    else:
        render.note("no tokens yet; see `catchment tokens add --help`")


@app.command()
def revoke(name: Name, reason: arguments.Why = "") -> None:
    """Refuse the token of a program from now on.

    Example: catchment tokens revoke browser
    """
    from deployments.actions import pushed

    token = pushed.revoke_token(session.desk(), name, session.operator(), reason)
    render.say(f"{name}: revoked; its documents stay in {token.source}")
