"""Servers of sinks that answer nonsense: each request of each sink ends in time, with one line."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, cast
from uuid import UUID

import pytest

import sinks
from catchment.errors import BadInput, DocumentRefused, SinkUnavailable
from catchment.model import Chunk, ChunkVector, DocumentCopy

_SECONDS = 0.4
_MOST_BYTES = 200_000
_DOCUMENT = DocumentCopy(
    1, "v", "s", "obsidian", "a.md", "A", "text/markdown", None, None, None, None, "Text", {}, {}, (), (), (),
    (Chunk(0, 4),), (ChunkVector(0, 0, "m", (0.5, 0.5)),),
)  # fmt: skip


@dataclass
class _Answers:
    """The responses of a server: nonsense to the request with a number, correct ones to all others."""

    nonsense: Callable[[BaseHTTPRequestHandler], None] | None = None
    at: int = 0
    asked: list[str] = field(default_factory=list)
    elsewhere: int = 0


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    answers: _Answers


class _Chroma(BaseHTTPRequestHandler):
    """The few requests of the sink, answered as Chroma does, for a collection with document 1."""

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        answers = cast(_Server, self.server).answers
        answers.asked.append(self.path)
        if self.path == "/elsewhere":
            answers.elsewhere += 1
        if answers.nonsense is not None and len(answers.asked) > answers.at:
            with suppress(OSError):
                answers.nonsense(self)
        elif self.path.endswith("pre-flight-checks"):
            _json({"max_batch_size": 100})(self)
        elif self.path.endswith("/get"):
            rows = [{"document": 1, "version": "v"}] if json.loads(body)["offset"] == 0 else []
            _json({"metadatas": rows})(self)
        elif self.command == "GET":
            _json({"id": str(UUID(int=1)), "name": "x", "metadata": {"stamp": "s"}, "dimension": 2})(self)
        else:
            _json({"id": str(UUID(int=1))})(self)

    do_GET = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815

    def log_message(self, *_: object) -> None:
        return


def _raw(data: bytes) -> Callable[[BaseHTTPRequestHandler], None]:
    return lambda handler: (handler.wfile.write(data), None)[1]


def _bytes(
    body: bytes, status: str = "200 OK", kind: str = "application/json", more: str = ""
) -> Callable[[BaseHTTPRequestHandler], None]:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n{more}\r\n"
    )
    return _raw(head.encode() + body)


def _json(value: Any) -> Callable[[BaseHTTPRequestHandler], None]:
    return _bytes(json.dumps(value).encode())


def _endless(part: bytes, pause: float, head: bytes = b"HTTP/1.1 200 OK\r\n\r\n") -> Callable[..., None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(head)
        for _ in range(2_000):
            handler.wfile.write(part)
            time.sleep(pause)

    return answer


def _rows(*rows: Any) -> Callable[[BaseHTTPRequestHandler], None]:
    return _json({"metadatas": [*rows]})


def _pages(is_fresh: bool) -> Callable[[BaseHTTPRequestHandler], None]:
    """Full pages for ever, of new documents or of the same."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        first = len(cast(_Server, handler.server).answers.asked) * 1_000 if is_fresh else 0
        _rows(*({"document": first + n + 1, "version": "v"} for n in range(500)))(handler)

    return answer


_KEYS = ("max_batch_size", "metadatas", "metadata", "id", "dimension")
NONSENSE: dict[str, Callable[[BaseHTTPRequestHandler], None]] = {
    "500 with HTML": _bytes(b"<html>failed\n</html>", "500 Internal Server Error", "text/html"),
    "200 with HTML": _bytes(b"<html>Welcome</html>", kind="text/html"),
    "wrong content type": _bytes(b"\x89PNG\r\n\xff\x00", kind="image/png"),
    "400": _bytes(b"", "400 Bad Request"),
    "404": _bytes(b"{}", "404 Not Found"),
    "204": _raw(b"HTTP/1.1 204 No Content\r\n\r\n"),
    "999": _bytes(b"{}", "999 Odd"),
    "101": _raw(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"),
    "no status": _raw(b"HTTP/1.1 abc\r\n\r\n"),
    "garbage": _raw(bytes(range(256)) * 4),
    "wrong length": _raw(b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n{}"),
    "cut": _raw(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"),
    "closed": _raw(b""),
    "redirect": _bytes(b"", "307 Temporary Redirect", more="Location: /elsewhere\r\n"),
    "redirect to another host": _bytes(b"", "302 Found", more="Location: http://127.0.0.2:9/\r\n"),
    "bomb": _bytes(gzip.compress(b" " * 10_000_000 + b"{}"), more="Content-Encoding: gzip\r\n"),
    "deep": _bytes(b"[" * 90_000 + b"]" * 90_000),
    "deep object": _bytes(b'{"id":' * 30_000 + b"1" + b"}" * 30_000),
    "number out of range": _bytes(b"{" + b",".join(b'"%s":1e999' % key.encode() for key in _KEYS) + b"}"),
    "long number": _bytes(b'{"max_batch_size":' + b"9" * 100_000 + b"}"),
    "not a number": _bytes(b'{"max_batch_size": NaN, "dimension": NaN, "metadatas": NaN}'),
    "too large": _bytes(b"[" + b"1," * 200_000 + b"1]"),
    "long header": _bytes(b"{}", more=f"X: {'x' * 500_000}\r\n"),
    "endless body": _endless(b" " * 10_000, 0.0),
    "endless header": _endless(b"X: y\r\n", 0.0, b"HTTP/1.1 200 OK\r\n"),
    "dripping body": _endless(b" ", 0.05),
    "dripping header": _endless(b"x", 0.05, b"HTTP/1.1 200 OK\r\nX: "),
    "silent": _endless(b"", 0.05, b""),
    "endless hints": _endless(b"HTTP/1.1 100 Continue\r\n\r\n", 0.01, b""),
    "endless pages": _pages(is_fresh=True),
    "endless equal pages": _pages(is_fresh=False),
    "too many rows": _rows(*({"document": n + 1, "version": "v"} for n in range(600))),
    "row outside": _rows({"document": 10**30, "version": "v"}),
    "row of text": _rows("x"),
    "row without document": _rows({"version": "v"}),
    "document of text": _rows({"document": "1"}),
    "document of fractions": _rows({"document": 1.5, "version": "v"}),
    "no batch": _json({"max_batch_size": 0}),
    "negative batch": _json({"max_batch_size": -1}),
    "path for an ID": _json({"id": "../../../evil"}),
    "wrong stamp": _json({"id": str(UUID(int=1)), "metadata": {"stamp": [1]}}),
    "wrong metadata": _json({"id": str(UUID(int=1)), "metadata": "x"}),
    **{f"wrong form {each!r}": _json(each) for each in (None, [], {}, "x", 3, True, [[1]], {key: {} for key in _KEYS})},
    **{f"wrong form {key}": _json({key: [None]}) for key in _KEYS},
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Server]:
    """A server of a sink with small limits."""
    monkeypatch.setattr("sinks.chroma._SECONDS", _SECONDS)
    monkeypatch.setattr("sinks.chroma._MOST_BYTES", _MOST_BYTES)
    monkeypatch.setattr("sinks.chroma._MOST_PAGES", 5)
    with _Server(("127.0.0.1", 0), _Chroma) as served:
        thread = Thread(target=served.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield served
        served.shutdown()
        thread.join()


def _used(server: _Server, answers: _Answers) -> None:
    """Use everything that a sink does."""
    server.answers = answers
    with sinks.opened("chroma", f"http://127.0.0.1:{server.server_port}/library") as sink:
        sink.stamp()
        sink.versions(0, 1 << 62)
        sink.write([_DOCUMENT], [2])
        sink.mark("s")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.full) if name.startswith(("silent", "dripping", "endless")) else name
        for name in NONSENSE
    ],
)
def test_nonsense_of_a_server_ends_in_one_line_and_in_time(server: _Server, name: str) -> None:
    _used(server, right := _Answers())
    for at in range(len(right.asked)):
        answers = _Answers(NONSENSE[name], at)
        begin = time.monotonic()
        try:
            _used(server, answers)
        except (SinkUnavailable, DocumentRefused) as error:
            assert "\n" not in str(error)
            assert "127.0.0" not in str(error)
        assert time.monotonic() - begin < 30
        assert answers.elsewhere == 0


def test_request_ends_at_its_limit_of_time(server: _Server) -> None:
    for name in ("dripping body", "dripping header", "silent", "endless hints"):
        begin = time.monotonic()
        with pytest.raises(SinkUnavailable, match="slowly"):
            _used(server, _Answers(NONSENSE[name]))
        assert time.monotonic() - begin < 10 * _SECONDS


def test_unusable_number_of_rows_does_not_lose_documents(server: _Server) -> None:
    """A sink that sends no rows, because the server takes -1 at a time, would call its documents stored."""
    for name in ("no batch", "negative batch", "wrong form {}"):
        with pytest.raises(SinkUnavailable, match="format"):
            _used(server, _Answers(NONSENSE[name]))


@pytest.mark.parametrize("place", ["http://[::1", "http:///library", "http://h:99999/library", "http://a b/library"])
def test_unusable_address_is_refused_in_one_line(place: str) -> None:
    with pytest.raises((BadInput, SinkUnavailable)), sinks.opened("chroma", place):
        pass
    with suppress(BadInput):
        sinks.host_elsewhere("chroma", place)
