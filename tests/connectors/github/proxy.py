"""A proxy between a connector and a GitHub API server: adds ETags and a rate limit, and injects faults."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import json
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

_HOP = {"connection", "transfer-encoding", "content-length", "etag", "date", "server", "keep-alive"}


@dataclass
class Exchange:
    """A request and its response, which harm may change; `number` counts requests."""

    number: int
    path: str
    request_headers: dict[str, str]
    status: int
    headers: dict[str, str]
    body: bytes
    length: int | None = None
    cut_after: int | None = None

    def cut(self, after: int = 0) -> None:
        """Disconnect after this many bytes of the body; with 0, without a response."""
        self.cut_after = after

    def respond(self, status: int, body: bytes | dict[str, Any] = b"", **headers: str) -> None:
        """Replace the response; underscores in header names become hyphens."""
        self.status = status
        self.headers = {"Content-Type": "application/json"} if isinstance(body, dict) else {"Content-Type": "text/html"}
        self.headers |= {name.replace("_", "-"): value for name, value in headers.items()}
        self.body = json.dumps(body).encode() if isinstance(body, dict) else body


Harm = Callable[[Exchange], None]


@dataclass
class Proxy:
    """A proxy on its own port. `harm` may change every response; `limit` is the number of requests per hour."""

    target: int
    prefix: str = ""
    git: int | None = None
    """The port that receives every request outside the API."""
    harm: Harm | None = None
    limit: int = 5_000
    used: int = 0
    resets: float = field(default_factory=lambda: time.time() + 3_000)
    paths: list[str] = field(default_factory=list)
    free: int = 0
    sent: int = 0

    def __post_init__(self) -> None:
        self._counting = threading.Lock()
        self.open: set[socket.socket] = set()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self._http.handle_error = lambda *_: None  # type: ignore[method-assign]
        self.port = int(self._http.server_address[1])
        self.address = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        for connection in list(self.open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def forget(self) -> None:
        """Reset the counters."""
        self.paths.clear()
        self.free = self.sent = self.used = 0

    def handle(self, path: str, request_headers: dict[str, str]) -> Exchange:
        """Forward a request."""
        with self._counting:
            number = len(self.paths)
            self.paths.append(path)
        if path.endswith("/rate_limit"):
            core = {"limit": self.limit, "remaining": self.limit - self.used, "reset": int(self.resets)}
            body = json.dumps({"resources": {"core": core}}).encode()
            exchange = Exchange(number, path, request_headers, 200, {"Content-Type": "application/json"}, body)
        else:
            exchange = self._passed_on(number, path, request_headers)
        if self.harm is not None:
            self.harm(exchange)
        return exchange

    def _passed_on(self, number: int, path: str, request_headers: dict[str, str]) -> Exchange:
        if self.used >= self.limit:
            exchange = Exchange(number, path, request_headers, 403, {}, b"")
            exchange.respond(403, {"message": "API rate limit exceeded"}, **self._rate())
            return exchange
        connection = http.client.HTTPConnection("127.0.0.1", self.target, timeout=20)
        try:
            passed = {
                name: value
                for name, value in request_headers.items()
                if name.lower() in ("authorization", "accept", "host")
            }
            connection.request("GET", path.removeprefix(self.prefix), headers=passed)
            response = connection.getresponse()
            body = response.read()
        finally:
            connection.close()
        headers = {name: value for name, value in response.getheaders() if name.lower() not in _HOP}
        etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        status = response.status
        if status == 200:
            headers["ETag"] = f"W/{etag}"
            known = request_headers.get("if-none-match", "").removeprefix("W/")
            if known == etag:
                # GitHub formats the ETag of a 304 differently.
                status, body, headers["ETag"] = 304, b"", etag
        with self._counting:
            self.free += status == 304
            self.used += status != 304
            self.sent += len(body)
        return Exchange(
            number,
            path,
            request_headers,
            status,
            headers | {k.replace("_", "-"): v for k, v in self._rate().items()},
            body,
        )

    def _rate(self) -> dict[str, str]:
        return {
            "x_ratelimit_limit": str(self.limit),
            "x_ratelimit_remaining": str(max(0, self.limit - self.used)),
            "x_ratelimit_reset": str(int(self.resets)),
            "x_ratelimit_resource": "core",
        }


def _handler(proxy: Proxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm: ClassVar[bool] = True

        def setup(self) -> None:
            super().setup()
            proxy.open.add(self.connection)

        def finish(self) -> None:
            proxy.open.discard(self.connection)
            with suppress(OSError):
                super().finish()

        def do_POST(self) -> None:
            self._pass_to_git(self.rfile.read(int(self.headers.get("Content-Length", 0))))

        def _pass_to_git(self, body: bytes) -> None:
            assert proxy.git is not None
            connection = http.client.HTTPConnection("127.0.0.1", proxy.git, timeout=20)
            connection.request(self.command, self.path, body, dict(self.headers.items()))
            response = connection.getresponse()
            body = response.read()
            connection.close()
            self.send_response(response.status)
            for name, value in response.getheaders():
                if name.lower() not in _HOP:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            if proxy.git is not None and not self.path.startswith("/api/"):
                return self._pass_to_git(b"")
            request_headers = {name.lower(): value for name, value in self.headers.items()}
            exchange = proxy.handle(self.path, request_headers)
            if exchange.cut_after == 0:
                return self._hang_up()
            body = exchange.body
            if (
                "gzip" in request_headers.get("accept-encoding", "")
                and len(body) > 1_000
                and exchange.cut_after is None
            ):
                body, exchange.headers["Content-Encoding"] = gzip.compress(body, 1), "gzip"
            self.send_response_only(exchange.status)
            self.send_header("Date", formatdate(usegmt=True))
            for name, value in exchange.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body) if exchange.length is None else exchange.length))
            self.end_headers()
            self.wfile.write(body if exchange.cut_after is None else body[: exchange.cut_after])
            if exchange.cut_after is not None or exchange.length is not None:
                self._hang_up()
            return None

        def _hang_up(self) -> None:
            self.close_connection = True
            with suppress(OSError):
                # A reset, as when a device in between drops the connection.
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.wfile.flush()
                self.connection.close()

        def log_message(self, *_: Any) -> None:
            """Discard log messages."""

    return Handler
