"""Requests to the web process over a loopback socket."""

from __future__ import annotations

import contextlib
import json
import socket
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler

import httpx
import psutil
import pytest

from catchment.errors import PageSilent
from catchment.ledger import Ledger
from catchment.ledger.library.embeddings import DEFAULT_MODEL, OFF
from catchment.runtime import web_process
from catchment.runtime.home import Home
from catchment.search import remote
from catchment.search.meaning.index import MeaningIndex
from catchment.search.results import Results
from catchment.search.search import search
from catchment.views.documents import RelatedView, related
from console.main import main
from tests.documents import document_named
from tests.waiting import until
from tests.web.conftest import answering, connected, fill, served

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
SECRET = "zyxsecretquery"


@pytest.fixture(scope="module")
def client(library_home: Home, port: int) -> Iterator[httpx.Client]:
    with connected(library_home, port) as connection:
        yield connection


def test_get_and_post_return_the_same_results_as_a_search_in_this_process(
    library_home: Home, client: httpx.Client
) -> None:
    until(lambda: client.get("/ready").json()["parts"]["meaning"]["ok"])
    query = {"text": "girders", "limit": 5, "now": NOW.isoformat()}
    posted = client.post("/api/v1/search", json=query)
    assert posted.status_code == 200
    assert [hit["item"] for hit in posted.json()["hits"]] == ["Girder.md"]
    assert client.get("/api/v1/search", params=query).json() == posted.json()
    with closing(Ledger.inspect(library_home.database_url)) as ledger:
        meaning = MeaningIndex(ledger)
        for text in ("girders", "rusty support of a crossing", "", "tag:bridge", '"west pier"'):
            results, expected = remote.search(library_home, text, NOW), search(ledger, text, NOW, meaning=meaning)
            assert rounded(results) == rounded(expected)


def rounded(results: Results) -> Results:
    """Return the results with cosines that do not depend on the process that computed them."""
    hits = [hit if hit.cosine is None else replace(hit, cosine=round(hit.cosine, 4)) for hit in results.hits]
    return replace(results, hits=hits)


def test_meaning_is_searched_when_the_model_is_loaded_and_not_when_it_is_off(
    library_home: Home, client: httpx.Client
) -> None:
    paraphrase = {"text": "rusty support of a crossing", "lanes": "meaning"}
    until(lambda: client.get("/ready").json()["parts"]["meaning"]["ok"])
    assert client.post("/api/v1/search", json=paraphrase).json()["hits"][0]["item"] == "Girder.md"
    with closing(Ledger.open(library_home.database_url)) as ledger:
        ledger.embeddings.setting = OFF
        try:
            response = client.post("/api/v1/search", json=paraphrase)
            assert response.status_code == 503
            assert response.json()["error"].startswith("search by meaning: off")
            by_words = client.post("/api/v1/search", json={"text": "girder"}).json()
            assert (by_words["total"], by_words["meaning_off"]) == (1, None)
        finally:
            ledger.embeddings.setting = DEFAULT_MODEL
    assert client.post("/api/v1/search", json=paraphrase).json()["hits"][0]["item"] == "Girder.md"


def test_related_documents_are_those_found_in_this_process(library_home: Home, client: httpx.Client) -> None:
    until(lambda: client.get("/ready").json()["parts"]["meaning"]["ok"])
    with closing(Ledger.inspect(library_home.database_url)) as ledger:
        document = document_named(ledger, "Girder.md")
        expected = related(ledger, document, MeaningIndex(ledger), 5)
    assert client.get("/api/v1/related", params={"document": document.document, "limit": 5}).status_code == 200
    fetched = web_process.fetch(library_home, "/related", RelatedView, document=str(document.document), limit="5")
    assert (fetched, fetched.meaning_off) == (expected, None)
    assert client.get("/api/v1/related", params={"document": 999}).status_code == 404
    assert client.get("/api/v1/related", params={"document": "-1"}).status_code == 400
    assert client.get("/api/v1/related").status_code == 400


@pytest.mark.parametrize(
    "text",
    [
        '"unbalanced',
        'a" OR "b',
        '" OR 1=1 --',
        'title:) OR (body NEAR "x"',
        'NEAR(girder bridge, 2) AND {title body}: ^x* - + "',
        "'; DROP TABLE documents; --",
        "\x00\x01girder\x1b[31m\x7f\u202e",
        "* ** -* OR OR -",
        "girder " * 14_000,
        "x" * 102_400,
        "\U0001f41d蜂" * 10_000,
    ],
)
def test_any_query_is_answered_as_in_this_process(library_home: Home, client: httpx.Client, text: str) -> None:
    response = client.post("/api/v1/search", json={"text": text, "now": NOW.isoformat()})
    assert response.status_code == 200
    with closing(Ledger.inspect(library_home.database_url)) as ledger:
        expected = search(ledger, text, NOW)
    by_words = client.post("/api/v1/search", json={"text": text, "now": NOW.isoformat(), "lanes": "words"})
    assert [hit["document"] for hit in by_words.json()["hits"]] == [hit.document for hit in expected.hits]
    assert client.post("/api/v1/search", json={"text": "girder"}).json()["hits"][0]["item"] == "Girder.md"


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer wrong", "Basic {}", "{}", "Bearer {}x", "Bearer é", "Bearer  {}"]
)
def test_request_without_the_token_is_refused(library_home: Home, port: int, header: str | None) -> None:
    headers = {} if header is None else {b"Authorization": header.format(web_process.token(library_home)).encode()}
    for path in ("/api/v1/search?text=girder", "/api/v1/related", "/api/v1/nowhere", "/api/"):
        response = httpx.get(f"http://127.0.0.1:{port}{path}", headers=headers, trust_env=False)
        assert response.status_code == 401
        assert response.headers["www-authenticate"] == "Bearer"
        assert response.json() == {"error": "token missing or wrong, or one that only pushes"}


def test_request_for_another_protocol_without_the_token_is_refused(port: int) -> None:
    key = {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version": "13"}
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket"} | key
    assert httpx.get(f"http://127.0.0.1:{port}/api/v1/search", headers=upgrade, trust_env=False).status_code == 401


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:{}", ""])
def test_foreign_host_is_refused_even_with_the_token(client: httpx.Client, port: int, host: str) -> None:
    response = client.get("/live", headers={"Host": host.format(port)})
    assert response.status_code == 421


def test_localhost_is_accepted(client: httpx.Client, port: int) -> None:
    assert client.get("/live", headers={"Host": f"localhost:{port}"}).json() == {"live": True}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (json.dumps({"text": "x" * 102_401}).encode(), 413),
        (json.dumps({"text": "é" * 60_000}).encode(), 413),
        (b'{"text": "' + b"x" * 5_000_000 + b'"}', 413),
        (b"", 400),
        (b"{", 400),
        (b"[" * 100_000, 400),
        (b"null", 400),
        (b"\xff\xfe", 400),
        (b'{"text": "\\ud800"}', 400),
        (b"{}", 400),
        (b'{"text": 5}', 400),
        (b'{"text": "x", "limit": 0}', 400),
        (b'{"text": "x", "limit": true}', 400),
        (b'{"text": "x", "limit": 1e300}', 400),
        (b'{"text": "x", "offset": -1}', 400),
        (b'{"text": "x", "now": "2026-01-01T00:00:00"}', 400),
        (b'{"text": "x", "other": 1}', 400),
        (b'{"text": "sorce:notes"}', 400),
        (b'{"text": "source:nope"}', 400),
    ],
)
def test_invalid_body_is_refused_with_the_reason(client: httpx.Client, body: bytes, status: int) -> None:
    response = client.post("/api/v1/search", content=body)
    assert response.status_code == status
    assert response.json()["error"]


def test_body_of_unknown_length_is_cut_off(library_home: Home, client: httpx.Client) -> None:
    def chunks() -> Iterator[bytes]:
        yield b'{"text": "'
        for _ in range(20):
            yield b"x" * 100_000

    # The response may arrive before the whole body was sent, and the connection closes.
    with contextlib.suppress(httpx.TransportError):
        assert client.post("/api/v1/search", content=chunks()).status_code == 413
    assert client.get("/live").status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status"), [("DELETE", "/api/v1/search", 405), ("GET", "/api/v1/", 404), ("POST", "/live", 405)]
)
def test_other_requests_are_refused_in_json(client: httpx.Client, method: str, path: str, status: int) -> None:
    response = client.request(method, path)
    assert (response.status_code, list(response.json())) == (status, ["error"])


def test_odd_bytes_on_the_socket_stop_nothing(client: httpx.Client, port: int) -> None:
    for data in (b"\x16\x03\x01\x02\x00", b"GET /api/v1/search?text=" + b"x" * 1_000_000, b"\r\n" * 100, b""):
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(data)
    assert client.get("/live").status_code == 200


def test_connections_without_a_request_are_closed(client: httpx.Client, port: int) -> None:
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(70)]
        for connection in silent[::2]:
            connection.sendall(b"GET /live HTTP/1.1\r\nHost:")
        assert client.get("/live").status_code == 200
        for connection in silent:
            connection.settimeout(20)
            assert connection.recv(1) == b""


def test_request_that_arrives_slowly_is_closed(library_home: Home, client: httpx.Client, port: int) -> None:
    token = web_process.token(library_home)
    head = f"POST /api/v1/search HTTP/1.1\r\nHost: localhost:{port}\r\nAuthorization: Bearer {token}\r\n"
    live = head.replace("POST /api/v1/search", "GET /live") + "\r\n"
    body = f"{head}Content-Length: 1000\r\n\r\n"
    chunked = f"{head}Transfer-Encoding: chunked\r\n\r\n"
    beginnings = (body, chunked, live + body, live + body + "{", live + head)
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(70)]
        for number, connection in enumerate(slow):
            connection.settimeout(20)
            connection.sendall(beginnings[number % len(beginnings)].encode())

        def drip() -> bool:
            """Send one byte of each request, and return whether the process closed all connections."""
            for connection in [*slow]:
                try:
                    connection.sendall(b"1")
                except OSError:
                    slow.remove(connection)
            return not slow

        until(drip)
    assert client.get("/live").status_code == 200


@pytest.mark.parametrize("origin", ["http://localhost:{}", "http://127.0.0.1:{}"])
def test_page_of_the_process_is_accepted(client: httpx.Client, port: int, origin: str) -> None:
    assert client.get("/live", headers={"Origin": origin.format(port)}).status_code == 200


@pytest.mark.parametrize(
    "origin", ["http://localhost:1", "http://127.0.0.1", "https://127.0.0.1:{}", "http://evil.example:{}", "null", ""]
)
def test_page_of_another_origin_is_refused(client: httpx.Client, port: int, origin: str) -> None:
    assert client.get("/live", headers={"Origin": origin.format(port)}).status_code == 403


def test_queries_and_texts_are_not_logged(library_home: Home, client: httpx.Client, port: int) -> None:
    client.get("/api/v1/search", params={"text": SECRET})
    client.post("/api/v1/search", json={"text": f"sorce:{SECRET}"})
    client.post("/api/v1/search", json={"text": SECRET, "limit": SECRET})
    client.get(f"/{SECRET}")
    httpx.get(f"http://127.0.0.1:{port}/api/v1/search?text={SECRET}", trust_env=False)
    assert SECRET not in (library_home.logs / "web.log").read_text()
    assert SECRET not in client.post("/api/v1/search", json={"text": "x", "limit": SECRET}).text


def test_process_listens_on_loopback_only_and_its_files_are_private(library_home: Home, port: int) -> None:
    listening = {c.laddr.ip for c in psutil.net_connections() if c.status == "LISTEN" and c.laddr.port == port}
    assert listening == {"127.0.0.1"}
    for file in (library_home.path / "web-token", library_home.run / "web.json"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert web_process.token(library_home) not in (library_home.run / "web.json").read_text()


def test_readiness_names_the_part_that_fails(library_home: Home, client: httpx.Client) -> None:
    response = client.get("/ready")
    assert response.status_code == 503
    parts = response.json()["parts"]
    assert parts["ledger"]["ok"]
    assert parts["server"]["reason"] == "no server: started without `catchment up`"
    assert 0 <= parts["ledger"]["age"] < 60


def test_all_is_ready_once_there_is_a_ledger_and_a_server(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    with (
        answering(lambda request: request.send_response_only(200) or request.end_headers()) as other,
        served(home, other) as port,
        connected(home, port) as client,
    ):
        assert client.post("/api/v1/search", json={"text": "girder"}).status_code == 404
        fill(home)
        assert client.get("/ready").status_code == 200
        results = client.post("/api/v1/search", json={"text": "girder"}).json()
        assert (results["total"], "not made yet" in results["meaning_off"]) == (1, True)
        assert main(["search", "girder"]) == 0
        assert "searched by words only; search by meaning: the embeddings are not made yet" in capsys.readouterr().err


@pytest.mark.full
def test_damaged_ledger_is_reported_and_stops_nothing(home: Home) -> None:
    fill(home)
    file = home.path / "ledger.db"
    data = bytearray(file.read_bytes())
    data[8192:] = b"\xff" * (len(data) - 8192)
    file.write_bytes(data)
    with served(home) as port, connected(home, port) as client:
        response = client.post("/api/v1/search", json={"text": SECRET})
        assert response.status_code == 500
        assert "catchment restore FILE" in response.json()["error"]
        assert not client.get("/ready").json()["parts"]["ledger"]["ok"]
        with pytest.raises(PageSilent):
            remote.search(home, SECRET, NOW)
        assert client.get("/live").status_code == 200
    assert SECRET not in (home.logs / "web.log").read_text()


def test_server_that_refuses_events_is_not_ready(home: Home) -> None:
    """The server reports that it is healthy, but answers events with an error, for example without its message broker."""

    def respond(request: BaseHTTPRequestHandler) -> None:
        request.send_response_only(200 if request.command == "GET" else 500)
        request.end_headers()

    fill(home)
    with (
        answering(respond) as other,
        served(home, other) as port,
        connected(home, port) as client,
    ):
        parts = client.get("/ready").json()["parts"]
    assert parts["server"]["ok"]
    assert parts["events"]["reason"] == "the server responded with status 500"


def test_ledger_is_not_ready_while_another_process_locks_it(home: Home) -> None:
    fill(home)
    with closing(sqlite3.connect(home.path / "ledger.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with served(home) as port, connected(home, port) as client:
            parts = until(lambda: client.get("/ready").json()["parts"], lambda parts: not parts["ledger"]["ok"])
            assert parts["ledger"]["reason"] in ("no response within 2 s", "LedgerUnavailable")
            assert not parts["lease"]["ok"]
            other.execute("ROLLBACK")
            until(
                lambda: client.get("/ready").json()["parts"],
                lambda parts: parts["ledger"]["ok"] and parts["lease"]["ok"],
            )
    # The checks leave no lease and no number.
    with closing(Ledger.inspect(home.database_url)) as ledger:
        assert ledger.pacing.places() == []
    with closing(sqlite3.connect(home.path / "ledger.db")) as file:
        assert file.execute("SELECT value FROM counters WHERE name = 'incidents'").fetchone() == (0,)
