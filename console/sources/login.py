"""`catchment login`: obtain an access token with OAuth's device flow and store it for a source."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from catchment.errors import BadInput, LoginFailed, Refused
from console import arguments, render, session
from console.help_pages import CommandGroup

app = CommandGroup("Log in to a host and store the token.\n\nExample: catchment login github --client-id ID")

_HOURS = 3_600


@app.command()
def github(
    *,
    client: Annotated[
        str,
        typer.Option(
            "--client-id",
            metavar="ID",
            envvar="CATCHMENT_GITHUB_CLIENT",
            help="Client ID of an OAuth app with the device flow enabled.",
        ),
    ],
    address: Annotated[
        str, typer.Option(metavar="URL", help="URL of a GitHub Enterprise server.")
    ] = "https://github.com",
    scope: Annotated[
        str, typer.Option(metavar="SCOPE", help="Requested scope; empty for public repositories only.")
    ] = "repo",
    keep: Annotated[
        str | None,
        typer.Option("--keep", metavar="REF", help="Where to store the token: file:PATH or keyring:SERVICE/USER."),
    ] = None,
) -> None:
    """Log in to GitHub by entering a code in a browser.

    Stores the token in a file with mode 0600 or in the keyring, and prints the --secret option for a source.

    Example: catchment login github --client-id ID
    """
    from catchment.runtime import secret_references
    from connectors.github.api import device
    from connectors.github.settings import GitHubSettings

    try:
        host = GitHubSettings(repositories=("any/any",), address=address)
    except ValueError:
        raise BadInput("--address: not the URL of a host; example: https://github.example.org") from None
    reference = arguments.located(keep) if keep else f"file:{_token_file(host.host)}"
    if not reference.startswith(("file:", "keyring:")):
        raise BadInput("--keep: cannot store a token there; use file:PATH or keyring:SERVICE/USER")
    code = device.begin(host.address, client, scope)
    render.say(f"Open {render.clean(code.address)} and enter {render.clean(code.user)}")
    sys.stdout.flush()  # needed now, also through a pipe
    grant = device.wait(host.address, client, code)
    if not secret_references.replace(reference, grant.token):
        raise Refused("token: cannot be stored there; choose another --keep and log in again")
    if secret_references.resolve(reference) != grant.token:
        raise LoginFailed("token: stored incorrectly; choose another --keep and log in again")
    if grant.seconds:
        render.note(
            f"The token expires in {grant.seconds / _HOURS:.0f} hours. Tokens of an OAuth app do not: see docs/github.md"
        )
    use = f"catchment add github OWNER/REPO --name NAME --secret {shlex.quote(f'token={reference}')}"
    render.say(f"Token stored. Add a source with: {use}")


def _token_file(host: str) -> Path:
    """Return the file for a token, in a folder with mode 0700."""
    folder = session.home().make().secrets
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder / f"{host.replace(':', '-')}.token"
