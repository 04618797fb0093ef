"""Programs that nobody here wrote, as sources: each is installed into build/programs on first use.

A network is needed once, and PostgreSQL for one of them.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from sqlalchemy import create_engine, text

from catchment.content.parsing import CODE
from catchment.errors import SourceInvalid, SourceUnavailable
from catchment.ledger import BackfillSelection
from catchment.model import Priority, ReplayStage
from catchment.runtime.process import alive
from catchment.settings import Home
from catchment.sync import revoke
from catchment.sync.preflight import scopes_of
from catchment.sync.source_sync import open_sync
from tests.acceptance.person import PROJECT, Person, upright
from tests.connectors.programs.real import installed
from tests.connectors.programs.servers import TOKEN, Records, served, write_dbf
from tests.connectors.programs.taps import Taps
from tests.documents import document_named, raw_contents
from tests.postgres_server import PostgresServer, is_installed
from tests.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.long, pytest.mark.full]

_ROWS = 120
_READS = ("--catalog", "--properties")
_SYNC = """
import json, sys
from pathlib import Path
from catchment.settings import Home
from tests.connectors.programs.taps import Taps
home, folder, command, settings = json.loads(sys.argv[1])
Taps(Home(Path(home)), Path(folder), command, **settings).sync()
"""


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    """The secret of the programs that have one."""
    monkeypatch.setenv("TOKEN_OF_ANNA", TOKEN)


@pytest.fixture
def records() -> Iterator[Records]:
    with served() as records:
        for number in range(1, _ROWS + 1):
            records.put(number, number)
        yield records


def program(name: str, home: Home, folder: Path, **settings: Any) -> Taps:
    tap = Taps(home, folder / "tap", str(installed(name)), keep_raw=True, **settings)
    tap.agree()
    tap.policy = tap.connector.configured.policy(tap.connector.policy)
    return tap


def reading(parent: int) -> psutil.Process:
    """Wait until the program reads records, which may take a tenth of a second; return its process."""
    process = psutil.Process(parent)
    while process.status() != psutil.STATUS_ZOMBIE:
        for child in process.children():
            with suppress(psutil.Error):
                if any(word in child.cmdline() for word in _READS):
                    return child
        time.sleep(0.005)
    raise AssertionError("it has ended")


def kill_while_it_reads(tap: Taps) -> None:
    """Kill the program, and then a process of ours, in the middle of a sync: the next one has it all."""
    killed = threading.Event()

    def kill() -> None:
        reading(os.getpid()).kill()
        killed.set()

    thread = threading.Thread(target=kill)
    thread.start()
    with pytest.raises(SourceUnavailable, match="was killed by signal 9"):
        tap.sync()
    thread.join()
    assert killed.is_set()
    assert tap.documents() == {}
    arguments = [str(tap.folder.parent / "home"), str(tap.folder), tap.settings["command"][0], _settings(tap)]
    ours = subprocess.Popen([sys.executable, "-c", _SYNC, json.dumps(arguments)], cwd=PROJECT)
    theirs = reading(ours.pid)
    ours.kill()
    ours.wait()
    psutil.wait_procs([theirs], timeout=10)
    left = [*tap.home.copies("papers").glob(".run*/config.json")]
    assert [path.stat().st_mode & 0o777 for path in left] == [0o600]


def _settings(tap: Taps) -> dict[str, Any]:
    return {name: value for name, value in tap.settings.items() if name != "command"}


def tells_its_story(tap: Taps, first: set[str], change: Callable[[], None], last: set[str]) -> None:
    """Go through the life of a source: from its first sync, which is killed, to the withdrawn consent."""
    tap.connector.probe()
    kill_while_it_reads(tap)
    tap.sync()
    before = tap.documents()
    assert before.keys() == first
    assert [path.name for path in tap.home.copies("papers").glob(".run*")] == []
    assert tap.sync().get("jobs", 0) == 0
    assert tap.prove(deep=True).holds
    change()
    planned = {step.item for step in tap.plan().steps}
    tap.sync()
    after = tap.documents()
    assert after.keys() == last
    assert planned >= first ^ last
    for expected in (before, after) if first != last else ():
        done = tap.ledger.syncs.last(tap.source.id)
        assert done is not None
        tap.ledger.undo.undo(done.id, "anna", "", alive)
        assert tap.documents() == expected
    is_replayed(tap, len(last))
    assert tap.documents() == after
    is_forgotten_with_its_consent(tap)


def is_replayed(tap: Taps, count: int) -> None:
    """Read the kept records again, without the program."""
    assert raw_contents(tap.home).keys() >= tap.documents().keys()
    with tap.ledger._store.write() as writing:
        writing.connection.execute(text("UPDATE contents SET normalizer = '1.1 text/markdown'"))
    what, backfills = BackfillSelection(ReplayStage.NORMALIZE), tap.ledger.backfills
    survey = backfills.survey(tap.source.id, what, CODE)
    assert survey.total == count
    number = backfills.plan(tap.source.id, what, survey, "anna")
    backfills.start(number, survey.digest, "anna")
    with open_sync(tap.home, tap.connector, "papers", tap.policy, Priority.NORMAL, backfill=number) as sync:
        sync.discover()
        while (token := sync.claim(250)) is not None:
            sync.normalize(token)
            sync.process(token)
        assert sync.finish("completed")["succeeded"] == count


def is_forgotten_with_its_consent(tap: Taps) -> None:
    whole = revoke.Extent(frozenset(scopes_of(tap.connector)), lambda _locator: True, whole=True)
    assert revoke.revoke(tap.home, tap.ledger, tap.source, whole, "anna").holds
    assert tap.documents() == {}
    assert not tap.home.copies("papers").exists()


def titles(tap: Taps) -> dict[str, str]:
    return {named.locator: named.title for named in tap.ledger.library.names(tap.source.id)}


def test_tap_dbf(home: Home, tmp_path: Path) -> None:
    tap = program("tap-dbf", home, tmp_path, fields={"people": {"key": ["ID"]}})
    tap.settings["config"] = {"path": str(tap.folder / "*.dbf")}
    tap.agree()
    rows = [(number, f"Anna {number} ä", f"note of {number}") for number in range(20)]
    write_dbf(tap.folder / "people.dbf", rows)

    def change() -> None:
        assert titles(tap)["people/3"] == "Anna 3 ä"
        assert tap.documents()["people/3"] == "note of 3"
        write_dbf(tap.folder / "people.dbf", [(1, "Anna 1 ä", "changed"), *rows[2:], (99, "New", "a new note")])

    first = {f"people/{number}" for number in range(20)}
    tells_its_story(tap, first, change, first - {"people/0"} | {"people/99"})


def test_tap_dbf_that_finds_no_files_deletes_nothing(home: Home, tmp_path: Path) -> None:
    """Without a match it prints nothing and exits with 0."""
    tap = program("tap-dbf", home, tmp_path, fields={"people": {"key": ["ID"]}})
    tap.settings["config"] = {"path": str(tap.folder / "*.dbf")}
    tap.agree()
    write_dbf(tap.folder / "people.dbf", [(number, "Anna", "note") for number in range(40)])
    tap.sync()
    (tap.folder / "people.dbf").unlink()
    with pytest.raises(SourceInvalid, match="people: no stream of tap-dbf; it has none"):
        tap.sync()
    assert len(tap.documents()) == 40


def test_tap_rest_api_msdk(home: Home, tmp_path: Path, records: Records) -> None:
    stream = {"path": "/items", "records_path": "$.data[*]", "primary_keys": ["id"]}
    by_date = {
        "replication_key": "updated_at",
        "start_date": "2026-01-01T00:00:00Z",
        "source_search_field": "since",
        "source_search_query": "$last_run_date",
    }
    config = {
        "api_url": records.address,
        "next_page_token_path": "$.next_page",
        "pagination_request_style": "default",
        "streams": [{"name": "items", **stream}, {"name": "news", **stream, **by_date}],
    }
    tap = program("tap-rest-api-msdk", home, tmp_path, config=config, secrets={"bearer_token": "env:TOKEN_OF_ANNA"})

    def change() -> None:
        assert titles(tap)["items/3"] == "Item 3 ö"
        assert tap.documents()["items/3"] == "lorem *ipsum* 3"
        records.asked.clear()
        assert tap.sync()["listed"] <= 1
        assert [path for path in records.asked if "since" in path] == ["/items?since=2026-01-01T02%3A00%3A00Z"]
        records.put(5, 500, "changed")
        records.put(500, 501)
        del records.items[7]

    first = {f"{name}/{number}" for name in ("items", "news") for number in range(1, _ROWS + 1)}
    tells_its_story(tap, first, change, first - {"items/7"} | {"items/500", "news/500"})


def test_tap_github(home: Home, tmp_path: Path, records: Records) -> None:
    """Its setting `base_url` names the server. It takes the first issue of the first page for the newest one."""
    tap = program(
        "tap-github",
        home,
        tmp_path,
        protocol="singer-legacy",
        streams=["issues"],
        config={"base_url": records.address, "repository": "o/r", "start_date": "2026-01-01T00:00:00Z"},
        secrets={"access_token": "env:TOKEN_OF_ANNA"},
    )

    def change() -> None:
        assert titles(tap)["issues/1003"] == "Item 3 ö"
        assert tap.documents()["issues/1003"] == "lorem *ipsum* 3"
        shown = document_named(tap.ledger, "issues/1003")
        assert shown.content.properties["number"] == 3
        records.asked.clear()
        assert tap.sync()["listed"] <= 1
        assert [path for path in records.asked if "since=2026-01-01T02" in path]
        records.put(5, 500, "changed")
        records.put(500, 501)
        del records.issues[7]

    first = {f"issues/{1_000 + number}" for number in range(1, _ROWS + 1)}
    tells_its_story(tap, first, change, first | {"issues/1500"})
    assert not any(TOKEN in line for line in tap.log)


@pytest.mark.postgres
@pytest.mark.skipif(not is_installed(), reason="needs PostgreSQL 15")
def test_tap_postgres(home: Home, tmp_path: Path) -> None:
    # The user of PostgreSQL cannot enter the folders of pytest.
    folder = Path(tempfile.mkdtemp(prefix="real-pg-"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        place = dict(zip(("host", "port"), free.getsockname(), strict=True))
    server = PostgresServer(folder)
    server.url += f"&port={place['port']}"
    server.start("-c", "listen_addresses=127.0.0.1", "-p", str(place["port"]))
    engine = create_engine(server.url)

    def do(*statements: str) -> None:
        with engine.begin() as connection:
            for statement in statements:
                connection.execute(text(statement))

    try:
        do(
            "CREATE TABLE notes (id int PRIMARY KEY, title text, body text, amount numeric, updated_at timestamptz)",
            "CREATE TABLE pairs (a text, b int, name text, updated_at timestamptz, PRIMARY KEY (a, b))",
            "INSERT INTO notes SELECT n, 'Note ' || n, 'text of ' || n, 1.10, '2026-01-01'"
            f" FROM generate_series(1, {_ROWS}) n",
            "INSERT INTO pairs SELECT 'x/' || n, n, 'Pair ' || n, '2026-01-01'::timestamptz + n * interval '1 minute'"
            " FROM generate_series(1, 30) n",
        )
        tap = program(
            "tap-postgres",
            home,
            tmp_path,
            config={**place, "user": "postgres", "database": "postgres", "filter_schemas": ["public"]},
            secrets={"password": "env:TOKEN_OF_ANNA"},
            streams=["public-notes", "public-pairs"],
            fields={"public-pairs": {"cursor": "updated_at"}},
        )

        def change() -> None:
            assert titles(tap)["public-notes/3"] == "Note 3"
            assert tap.documents()["public-notes/3"] == "text of 3"
            assert tap.sync()["listed"] <= 1
            do(
                "UPDATE notes SET body = 'changed' WHERE id = 5",
                "DELETE FROM notes WHERE id = 7",
                "INSERT INTO notes VALUES (500, 'New', 'new', 2, now())",
                "DELETE FROM pairs WHERE b = 7",
                "INSERT INTO pairs VALUES ('y', 1, 'New', '2026-02-01')",
            )

        first = {f"public-notes/{number}" for number in range(1, _ROWS + 1)}
        first |= {f"public-pairs/x%2F{number},{number}" for number in range(1, 31)}
        last = first - {"public-notes/7"} | {"public-notes/500", "public-pairs/y,1"}
        tells_its_story(tap, first, change, last)
    finally:
        engine.dispose()
        server.stop(signal.SIGINT)
        shutil.rmtree(folder)


def test_source_faker(home: Home, tmp_path: Path) -> None:
    """Its records change only with its seed; with its STATE, it prints none."""
    config = {"count": 60, "seed": 7, "parallelism": 1, "always_updated": False}
    streams = ("users", "products", "purchases")
    # The time of the run.
    fields = {stream: {"leave_out": ["updated_at"]} for stream in streams}
    tap = program("source-faker", home, tmp_path, config=config, fields=fields)
    first = {f"{stream}/{number}" for stream in streams for number in range(1, 61)}

    def change() -> None:
        assert tap.sync()["listed"] == 0

    tells_its_story(tap, first, change, first)


def test_source_file(home: Home, tmp_path: Path) -> None:
    file = tmp_path / "notes.csv"
    lines = [f'{number},Title {number} ä,"body of {number}",2026-01-02' for number in range(30)]

    def write(*rows: str) -> None:
        file.write_text("\n".join(("id,title,body,updated_at", *rows)) + "\n")

    write(*lines)
    config = {"dataset_name": "notes", "format": "csv", "url": str(file), "provider": {"storage": "local"}}
    tap = program("source-file", home, tmp_path, config=config, fields={"notes": {"key": ["id"]}})

    def change() -> None:
        assert titles(tap)["notes/3"] == "Title 3 ä"
        assert tap.documents()["notes/3"] == "body of 3"
        write(*lines[1:5], "5,Title 5,changed,2026-02-01", *lines[6:], "99,New,new,2026-02-02")

    first = {f"notes/{number}" for number in range(30)}
    tells_its_story(tap, first, change, first - {"notes/0"} | {"notes/99"})


def test_secret_of_a_program_is_nowhere_in_a_running_system(tmp_path: Path, records: Records) -> None:
    person = Person(tmp_path / "home", variables={"TOKEN_OF_ANNA": TOKEN})
    config = {"base_url": records.address, "repository": "o/r", "start_date": "2026-01-01T00:00:00Z"}
    added = [
        *(
            "--set",
            "protocol=singer-legacy",
            "--set",
            "streams=issues",
            "--set",
            "secrets.access_token=env:TOKEN_OF_ANNA",
        ),
        *(word for name, value in config.items() for word in ("--set", f'config.{name}="{value}"')),
    ]
    with upright(person):
        said = person(
            "add", "program", str(installed("tap-github")), "--name", "issues", *added, "--consent", "--dry-run"
        ).ok()
        assert f"Item {_ROWS} ö" in said.out
        person("add", "program", str(installed("tap-github")), "--name", "issues", *added, "--consent").ok()
        assert person.sync("issues")["succeeded"] == _ROWS
        assert person.hits("ipsum", "issues")
        assert "in the library" in person("why", "issues/1003").ok().out
        # Killed in the middle: what it has written is removed by the next run.
        person("sync", "issues").ok()
        copies = Home(person.home).copies("issues")

        def of_the_program() -> psutil.Process | None:
            for process in psutil.process_iter():
                with suppress(psutil.Error):
                    if process.environ().get("TMPDIR", "").startswith(str(copies)):
                        return process
            return None

        process = until(of_the_program, lambda process: process is not None)
        assert process is not None
        parent = process.parent()
        assert parent is not None and parent.pid != os.getpid()
        os.kill(parent.pid, signal.SIGKILL)
        until(process.is_running, lambda is_running: not is_running)
        person.sync_when_ready("issues")
        time.sleep(1)
        found = [path for path in person.home.rglob("*") if path.is_file() and TOKEN.encode() in path.read_bytes()]
        assert found == []
        person("consent", "revoke", "issues", "--yes").ok()
        assert not copies.exists()
        assert person.hits("ipsum", "issues") == []
