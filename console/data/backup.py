"""`catchment backup` and `catchment restore`: the ledger and the settings in one file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from catchment.errors import BadInput
from console import arguments, render, session


def backup(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="File or folder. Default: `backups` in the home folder.",
        ),
    ] = None,
    only_list: Annotated[
        bool, typer.Option("--list", help="List the backups in the home folder with age and size.")
    ] = False,
    reason: arguments.Why = "",
    as_json: arguments.Json = False,
) -> int:
    """Copy the library and the settings into one file.

    Works while syncs run. The copy is verified. It contains no secrets.

    Example: catchment backup /mnt/disk/catchment.db
    """
    from deployments.actions import backups

    if only_list:
        if file:
            raise BadInput(f"--list shows the backups in the home folder; omit {file}, or omit --list to write it")
        return _list(as_json)
    start = time.monotonic()
    made = backups.make(session.desk(), session.operator(), reason, target=file)
    if as_json:
        render.show_json(made)
    else:
        render.say(f"backed up to {made.file}")
        render.say(f"{render.size(made.size)}, written and verified in {time.monotonic() - start:.1f} s")
        _warn(made.broken)
    return 1 if made.broken else 0


def _list(as_json: bool) -> int:
    from catchment.views.backups import backups

    files = backups(session.home(), most=None).files
    render.show_rows(
        files,
        as_json,
        ("MADE", "SIZE", "FILE"),
        lambda backup: (backup.made, render.size(backup.size), backup.file),
        "no backup in the home folder; make one: `catchment backup`",
    )
    return 0


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File written by `catchment backup`.")],
    reason: arguments.Why = "",
    as_json: arguments.Json = False,
) -> int:
    """Replace the library with a backup.

    Also works if the ledger is damaged or missing. The replaced files are kept in a folder next to it. The history names the
    restore, and its checkpoints prove it.

    Example: catchment restore /mnt/disk/catchment.db
    """
    from catchment.ledger import sqlite_file
    from deployments.actions import backups

    restored = backups.restore(session.desk(), file, session.operator(), reason)
    signed, url = restored.signed, session.home().database_url
    file_of_ledger = sqlite_file(url)
    if as_json:
        render.show_json(restored)
    else:
        render.say(f"restored from {file.name}; start with `catchment up --detach`")
        render.say(f"history: {signed}")
        if restored.aside:
            what = "files are in" if file_of_ledger else "tables are in the schema"
            render.say(f"the replaced {what} {restored.aside}")
        _warn_of_model(restored.model)
        _warn(restored.broken)
        if signed.problem:
            render.note(f"the history of the backup is not intact: {signed.problem}")
    return 1 if restored.broken or signed.problem else 0


def _warn_of_model(model: str) -> None:
    """Name a server that receives the texts: the backup decided about it."""
    from catchment.ledger import DEFAULT_MODEL, OFF
    from catchment.search.meaning.choice import checked

    if model in (DEFAULT_MODEL, OFF):
        return
    try:
        checked(model)
    except BadInput as invalid:
        render.note(f"search by meaning is off: {render.clean(invalid)}")
    else:
        render.note(f"texts are sent to {render.clean(model)}; to use the built-in model: `catchment model use`")


def _warn(broken: list[str]) -> None:
    for line in broken:
        render.note(f"copied ledger: invariant violated: {render.clean(line)}")
