"""`catchment login`: get a token from a host by a code typed into a browser, and keep it where a source finds it."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from catchment.errors import BadInput, LoginFailed, Refused
from console import arguments, render, session
from console.help_pages import CommandGroup

app = CommandGroup("Log in to a host, and keep the token for its sources.")

_HOURS = 3_600


@app.command()
def github(
    *,
    client: Annotated[
        str,
        typer.Option(
            "--client-id", envvar="CATCHMENT_GITHUB_CLIENT", help="The id of an OAuth app with the device flow."
        ),
    ],
    address: Annotated[str, typer.Option(help="The host, if it is an Enterprise server.")] = "https://github.com",
    scope: Annotated[str, typer.Option(help="The rights to ask for; empty for public repositories only.")] = "repo",
    keep: Annotated[
        str | None, typer.Option("--keep", metavar="REF", help="Where to keep the token: file:PATH or keyring:S/U.")
    ] = None,
) -> None:
    """Log in to GitHub with a code that you type into a browser.

    The token is kept in a file that only you can read, or in the keyring; a source is told where by --secret token=….
    """
    from catchment.runtime import secret_references
    from connectors.github.api import device
    from connectors.github.settings import GitHubSettings

    try:
        host = GitHubSettings(repositories=("any/any",), address=address)
    except ValueError:
        raise BadInput("--address is https:// and the name of a host, such as https://github.example.org") from None
    reference = arguments.located(keep) if keep else f"file:{_place(host.host)}"
    if not reference.startswith(("file:", "keyring:")):
        raise BadInput("a token can be kept by file:PATH or keyring:SERVICE/USER only")
    code = device.begin(host.address, client, scope)
    render.say(f"Open {render.clean(code.address)} and type {render.clean(code.user)}")
    sys.stdout.flush()  # Whoever reads it through a pipe has to act on it now.
    given = device.wait(host.address, client, code)
    if not secret_references.replace(reference, given.token):
        raise Refused("the token cannot be kept there; give another place by --keep, and log in again")
    if secret_references.resolve(reference) != given.token:
        raise LoginFailed("the token is not what was kept; give another place by --keep, and log in again")
    if given.seconds:
        render.note(
            f"this token ends in {given.seconds / _HOURS:.0f} hours; that of an OAuth app stays, see docs/github.md"
        )
    use = f"catchment sources add github OWNER/REPO --name NAME --secret {shlex.quote(f'token={reference}')}"
    render.say(f"The token is kept. Use it: {use}")


def _place(host: str) -> Path:
    """A file for the token, in a folder of the home that nobody else may enter."""
    folder = session.home().make().path / "secrets"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder / f"{host.replace(':', '-')}.token"
