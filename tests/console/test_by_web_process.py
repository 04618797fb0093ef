"""`status`, `why` and `sync` by the web process: the same output as without it, the same errors, and no heavy import."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from catchment.ledger import Ledger
from catchment.runtime import web_process
from catchment.runtime.home import Home
from catchment.runtime.process import alive, identity
from catchment.runtime.reports.record_json import from_json, to_json
from catchment.views.items import ItemWhy, why
from catchment.views.library import overview
from catchment.views.sources import SourceLine, SourceView, lines, source
from catchment.views.status import Overview
from catchment.views.telemetry.incidents import IncidentsView, incidents
from console import session
from tests.console.standin import Standin, answering
from tests.web.conftest import answering as answering_http
from tests.web.conftest import served

if TYPE_CHECKING:
    from tests.console.conftest import Cli

HEAVY = ("sqlalchemy", "pydantic", "prefect", "catchment.ledger", "yaml")


@pytest.fixture
def server(filled: Path) -> Iterator[Standin]:
    with answering(filled) as standin:
        yield standin


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of successful requests to the web process."""
    paths: list[str] = []
    request = web_process._request

    def recording(home: Home, method: str, path: str, *more: Any) -> tuple[int, bytes]:
        status, content = request(home, method, path, *more)
        if status == 200 and path != "/live":
            paths.append(path.partition("?")[0])
        return status, content

    monkeypatch.setattr(web_process, "_request", recording)
    return paths


def test_fetched_views_are_the_records_that_were_shown(filled: Path) -> None:
    home = Home(filled)
    with closing(Ledger.open(home)) as ledger:
        views = [
            (Overview, overview(ledger, home, None, None)),
            (list[SourceLine], lines(ledger, home)),
            (SourceView, source(ledger, home, "notes", "manual", {"exclude": ["*.tmp"]})),
            (IncidentsView, incidents(ledger)),
            *((ItemWhy, why(ledger, home, item, str)) for item in ledger.intake.find("md")),
        ]
    for kind, view in views:
        assert from_json(kind, json.loads(to_json(view))) == view


@pytest.mark.parametrize(
    "words",
    [
        ("status",),
        ("status", "--json"),
        ("why", "Hive.md"),
        ("why", "broken.pdf", "--json"),
        ("why", "later.md", "--source", "notes"),
    ],
)
def test_output_is_the_same_with_and_without_the_web_process(
    cli: Cli, server: Standin, filled: Path, asked: list[str], words: tuple[str, ...]
) -> None:
    def shown() -> str:
        # The time between two calls, and whether incidents are judged.
        text = re.sub(r"\b(now|\d+ (s|min) ago|in \d+ (s|min))\b", "TIME", cli(*words).out)
        return re.sub(r"Starting: .*|.*problems? waits? for you.*| +", " ", text)

    without = shown()
    assert asked == []
    with served(Home(filled)):
        assert shown() == without
    assert asked == ["/api/v1/overview" if words[0] == "status" else "/api/v1/why"]


def test_relative_path_is_explained_by_the_web_process(
    cli: Cli, server: Standin, filled: Path, vault: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(vault / "Bees")
    with served(Home(filled)):
        assert cli("why", "./Swarm.md", "--json").json["items"][0]["item"] == "Bees/Swarm.md"
        assert asked == ["/api/v1/why"]
        assert "never listed" in cli("why", "nothing.md").out


def test_sync_is_started_by_the_web_process(cli: Cli, server: Standin, filled: Path, asked: list[str]) -> None:
    with served(Home(filled)):
        assert cli("sync", "notes", "--deep", "--json").json == {"source": "notes", "run": "run-1"}
        assert asked == ["/api/v1/actions/syncs.start"]
    [(_, _, body)] = [one for one in server.asked if one[1].endswith("create_flow_run")]
    assert body["parameters"] == {"deep": True}


def test_result_names_what_the_sync_before_it_did(cli: Cli, server: Standin, filled: Path) -> None:
    state = {"type": "COMPLETED", "name": "Completed", "message": ""}
    with served(Home(filled)), session.writing() as ledger:
        sync = ledger.syncs.begin(1, run="run-2", owner=identity(), code_version="0", alive=alive)
        ledger.syncs.end(sync.id, "completed", {"succeeded": 3})

        def ended(_body: object) -> object:
            sync = ledger.syncs.begin(1, run="run-1", owner=identity(), code_version="0", alive=alive)
            ledger.syncs.end(sync.id, "completed", {})
            return {"name": "notes", "state": state}

        server.answers["/flow_runs/run-1"] = ended
        said = cli("sync", "notes", "--wait").out
    assert re.fullmatch(r"notes: nothing to do; 3 added or updated by the sync (now|\d s ago)\n", said)


def test_refused_sync_fails_as_without_the_web_process(cli: Cli, server: Standin, filled: Path) -> None:
    assert cli("sources", "pause", "notes", "--reason", "moving house").code == 0
    without = cli("sync", "notes")
    with served(Home(filled)):
        assert cli("sync", "notes") == without
    assert (without.code, "paused (moving house)" in without.err) == (5, True)


def test_sync_by_another_user_is_recorded_under_its_name(
    cli: Cli, server: Standin, filled: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(Home(filled)):
        monkeypatch.setenv("LOGNAME", "somebody-else")
        assert cli("sync", "notes").code == 0
    assert asked == []
    with closing(sqlite3.connect(filled / "ledger.db")) as ledger:
        actors = ledger.execute("SELECT actor FROM history WHERE event = 'sync requested'").fetchall()
    assert actors == [("operator:somebody-else",)]


def test_commands_by_the_web_process_load_no_library(filled: Path, process: Cli) -> None:
    overview = {
        "server": {"running": True, "answers": True, "url": "http://127.0.0.1:1"},
        "worker": None,
        "failed_checks": 0,
        "checked": None,
        "sentence": "All is well.",
        "sources": [],
    }

    def answer(request: BaseHTTPRequestHandler) -> None:
        content = json.dumps({"result": "run-1"} if request.command == "POST" else overview).encode()
        request.send_response(200)
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        request.wfile.write(content)

    script = (
        "import sys\n"
        "from console.main import main\n"
        "main(sys.argv[1:])\n"
        f"print('loaded:', sorted({set(HEAVY)!r} & set(sys.modules)))\n"
    )
    home = Home(filled)
    with answering_http(answer) as port:
        web_process.token(home)
        web_process.WebAddress.record(home, port)
        for words in (["status", "--json"], ["sync", "notes", "--json"]):
            assert process(*words, script=script, CATCHMENT_HOME=os.fspath(filled)).out.splitlines()[-1] == "loaded: []"
