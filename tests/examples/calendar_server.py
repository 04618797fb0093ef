"""A CalDAV server on loopback: Radicale, behind HTTP with faults."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import httpx
import radicale
from radicale.config import load

USER, PASSWORD = "ada", "weir"

Answer = tuple[str, bytes]
"""Status line and body."""


class CalendarServer:
    """Radicale with one user. `harm` may answer a request, by method and path, in its place."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        (folder / "users").write_text(f"{USER}:{PASSWORD}\n")
        settings = {
            "auth": {
                "type": "htpasswd",
                "htpasswd_filename": str(folder / "users"),
                "htpasswd_encryption": "plain",
                "delay": 0,
            },
            "storage": {"filesystem_folder": str(folder / "collections"), "_filesystem_fsync": False},
            "logging": {"level": "critical"},
        }
        configuration = load()
        configuration.update(settings, "test", privileged=True)
        self._radicale = radicale.Application(configuration)
        self.requests: list[str] = []
        self.harm: Callable[[str, str], Answer | None] = lambda _method, _path: None
        self._server = make_server("127.0.0.1", 0, self._answer, _Threads, _Quiet)
        self.address = f"http://127.0.0.1:{self._server.server_port}/{USER}/"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def add_calendar(self, name: str) -> None:
        self._request("MKCALENDAR", f"{name}/")

    def put(self, name: str, uid: str, title: str, kind: str = "VEVENT") -> None:
        """Store an event or a task, such as `garden/eggs.ics`."""
        start = "DTSTART:20261130T090000Z\r\nDTEND:20261130T100000Z\r\n" if kind == "VEVENT" else ""
        entry = f"BEGIN:{kind}\r\nUID:{uid}\r\nDTSTAMP:20261101T000000Z\r\n{start}SUMMARY:{title}\r\nEND:{kind}\r\n"
        calendar = f"BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:test\r\n{entry}END:VCALENDAR\r\n"
        self._request("PUT", name, calendar, {"Content-Type": "text/calendar"})

    def delete(self, name: str) -> None:
        self._request("DELETE", name)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _request(self, method: str, name: str, body: str = "", headers: dict[str, str] | None = None) -> None:
        address = f"{self.address}{name}"
        with httpx.Client(trust_env=False, auth=(USER, PASSWORD)) as client:
            client.request(method, address, content=body.encode(), headers=headers).raise_for_status()
        self.requests.clear()

    def _answer(self, environment: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        method, path = environment["REQUEST_METHOD"], environment["PATH_INFO"]
        self.requests.append(f"{method} {path}")
        if (answer := self.harm(method, path)) is None:
            answered: Iterable[bytes] = self._radicale(environment, start)
            return answered
        start(answer[0], [("Content-Length", str(len(answer[1])))])
        return [answer[1]]


class _Threads(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    def get_environ(self) -> dict[str, Any]:
        return {**super().get_environ(), "PATH_INFO": unquote(self.path.partition("?")[0])}  # as Radicale's own server

    def log_message(self, *_: Any) -> None:
        """Discard log messages."""
