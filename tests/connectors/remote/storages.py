"""Storages for tests: rclone's configuration in a home of its own, and rclone's own servers on loopback."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from connectors.rclone import RcloneRemote, RemoteSettings
from tests.waiting import until

RCLONE = Path(sys.executable).with_name("rclone")
USER, PASSWORD = "ada-the-first", "a-password-of-20-letters"
SERVERS = ("webdav", "sftp", "s3")


def configure(patch: pytest.MonkeyPatch, home: Path, **remotes: Mapping[str, str]) -> Path:
    """Make `home` the home of this process, with remotes by their settings; return the file of rclone's configuration."""
    patch.setenv("HOME", str(home))
    file = home / ".config" / "rclone" / "rclone.conf"
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"[{name}]\n" + "".join(f"{key} = {value}\n" for key, value in of.items()) for name, of in remotes.items()]
    file.write_text("\n".join(lines))
    return file


def remote(of: str = "box:", log: Callable[[str], None] | None = None, **settings: Any) -> RcloneRemote:
    """Return the connector for a remote."""
    made = RcloneRemote(RemoteSettings(remote=of, **settings))
    if log is not None:
        made.log = log  # type: ignore[method-assign]
    return made


def settings_of(server: str, port: int) -> Mapping[str, str]:
    """Return the settings of a remote for a server on this machine."""
    obscured = subprocess.run([RCLONE, "obscure", PASSWORD], capture_output=True, text=True, check=True).stdout.strip()
    address, login = f"http://127.0.0.1:{port}", {"user": USER, "pass": obscured}
    return {
        "webdav": {"type": "webdav", "url": address, "vendor": "other", **login},
        "sftp": {"type": "sftp", "host": "127.0.0.1", "port": str(port), **login},
        "s3": {
            "type": "s3",
            "provider": "Other",
            "endpoint": address,
            "access_key_id": USER,
            "secret_access_key": PASSWORD,
        },
    }[server]


@contextmanager
def serving(server: str, folder: Path) -> Iterator[int]:
    """Serve a folder by rclone, for S3 each folder in it as a bucket. Yields the port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    login = ("--auth-key", f"{USER},{PASSWORD}") if server == "s3" else ("--user", USER, "--pass", PASSWORD)
    command = [RCLONE, "serve", server, folder, "--addr", f"127.0.0.1:{port}", *login, "--dir-cache-time", "0"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            until(lambda: _listens(port), seconds=30)
            yield port
        finally:
            process.kill()


@contextmanager
def answering(status: int, **headers: str) -> Iterator[int]:
    """Answer each request over HTTP with a status. Yields the port."""

    class Handler(BaseHTTPRequestHandler):
        def handle_one_request(self) -> None:
            self.raw_requestline = self.rfile.readline(65_537)
            if self.raw_requestline and self.parse_request():
                self.send_response(status)
                for name, value in {"Content-Length": "0", "Connection": "close", **headers}.items():
                    self.send_header(name.replace("_", "-"), value)
                self.end_headers()
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()


class Wire:
    """A proxy for any protocol, on a port of its own. Its faults apply to what passes from now on.

    Attributes:
        most: Bytes of responses after which connections are closed or, with `stall`, left silent.
        slow: Seconds before each piece of a response.
        requests: Requests over HTTP so far. From the one with the number `fails`, they are answered with `failure`, or not.
    """

    def __init__(self, target: int) -> None:
        self.most: int | None = None
        self.stall = False
        self.slow = 0.0
        self.requests = 0
        self.fails: int | None = None
        self.failure = b""
        self._target = target
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for each in (self._listener, *self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                self._open += (client, server)
                for of in (self._upwards, self._downwards):
                    Thread(target=of, args=(client, server), daemon=True).start()

    def _upwards(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(65_536):
                self.requests += data.startswith((b"PROPFIND ", b"GET "))
                if self.fails is not None and self.requests > self.fails:
                    client.sendall(self.failure)
                    break
                server.sendall(data)
        self._end(client, server)

    def _downwards(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(65_536):
                time.sleep(self.slow)
                if self.most is not None:
                    data, self.most = data[: self.most], max(self.most - len(data), 0)
                client.sendall(data)
                if self.most == 0:
                    if self.stall:
                        client.recv(1)
                    break
        self._end(client, server)

    def _end(self, *sides: socket.socket) -> None:
        for side in sides:
            with suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
