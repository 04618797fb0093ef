"""Waiting for a run while the server is unreachable or fails."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from catchment.errors import TryAgain
from deployments.runs import runs
from deployments.server.running import Running

_NOBODY = 1 << 30
_RUN = b'{"id": "1", "name": "papers: 1", "state": {"type": "COMPLETED", "name": "Completed", "message": ""}}'


class _Server(ThreadingHTTPServer):
    away = 0
    """Number of requests without a response."""
    fails = 0
    """Number of requests with an internal error as the response."""


class _Answer(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        if self.server.away:
            self.server.away -= 1
            self.close_connection = True
            return
        self.send_response(500 if self.server.fails else 200)
        self.server.fails -= self.server.fails > 0
        self.send_header("Content-Length", str(len(_RUN)))
        self.end_headers()
        self.wfile.write(_RUN)

    def log_message(self, *_: object) -> None:
        """Discard log messages."""


@pytest.fixture
def server() -> Iterator[_Server]:
    with _Server(("127.0.0.1", 0), _Answer) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def state(server: _Server) -> Running:
    return Running(server.server_address[1], os.getpid(), datetime.now(UTC), 0, 0, "ada:")


def test_wait_survives_an_unreachable_server(server: _Server, state: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    server.away = 2
    assert runs.wait(state, "1").state_name == "Completed"
    server.away = 1_000
    with pytest.raises(TryAgain, match="does not respond"):
        runs.wait(replace(state, pid=_NOBODY), "1")
    monkeypatch.setattr(runs, "_SILENCE", 0.1)
    with pytest.raises(TryAgain, match="does not respond"):
        runs.wait(state, "1")


def test_wait_survives_server_errors(server: _Server, state: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    server.fails = 2
    assert runs.wait(state, "1").state_name == "Completed"
    server.fails = 1_000
    monkeypatch.setattr(runs, "_SILENCE", 0.1)
    with pytest.raises(TryAgain, match="status 500"):
        runs.wait(state, "1")
