"""The client of the web process, and `catchment search` when the process does not answer."""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import closing
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from catchment.errors import PageSilent
from catchment.ledger import Ledger
from catchment.ledger.library.embeddings import DEFAULT_MODEL, OFF
from catchment.runtime import web_process
from catchment.runtime.home import Home
from catchment.runtime.web_process import WebAddress
from catchment.search import remote
from catchment.views.status import Overview
from console.main import main
from tests.web.conftest import answering, fill, served

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
HIT = {
    "document": 7,
    "title": "From the web process",
    "source": "notes",
    "item": "a.md",
    "snippet": "…",
    "score": 1.0,
    "places": [["notes", "a.md"]],
    "conversation": None,
    "alike": 0,
    "media_type": "text/markdown",
    "author": None,
    "moment": "2026-11-25T12:00:00Z",
}


def respond(request: BaseHTTPRequestHandler, content: bytes, status: int = 200) -> None:
    request.send_response_only(status)
    request.send_header("Content-Length", str(len(content)))
    request.end_headers()
    request.wfile.write(content)


def results(**more: Any) -> bytes:
    understood: dict[str, Any] = {"words": [], "excluded": [], "filters": []}
    return json.dumps({"hits": [HIT], "total": 1, "understood": understood, **more}).encode()


def test_search_shows_what_the_running_system_answers(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    received: list[tuple[str | None, Any]] = []

    def answer(request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers["Content-Length"] or 0)) or b"null"
        received.append((request.headers["Authorization"], json.loads(body)))
        respond(request, results())

    with answering(answer) as port:
        web_process.token(home)
        WebAddress.record(home, port)
        assert main(["search", "girder", "--limit", "3", "--page", "2", "--threads"]) == 0
    assert "From the web process" in capsys.readouterr().out
    [(live, _), (authorization, query)] = received
    assert live == authorization
    assert authorization == f"Bearer {web_process.token(home)}"
    assert (query["text"], query["limit"], query["offset"], query["by_conversation"]) == ("girder", 3, 3, True)
    assert datetime.fromisoformat(query["now"]).tzinfo is not None


@pytest.mark.parametrize(
    ("content", "status", "reason"),
    [
        (b"", 503, "status 503"),
        (b"{}", 200, "another version"),
        (b"not JSON", 200, "another version"),
        (results(hits=[{"title": "x"}]), 200, "another version"),
        (b"{}", 400, "another version"),
    ],
)
def test_unusable_answer_is_replaced_by_a_search_in_this_process(
    home: Home, capsys: pytest.CaptureFixture[str], content: bytes, status: int, reason: str
) -> None:
    fill(home)
    with answering(lambda request: respond(request, content, status)) as port:
        web_process.token(home)
        WebAddress.record(home, port)
        with pytest.raises(PageSilent, match=reason):
            remote.search(home, "girder", NOW)
        assert main(["search", "girder"]) == 0
    assert "Girder.md" in capsys.readouterr().out


def test_late_answer_is_not_awaited(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(web_process, "_ANSWER_SECONDS", 0.2)

    def answer(request: BaseHTTPRequestHandler) -> None:
        if request.path == "/live" or over.wait(60):
            respond(request, b"")

    with answering(answer) as port:
        web_process.token(home)
        WebAddress.record(home, port)
        with pytest.raises(PageSilent, match="no response"):
            remote.search(home, "girder", NOW)
        over.set()


def test_silent_process_costs_a_search_only_the_time_for_a_sign_of_life(
    home: Home, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_process, "_ANSWER_SECONDS", 100_000)
    fill(home)
    with closing(Ledger.open(home.database_url)) as ledger:
        ledger.embeddings.space("model", DEFAULT_MODEL, 512)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        web_process.token(home)
        WebAddress.record(home, silent.getsockname()[1])
        assert main(["search", "girder"]) == 0
    output = capsys.readouterr()
    assert "Girder.md" in output.out
    assert output.err == "searched by words only; page: no response; see `catchment check`\n"


def test_answer_of_a_live_process_is_awaited(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(request: BaseHTTPRequestHandler) -> None:
        if request.path != "/live":
            time.sleep(1.5)
        respond(request, results())

    monkeypatch.setattr(web_process, "_LIVE_SECONDS", 1.0)
    with answering(answer) as port:
        web_process.token(home)
        WebAddress.record(home, port)
        assert web_process.is_live(home)
        assert remote.search(home, "girder", NOW).total == 1


@pytest.mark.parametrize(
    "record", ["", "{", "[]", "{}", '{"port": 1, "process": 3}', '{"port": 1, "process": "x:1:1", "ledger": ""}']
)
def test_without_a_live_web_process_nothing_is_sent(home: Home, record: str) -> None:
    web_process.token(home)
    (home.run / "web.json").write_text(record)
    with pytest.raises(PageSilent, match="not running"):
        remote.search(home, "girder", NOW)


def test_process_with_another_ledger_is_not_asked(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    web_process.token(home)
    WebAddress.record(home, 1)
    assert WebAddress.read(home) is not None
    monkeypatch.setenv("CATCHMENT_DATABASE_URL", f"sqlite:///{home.path / 'other.db'}")
    assert WebAddress.read(home) is None


def test_search_by_words_only_is_reported_if_there_are_embeddings(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(home)
    assert main(["search", "girder"]) == 0
    assert capsys.readouterr().err == ""
    with closing(Ledger.open(home.database_url)) as ledger:
        ledger.embeddings.space("model", DEFAULT_MODEL, 512)
        assert main(["search", "girder"]) == 0
        expected = "searched by words only; page: not running; start Catchment with `catchment up --detach`\n"
        assert capsys.readouterr().err == expected
        assert main(["search", "tag:bridge"]) == 0
        assert "by words only" not in capsys.readouterr().err
        ledger.embeddings.setting = OFF
    assert main(["search", "girder"]) == 0
    assert capsys.readouterr().err == ""


def test_invalid_query_is_an_error_without_a_second_search(
    home: Home, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(home)
    assert main(["search", "sorce:notes"]) == 2
    error = capsys.readouterr().err
    with served(home):
        with monkeypatch.context() as patch:
            patch.setattr(Ledger, "inspect", None)
            assert main(["search", "sorce:notes"]) == 2
        assert capsys.readouterr().err == error
        assert main(["search", "girder", "--source", "nope"]) == 4


def test_only_the_search_names_the_meaning_if_the_page_is_silent(home: Home) -> None:
    for request in (
        lambda: web_process.fetch(home, "/overview", Overview),
        lambda: web_process.act(home, "syncs.start", {}),
    ):
        with pytest.raises(PageSilent, match=r"^page: not running; start Catchment"):
            request()
