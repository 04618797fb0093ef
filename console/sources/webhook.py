"""`catchment webhook`: receive GitHub webhooks, so that changes are synced without polling."""

from __future__ import annotations

import signal
import sys
from typing import Annotated

import typer

from console import render, session
from console.help_pages import CommandGroup

app = CommandGroup("Receive webhooks from GitHub.\n\nExample: catchment webhook serve --secret env:SECRET")


@app.command()
def serve(
    *,
    secret: Annotated[
        str,
        typer.Option(
            "--secret",
            metavar="REF",
            help="Reference to the webhook's secret: env:VAR, file:PATH, keyring:SERVICE/USER.",
        ),
    ],
    port: Annotated[int, typer.Option(min=0, max=65_535, metavar="PORT", help="Port on 127.0.0.1.")] = 8_571,
) -> None:
    """Receive webhooks and sync the affected sources.

    Runs until Ctrl-C. Listens on 127.0.0.1; forward deliveries with a tunnel or proxy.

    Example: catchment webhook serve --secret env:SECRET --port 8571
    """
    from catchment.errors import BadInput
    from catchment.runtime import secret_references
    from deployments.watch.webhook import PATH, Receiver

    if not secret.startswith(("env:", "file:", "keyring:")):
        raise BadInput("--secret: not a secret reference; use env:VARIABLE, file:PATH or keyring:SERVICE/USER")
    receiver = Receiver(
        session.home().make(), secret_references.resolve(secret), port, lambda line: render.note(render.clean(line))
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: receiver.stop())
    render.say(f"listening at http://127.0.0.1:{receiver.port}{PATH}")
    sys.stdout.flush()  # needed now, also through a pipe
    receiver.serve()
