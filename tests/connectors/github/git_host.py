"""A git server on this machine: `git http-backend` behind a small HTTP server that injects failures."""

from __future__ import annotations

import base64
import gzip
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from tests.connectors.github.repository import Repository


class GitHost:
    """Repositories by name, over HTTP on loopback."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.requests: list[str] = []
        """The received requests, in order: command and path."""
        self.token: str | None = None
        """The token required for access, if any."""
        self.logins: list[str] = []
        """Every received Authorization header."""
        self.moved_to = ""
        """If set, every request is redirected there."""
        self.status: int | None = None
        """If set, every request fails with this status."""
        self.cut_after: int | None = None
        """If set, the connection is closed after this many bytes of a pack."""
        self.hold = threading.Event()
        """Packs are delayed while this is not set."""
        self.hold.set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """The server's URL."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def publish(self, name: str, repository: Repository) -> None:
        """Serve a repository as `owner/name`."""
        repository.git("config", "uploadpack.allowFilter", "true")
        path = self.folder / f"{name}.git"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(repository.path / ".git")

    def withdraw(self, name: str) -> None:
        """Stop serving a repository."""
        (self.folder / f"{name}.git").unlink()

    def fetches(self) -> int:
        """Return the number of packs requested since the last call."""
        count = sum("fetch" in request for request in self.requests)
        self.requests.clear()
        return count

    def stop(self) -> None:
        """Shut down the server."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def hosting(folder: Path) -> Iterator[GitHost]:
    """Run a server for the repositories in this folder."""
    host = GitHost(folder)
    try:
        yield host
    finally:
        host.stop()


def _handler(host: GitHost) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(b"")

        def do_POST(self) -> None:
            self._answer(self.rfile.read(int(self.headers.get("Content-Length", 0))))

        def log_message(self, *_: object) -> None:
            """Discard log messages."""

        def _answer(self, body: bytes) -> None:
            plain = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
            command = "fetch" if b"command=fetch" in plain else "refs"
            host.requests.append(f"{command} {urlsplit(self.path).path}")
            host.logins.extend(self.headers.get_all("Authorization", []))
            if host.moved_to:
                return self._respond(301, {"Location": host.moved_to + self.path}, b"")
            if host.status is not None:
                return self._respond(host.status, {}, b"no")
            if host.token is not None and self.headers.get("Authorization") != _login(host.token):
                return self._respond(401, {"WWW-Authenticate": 'Basic realm="git"'}, b"")
            if command == "fetch":
                host.hold.wait(60)
            status, headers, output = _backend(host.folder, self, body)
            if command == "fetch" and host.cut_after is not None:
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(output))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(output[: host.cut_after])
                self.connection.close()
                return None
            return self._respond(status, headers, output)

        def _respond(self, status: int, headers: dict[str, str], output: bytes) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(output))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(output)

    return Handler


def _login(token: str) -> str:
    return "Basic " + base64.b64encode(f"x-access-token:{token}".encode()).decode()


def _backend(folder: Path, request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, dict[str, str], bytes]:
    """Run git's CGI program; return status, headers and body."""
    path = urlsplit(request.path)
    done = subprocess.run(
        ["git", "http-backend"],
        env={
            **os.environ,
            "GIT_PROJECT_ROOT": str(folder),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path.path,
            "QUERY_STRING": path.query,
            "REQUEST_METHOD": request.command,
            "CONTENT_TYPE": request.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": request.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": request.headers.get("Git-Protocol", ""),
            "REMOTE_ADDR": "127.0.0.1",
        },
        input=body,
        capture_output=True,
        check=False,
    )
    head, _, output = done.stdout.partition(b"\r\n\r\n")
    headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
    return int(headers.pop("Status", "200").split()[0]), headers, output
