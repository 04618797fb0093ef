"""`catchment webhook`: hear from GitHub when something happens, in place of asking."""

from __future__ import annotations

import signal
import sys
from typing import Annotated

import typer

from console import render, session
from console.help_pages import CommandGroup

app = CommandGroup("Hear from GitHub when something happens.")


@app.command()
def serve(
    *,
    secret: Annotated[
        str,
        typer.Option(
            "--secret", metavar="REF", help="Where the webhook's secret is kept: env:VAR, file:PATH, keyring:S/U."
        ),
    ],
    port: Annotated[int, typer.Option(min=0, max=65_535, help="The port on this machine's own address.")] = 8_571,
) -> None:
    """Sync what webhooks tell of, until Ctrl-C.

    The sources that read a repository are synced when a delivery says that it changed. It listens on 127.0.0.1 only: lead
    the host's deliveries there by a tunnel or a proxy of yours.
    """
    from catchment.errors import BadInput
    from catchment.runtime import secret_references
    from deployments.watch.webhook import PATH, Receiver

    if not secret.startswith(("env:", "file:", "keyring:")):
        raise BadInput("--secret says where the secret is kept: env:VARIABLE, file:PATH or keyring:SERVICE/USER")
    receiver = Receiver(
        session.home().make(), secret_references.resolve(secret), port, lambda line: render.note(render.clean(line))
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: receiver.stop())
    render.say(f"waiting for deliveries at http://127.0.0.1:{receiver.port}{PATH}")
    sys.stdout.flush()  # Whoever reads it through a pipe has to act on it now.
    receiver.serve()
