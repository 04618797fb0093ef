"""Tasks on a faulty disk: engine operations on one home, each in a process forked from a prepared one.

`python -m tests.faults.works` reads lines of JSON, `{"works": [NAME or COMMAND LINE, …], "home": PATH}`. One process
executes all tasks of a line and returns their results. Backups are in `kept`, and the source is `papers`, both beside
the home.
"""

from __future__ import annotations

import gc
import io
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from contextlib import closing, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NoReturn

import console.main
from catchment.errors import CatchmentError, LoginFailed
from catchment.ledger import Ledger
from catchment.ledger.admin import backup
from catchment.runtime import secret_references
from catchment.settings import Home, Policy, Priority
from catchment.sync.preflight import WHOLE
from catchment.sync.revoke import Extent, revoke
from catchment.sync.source_sync import open_sync
from connectors.local_files import LocalFiles
from deployments.server.environment import auth_string
from deployments.sources.sources_file import SourceEntry, SourcesFile
from tests.faults.rehearsal import rehearse
from tests.faults.versions import become_later
from tests.hits import find_hits

NAME = "papers"
COPY = "copy.db"


def sync(home: Home) -> dict[str, int]:
    """Sync the folder."""
    connector = LocalFiles(LocalFiles.settings(root=home.path.parents[1] / NAME))
    with open_sync(home, connector, NAME, Policy(), Priority.NORMAL) as opened:
        opened.discover()
        while (token := opened.claim(10)) is not None:
            opened.process(token)
        return opened.finish("completed")


def back_up_home(home: Home) -> list[str]:
    """Make a backup."""
    with closing(Ledger.inspect(home.database_url)) as ledger:
        return ledger.back_up(home.path.parent / "kept" / COPY, {"sources.yaml": b"deployments: []\n"})


def restore(home: Home) -> list[str]:
    """Restore the backup."""
    return backup.restore(home.database_url, home.path.parent / "kept" / COPY).broken


def save(home: Home) -> None:
    """Replace the small essential files: the sources, the server login, a secret."""
    sources = SourcesFile.load(home.sources_file)
    settings = LocalFiles.settings(root=home.path.parents[1] / NAME)
    sources.add(SourceEntry(NAME, LocalFiles.kind, settings))
    sources.save()
    auth_string(home)
    if not secret_references.replace(f"file:{home.path / 'secret'}", "the new secret"):
        raise LoginFailed("the secret is not kept; make room")


def vacuum(home: Home) -> None:
    """Vacuum the ledger."""
    with closing(Ledger.open(home.database_url)) as ledger:
        ledger.vacuum(lambda _: False)


def purge(home: Home) -> bool:
    """Withdraw consent and purge the source."""
    with closing(Ledger.open(home.database_url)) as ledger:
        source = ledger.sources.get(NAME)
        extent = Extent(frozenset({WHOLE}), lambda _: True, whole=True)
        return revoke(home, ledger, source, extent, "operator:ada").holds


def lead_forward(home: Home) -> list[str]:
    """Migrate the ledger with a program of the next version; return the violated invariants."""
    with tempfile.TemporaryDirectory() as folder:
        become_later(Path(folder) / "later")
        with closing(Ledger.open(home.database_url)) as ledger:
            return ledger.check()


def look(home: Home) -> dict[str, Any]:
    """Return each item of the library with its text, once per occurrence, and the violated invariants."""
    with closing(Ledger.inspect(home.database_url)) as ledger:
        with ledger._store.read() as reading:
            rows = reading.connection.exec_driver_sql(
                "SELECT documents.path, contents.text FROM documents JOIN contents ON contents.id = documents.content_id"
                " WHERE documents.removed_at IS NULL ORDER BY documents.path"
            ).all()
        found = [hit.item for hit in find_hits(ledger, "paper", limit=1_000)]
        return {"documents": [list(row) for row in rows], "found": sorted(found), "broken": ledger.check(deep=True)}


def command(home: Home, words: list[str]) -> dict[str, Any]:
    """Run a command."""
    os.environ["CATCHMENT_HOME"] = str(home.path)
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = console.main.main(words)
    return {"code": code, "out": out.getvalue(), "err": err.getvalue()}


WORKS: dict[str, Callable[[Home], Any]] = {
    "sync": sync,
    "back_up": back_up_home,
    "restore": restore,
    "save": save,
    "vacuum": vacuum,
    "purge": purge,
    "lead_forward": lead_forward,
    "look": look,
}


def main() -> None:
    """Execute tasks until the end of the input."""
    rehearse()
    gc.freeze()
    for line in sys.stdin:
        asked = json.loads(line)
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            _become(asked["works"], Home(Path(asked["home"])), writer)
        os.close(writer)
        with os.fdopen(reader, encoding="utf-8") as answer:
            said = answer.read()
        _, status = os.waitpid(child, 0)
        print(said or json.dumps({"died": status}), flush=True)


def _become(works: list[str | list[str]], home: Home, writer: int) -> NoReturn:
    try:
        answers = [_done(work, home) for work in works]
        with os.fdopen(writer, "w", encoding="utf-8") as answer:
            answer.write(json.dumps(answers))
    finally:
        os._exit(0)


def _done(work: str | list[str], home: Home) -> dict[str, Any]:
    try:
        return {"done": WORKS[work](home) if isinstance(work, str) else command(home, work)}
    except CatchmentError as error:
        return {"error": type(error).__name__, "message": str(error)}
    except OSError as error:
        return {"error": "OSError", "message": str(error), "where": traceback.format_exc()}
    except Exception as error:  # noqa: BLE001 - reported to the test, which fails
        return {"error": "defect", "message": repr(error), "where": traceback.format_exc()}


if __name__ == "__main__":
    main()
