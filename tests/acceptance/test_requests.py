"""Upper bounds for the requests of a sync to the Prefect server, and for the rows that it stores, in a real system."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.notes import edit, generate
from tests.acceptance.person import Person, without_meaning
from tests.waiting import until

pytestmark = pytest.mark.acceptance

_NOTHING, _ONE_NOTE = 9, 15
"""Most requests of worker and runner for a sync without changes, and for one with a changed note."""
_COUNTER = """
import sys
if "deployments.server.app" in sys.orig_argv:
    import uvicorn.config

    original = uvicorn.config.Config.__init__

    def __init__(self, app, *arguments, **options):
        async def counted(scope, receive, send):
            if scope["type"] == "http" and dict(scope["headers"]).get(b"user-agent", b"").startswith(b"prefect"):
                with open({log!r}, "a") as log:
                    print(scope["method"], scope["path"], file=log)
            await app(scope, receive, send)

        original(self, counted, *arguments, **options)

    uvicorn.config.Config.__init__ = __init__
"""
_PERIODIC = re.compile("/filter$|/logs/$|/get_scheduled_flow_runs$|/artifacts/|/workers/")
"""In the paths of periodic requests, of which a slow machine has more."""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file in which the server notes the requests of Prefect's clients: those of commands are polls."""
    return tmp_path_factory.mktemp("counter") / "requests"


@pytest.fixture(scope="module")
def person(log: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    """A user with a synced vault of twenty notes."""
    (log.parent / "sitecustomize.py").write_text(_COUNTER.format(log=str(log)))
    folder = tmp_path_factory.mktemp("requests")
    person = without_meaning(Person(folder / "home", variables={"PYTHONPATH": str(log.parent)}))
    generate(folder / "vault", 20)
    person("up", "--detach").ok()
    person("sources", "add", "obsidian", folder / "vault", "--name", "notes").ok()
    person.sync("notes")
    yield person
    person("down").ok()


def _requests(log: Path) -> Counter[str]:
    lines = log.read_text().splitlines()
    return Counter(line for line in lines if not _PERIODIC.search(line))


def _stored(person: Person) -> tuple[Counter[str], int]:
    """Return the number of rows by table, and of bytes in use."""
    with closing(sqlite3.connect(person.home / "prefect" / "prefect.db")) as database:
        # Runs of schedules are planned at any time.
        tables = ("flow_run WHERE start_time IS NOT NULL", "task_run", "task_run_state")
        rows = {table.split()[0]: database.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables}
        pages, free = (database.execute(f"PRAGMA {of}").fetchone()[0] for of in ("page_count", "freelist_count"))
        return Counter(rows), 4096 * (pages - free)


def test_sync_that_finds_nothing_sends_few_requests(person: Person, log: Path) -> None:
    before = _requests(log)
    person.sync("notes")
    sent = _requests(log) - before
    assert sent.total() <= _NOTHING, sent


def test_sync_of_one_note_sends_few_requests_and_stores_few_rows(person: Person, log: Path) -> None:
    before, (rows, size) = _requests(log), _stored(person)
    for _ in range(3):
        edit(person.home.parent / "vault", 1, 1)
        person.sync("notes")
    sent = _requests(log) - before
    assert sent.total() <= 3 * _ONE_NOTE, sent
    wanted = Counter(flow_run=9, task_run=12, task_run_state=36)
    # The server stores the ends of tasks up to a second later.
    until(lambda: _stored(person)[0] - rows, lambda stored: stored == wanted)
    assert _stored(person)[1] - size < 3 * 70_000
