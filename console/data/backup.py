"""`catchment backup` and `catchment restore`: the ledger and the sources in one file, and back."""

from __future__ import annotations

import shutil
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from catchment.errors import Refused
from catchment.runtime.home import expanded
from console import arguments, render, session

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catchment.runtime.home import Home

_SOURCES = "sources.yaml"


def backup(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Where to; a folder gets a file named after the moment.")
    ] = None,
    as_json: arguments.Json = False,
) -> int:
    """Keep the library and the sources in one file.

    Syncs may go on meanwhile. The copy is proved; without FILE it is put into the folder `backups` of the home. Secrets are
    not in it.
    """
    home = session.home()
    target = _named(file, home)
    sources = home.sources_file
    with session.reading() as ledger:
        began = time.monotonic()
        broken = ledger.back_up(target, {_SOURCES: sources.read_bytes()} if sources.exists() else {})
    size = target.stat().st_size
    if as_json:
        render.show_json({"file": str(target), "bytes": size, "broken": broken})
    else:
        render.say(f"backed up to {target}")
        render.say(f"{render.size(size)}, written and proved in {time.monotonic() - began:.1f} s")
        _tell(broken)
    return 1 if broken else 0


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that `catchment backup` wrote.")],
    as_json: arguments.Json = False,
) -> int:
    """Bring a backup back in place of the library that is there.

    Works also when the ledger is damaged or gone. What it replaces is kept in a folder beside it.
    """
    from catchment.ledger.admin import backup as copies
    from deployments.server.running import kept_down

    home = session.home()
    ledger = _ledger_file(home)
    home.make()
    with kept_down(home) as is_down:
        if not is_down:
            raise Refused("Catchment is running or starting; stop it with `catchment down`, then restore")
        # What it holds goes by the numbers of jobs, which the restored ledger gives out again.
        restored = copies.restore(ledger, expanded(file).absolute(), outdated=[home.cache])
        _put_back(home, restored.files, restored.aside)
    if as_json:
        kept = str(restored.aside) if restored.aside else None
        render.show_json({"restored": str(ledger), "aside": kept, "broken": restored.broken})
    else:
        render.say(f"restored from {file.name}; start with `catchment up --detach`")
        if restored.aside:
            render.say(f"what it replaced is in {restored.aside}")
        _tell(restored.broken)
    return 1 if restored.broken else 0


def _named(file: Path | None, home: Home) -> Path:
    if file is None:
        file = home.path / "backups"
        if home.path.exists():
            file.mkdir(mode=0o700, exist_ok=True)
    file = expanded(file).absolute()
    if not file.is_dir():
        return file
    now = datetime.now(UTC)
    named = file / f"catchment-{now:%Y%m%dT%H%M%S}.db"
    return named.with_stem(f"{named.stem}-{now:%f}") if named.exists() else named


def _ledger_file(home: Home) -> Path:
    from catchment.ledger.db.database import sqlite_file

    if (found := sqlite_file(home.database_url)) is None:
        raise Refused(
            "The ledger is on a PostgreSQL server, which is restored by its own means; use pg_restore, and copy sources.yaml"
        )
    return found


def _put_back(home: Home, files: Mapping[str, bytes], aside: Path | None) -> None:
    """Write the file of the sources as it was, unless it is so already; the one that was there is kept."""
    from catchment.runtime import atomic_files

    text, file = files.get(_SOURCES), home.sources_file
    if text is None or (file.exists() and file.read_bytes() == text):
        return
    if file.exists():
        shutil.copy2(file, aside / _SOURCES if aside else file.with_name(f"{_SOURCES}.replaced"))
    # As `SourcesFile.save`: a person may have a link to it here.
    atomic_files.write(file.resolve(), text)


def _tell(broken: list[str]) -> None:
    for line in broken:
        render.note(f"broken, as in the ledger that was copied: {render.clean(line)}")
