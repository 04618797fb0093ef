"""`catchment recognition`: the text on pictures and scanned pages."""

from __future__ import annotations

from typing import Annotated

import typer

from console import arguments, render, session


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

    status = session.asked(RecognitionStatus.read, None)
    if as_json:
        render.show_json(status)
    elif status is None:
        render.note("no library yet; add a source: `catchment add obsidian ~/Vault --name notes`")
    else:
        render.show_fields({"setting": status.setting, "status": render.clean(status)})
