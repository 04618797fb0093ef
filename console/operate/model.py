"""`catchment model`: the model of search by meaning."""

from __future__ import annotations

from typing import Annotated

import typer

from console import arguments, render, session


def model(
    setting: Annotated[
        str | None, typer.Argument(metavar="[MODEL]", help="use, off, ollama:MODEL@URL or openai:MODEL@URL.")
    ] = None,
    as_json: arguments.Json = False,
) -> None:
    """Show or change the model of search by meaning.

    `use` is built in and the default; `off` leaves search by words; the others are endpoints on this machine. A new model
    embeds all passages in the background, and until then searches use the previous one.

    Example: catchment model ollama:nomic-embed-text@http://127.0.0.1:11434
    """
    if setting is not None:
        from deployments.actions import library

        if not library.choose_model(session.desk(), setting, session.operator()):
            render.note("the deployment `embed` is paused; resume it in the Prefect UI")
    from catchment.search.meaning.meaning_status import MeaningStatus

    status = session.asked(lambda ledger: MeaningStatus.read(session.home(), ledger), None)
    if as_json:
        render.show_json(status)
    elif status is None:
        render.note("no library yet; add a source: `catchment add obsidian ~/Vault --name notes`")
    else:
        render.show_fields({"model": status.setting, "status": render.clean(status)})
