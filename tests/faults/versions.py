"""Programs and ledgers of several versions: a later program, and a stored ledger of each revision.

`python -m tests.faults.versions` stores a ledger of the program's revision in `ledgers` for future programs. It is
created once per revision and never changed.
"""

from __future__ import annotations

import gzip
import os
import shutil
import signal
import sys
import tempfile
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import Connection, Engine, create_engine, event, select

from catchment.ledger import Incident, Ledger, Moment
from catchment.ledger.admin import migrations, opening
from catchment.ledger.db import schema
from tests.faults import r9999_later
from tests.ledger.world import PARSE_ERROR, Clock, World, note, notes

LATER = r9999_later.revision
_LEDGERS = Path(__file__).with_name("ledgers")
_LATER = Path(__file__).with_name("r9999_later.py")
_FILE_EVENTS = {"os.rename", "os.remove", "sqlite3.connect"}


def become_later(folder: Path) -> None:
    """Act as a program of the next version from now on. `folder` receives its migrations."""
    versions = folder / "versions"
    shutil.copytree(migrations._HERE / "versions", versions, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy2(_LATER, versions)
    migrations._HERE = folder
    schema.REVISION = LATER
    make = opening.make

    def made(connection: Connection) -> None:
        make(connection)
        with Operations.context(MigrationContext.configure(connection)):
            r9999_later.upgrade()

    opening.make = made
    opening._new_structure = cache(opening._new_structure.__wrapped__)


def live_in(url: str) -> None:
    """Populate an empty ledger: documents, a move, a deletion, a quarantine entry, a hold, a history."""
    clock = Clock()
    world = World(url, clock, Ledger.open(url, clock=clock))
    world.ingest(*notes(30))
    world.see(note("moved/0.md", identity="n0"), note("n/1.md", "v2", identity="n1"))
    world.deliver(world.claim())
    world.lose("n/2.md")
    world.settle()
    world.see(note("bad.md"))
    batch = world.claim()
    world.ledger.queue.fail(batch.token, batch.jobs[0].id, PARSE_ERROR, retry_at=None)
    world.lose(*(f"n/{n}.md" for n in range(3, 23)))
    world.settle()
    world.record(**{"n": "listed"})
    world.ledger.syncs.end(world.sync.id, "completed", {"succeeded": 31})
    opened = Moment(world.ledger.now(), "opened", "no answer")
    world.ledger.incidents.save(
        [Incident(0, "source.unreachable", "source:notes", opened.at, None, opened.text, "look at its disk", (opened,))]
    )
    world.ledger.close()


def told(url: str) -> dict[str, list[Any]]:
    """Return every row of every table, with the columns of the current program, but not which home owns the ledger."""
    engine = create_engine(url)
    with engine.connect() as connection:
        rows = {
            name: sorted(map(tuple, connection.execute(select(table))), key=repr)
            for name, table in schema.metadata.tables.items()
            if name != "revision"
        }
    engine.dispose()
    rows["counters"] = [row for row in rows["counters"] if row[0] != "home"]
    return rows


def kept(revision: str, folder: Path) -> Path:
    """Copy the stored ledger of a revision to this folder; return the file."""
    file = folder / "ledger.db"
    file.write_bytes(gzip.decompress((_LEDGERS / f"{revision}.db.gz").read_bytes()))
    return file


def kept_revisions() -> list[str]:
    """Return the revisions with a stored ledger."""
    return sorted(file.name.partition(".")[0] for file in _LEDGERS.glob("*.db.gz"))


def die_at(step: int) -> None:
    """Kill this process with SIGKILL at statement, commit or rename number `at`."""
    steps = count(1)

    def look(*_: Any, **__: Any) -> None:
        if next(steps) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    for moment in ("before_cursor_execute", "commit"):
        event.listen(Engine, moment, look)
    sys.addaudithook(lambda name, _: look() if name in _FILE_EVENTS else None)


def _keep() -> None:
    target = _LEDGERS / f"{schema.REVISION}.db.gz"
    if target.exists():
        sys.exit(f"there is {target.name} already, and it stays as it is")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "ledger.db"
        live_in(f"sqlite:///{file}")
        target.write_bytes(gzip.compress(file.read_bytes(), mtime=0))


if __name__ == "__main__":
    _keep()
