"""`catchment model` and `catchment recognition`: how the library is read in the background."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from console import arguments, render, session

if TYPE_CHECKING:
    from catchment.search.meaning.meaning_status import MeaningStatus
    from catchment.views.work.recognition import RecognitionStatus


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

    _show("model", session.asked(lambda ledger: MeaningStatus.read(session.home(), ledger), None), as_json)


def recognition(
    setting: Annotated[
        str | None, typer.Argument(metavar="[SETTING]", help="auto, off, or languages such as deu+eng.")
    ] = None,
    as_json: arguments.Json = False,
) -> None:
    """Show or change how text on pictures is recognized.

    It needs Tesseract. `auto`, the default, uses the languages of the library, then that of this machine. Texts that were
    recognized stay; `catchment replay --source NAME --from recognize` recognizes them again.

    Example: catchment recognition deu+eng
    """
    if setting is not None:
        from deployments.actions import library

        if not library.choose_recognition(session.desk(), setting, session.operator()):
            render.note("the deployment `recognize` is paused; resume it in the Prefect UI")
    from catchment.views.work.recognition import RecognitionStatus

    _show("setting", session.asked(RecognitionStatus.read, None), as_json)


def _show(name: str, status: MeaningStatus | RecognitionStatus | None, as_json: bool) -> None:
    if as_json:
        render.show_json(status)
    elif status is None:
        render.note("no library yet; add a source: `catchment add obsidian ~/Vault --name notes`")
    else:
        render.show_fields({name: status.setting, "status": render.clean(status)})
