"""What a command works with: the home, the ledger, the running server, and who is asking."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from catchment.errors import BadInput, CatchmentError, LedgerUnavailable, NotFound, TryAgain
from console import render

if TYPE_CHECKING:
    from catchment.ledger import Ledger
    from catchment.runtime.home import Home
    from deployments.server.running import Running

_ROOM = 64 * 1024


def home() -> Home:
    """The folder that holds all state; it may not exist yet."""
    from catchment.runtime.home import Home

    return Home.default()


DISK_IS_FULL = "the disk is full that holds Catchment's state; make room and try again"


def disk_is_full() -> bool:
    """Whether there is hardly room for one more page of a database where any of the state is."""
    from catchment.ledger.db.database import sqlite_file

    here = home()
    try:
        ledger = sqlite_file(here.database_url)
    except BadInput:
        ledger = None  # Who opens it tells.
    files = [here.cache, *([ledger] if ledger else [])]
    return any(map(_is_full, (here.path, here.prefect, here.run, *(file.resolve().parent for file in files))))


def _is_full(folder: Path) -> bool:
    try:
        found = os.statvfs(folder)
    except OSError:
        return False
    return found.f_bavail * found.f_frsize < _ROOM


def ledger_is_damaged() -> bool:
    """Whether the ledger's file is damaged, from which any error may come that nobody foresaw; all of it is read."""
    from catchment.errors import LedgerCorrupt

    try:
        with reading() as ledger:
            return ledger.is_damaged()
    except LedgerCorrupt:
        return True
    except Exception:  # noqa: BLE001 - it is asked because of an error, and whatever it is that error's own cause is told
        return False


@contextmanager
def reading() -> Iterator[Ledger]:
    """The ledger as it is, for a command that only asks. Raises NotFound when there is none yet."""
    from catchment.ledger import Ledger

    url = home().database_url
    try:
        ledger = Ledger.inspect(url)
    except LedgerUnavailable:
        if not disk_is_full():
            raise
        ledger = Ledger.inspect(url, fixed=True)
    try:
        yield ledger
    finally:
        ledger.close()


@contextmanager
def writing() -> Iterator[Ledger]:
    """The ledger of a home that exists, made or led forward where needed, for a command that changes something.

    Under a running system, which may be of an older version, it is not led forward: then this raises SchemaMismatch.
    """
    from catchment.ledger import Ledger

    url = home().make().database_url
    try:
        ledger = Ledger.inspect(url) if running() else Ledger.open(url)
    except NotFound:
        ledger = Ledger.open(url)
    try:
        if led := ledger.led_forward:
            kept = f"; what it was is kept in {led.kept}" if led.kept else ""
            render.note(f"the ledger was led forward from revision {led.before} to {led.now}{kept}")
        yield ledger
    finally:
        ledger.close()


def running() -> Running | None:
    """The server and worker that `catchment up` started, if they are alive."""
    from deployments.server.running import running

    return running(home())


def is_starting() -> bool:
    """Whether `catchment up` is at work and not ready yet."""
    from deployments.server.running import starting

    return starting(home()) is not None


def needs_server() -> Running:
    """As `running`, but raises TryAgain when nothing runs, or is not ready yet."""
    if server := running():
        return server
    if is_starting():
        raise TryAgain("Catchment is starting; try again in a minute")
    raise TryAgain("no server is running; start it with `catchment up --detach`")


def run_address(run: str | None) -> str | None:
    """Where the Prefect UI shows a run, while a server runs; else only the run's id."""
    server = running() if run else None
    return server.run_url(run) if server and run else run


def operator() -> str:
    """Who is asking, as the history records it."""
    try:
        return f"operator:{getpass.getuser()}"
    except (KeyError, OSError):
        return "operator"


def source_names(incomplete: str) -> list[str]:
    """The names of sources that begin so, for shell completion."""
    try:
        with reading() as ledger:
            return [source.name for source in ledger.sources.all() if source.name.startswith(incomplete)]
    except CatchmentError:
        return []


SourceName = Annotated[str, typer.Argument(metavar="NAME", help="The source.", autocompletion=source_names)]
