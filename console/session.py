"""Resources of a command: the home folder, the ledger, the running server and the operator's name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from catchment.errors import BadInput, LedgerUnavailable, NotFound
from console import completion, render

if TYPE_CHECKING:
    from catchment.ledger import Ledger
    from catchment.runtime.home import Home
    from deployments.actions.desk import Desk
    from deployments.server.running import Running

T = TypeVar("T")
U = TypeVar("U")

_FULL_DISK_BYTES = 64 * 1024


def home() -> Home:
    """Return the folder that holds all state. It may not exist yet."""
    from catchment.runtime.home import Home

    return Home.default()


DISK_IS_FULL = "the disk is full and Catchment cannot write its state; make room and try again"


def disk_is_full() -> bool:
    """Return whether a disk that holds state has less than 64 KiB free, hardly a page of a database."""
    from catchment.ledger import sqlite_file

    folder = home()
    try:
        ledger = sqlite_file(folder.database_url)
    except BadInput:
        ledger = None  # reported when the ledger is opened
    files = [folder.cache, *([ledger] if ledger else [])]
    return any(map(_is_full, (folder.path, folder.prefect, folder.run, *(file.resolve().parent for file in files))))


def _is_full(folder: Path) -> bool:
    try:
        usage = os.statvfs(folder)
    except OSError:
        return False
    return usage.f_bavail * usage.f_frsize < _FULL_DISK_BYTES


def ledger_is_damaged() -> bool:
    """Return whether the ledger's file is damaged, a possible cause of any unexpected error. Reads the whole file."""
    from catchment.errors import LedgerCorrupt

    try:
        with reading() as ledger:
            return ledger.is_damaged()
    except LedgerCorrupt:
        return True
    except Exception:  # noqa: BLE001 - the error that led here is reported instead
        return False


@contextmanager
def reading() -> Iterator[Ledger]:
    """Open the ledger for reading. Raises NotFound if there is none yet."""
    from catchment.ledger import Ledger

    folder = home()
    try:
        ledger = Ledger.inspect(folder)
    except LedgerUnavailable:
        if not disk_is_full():
            raise
        ledger = Ledger.inspect(folder, fixed=True)
    try:
        yield ledger
    finally:
        ledger.close()


def asked(question: Callable[[Ledger], T], otherwise: U) -> T | U:
    """Return an answer of the ledger, or `otherwise` if there is none yet, or nothing of that name in it."""
    try:
        with reading() as ledger:
            return question(ledger)
    except NotFound:
        return otherwise


@contextmanager
def writing() -> Iterator[Ledger]:
    """Open the ledger for writing; create or migrate it if necessary.

    Raises SchemaMismatch instead of migrating while Catchment runs, because the running version may be older.
    """
    from catchment.ledger import Ledger

    folder = home().make()
    try:
        ledger = Ledger.inspect(folder) if running() else Ledger.open(folder)
    except NotFound:
        ledger = Ledger.open(folder)
    try:
        if led := ledger.migrated:
            note = f"; the previous one is in {led.kept}" if led.kept else ""
            render.note(f"the ledger was migrated from revision {led.before} to {led.now}{note}")
        if (replaced := ledger.finish_restore(home().user_files)) is not None:
            note = "".join(f"; the replaced file is {file}" for file in replaced)
            render.note(f"an interrupted restore was finished: the settings are restored, too{note}")
        yield ledger
    finally:
        ledger.close()


def running() -> Running | None:
    """Return the server and worker that `catchment up` started, if they are alive."""
    from deployments.server.running import running

    return running(home())


def transition() -> str | None:
    """Return "starting" or "stopping" while Catchment changes its state, otherwise None."""
    from deployments.server.running import transition

    return transition(home())


def needs_server() -> Running:
    """Return the running server. Raises TryAgain if Catchment is not running, starting or stopping."""
    from deployments.server.running import require_running

    return require_running(home())


def desk() -> Desk:
    """Return the desk for the operator's actions (`deployments.actions`)."""
    from deployments.actions.desk import Desk

    return Desk(home(), reading, writing)


def confirmed(question: str, verb: str, reason: str) -> str:
    """Ask before a deletion, and for its reason unless one is given. Return the reason. Raises BadInput without a terminal."""
    if not render.interactive():
        raise BadInput(f"not a terminal; pass --yes to {verb} without confirmation")
    typer.confirm(question, abort=True, err=True)
    return reason or typer.prompt("Reason, for the audit", default="", show_default=False, err=True)


def run_address(run: str | None) -> str | None:
    """Return the address of a run in the Prefect UI, or its id if no server runs."""
    server = running()
    return server.run_url(run) if run and server else run


def operator() -> str:
    """Return the name of the current user as the history records it."""
    from catchment.runtime import process

    return process.operator()


def kind_names(incomplete: str) -> list[str]:
    """Complete a kind of source."""
    from connectors import kinds

    return [kind for kind in kinds() if kind.startswith(incomplete)]


source_names = completion.names("source")
OnlySource = Annotated[
    str | None, typer.Option("--source", metavar="NAME", help="Only this source.", autocompletion=source_names)
]
SourceName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the source.", autocompletion=source_names)]
