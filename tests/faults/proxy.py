"""A proxy between the Prefect server and its clients that forwards bytes and injects faults."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_BUSY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_EVENTS = re.compile(rb"GET \S*/events/(in|out) ")
_MOST = 65_536


@dataclass(frozen=True, slots=True)
class Harm:
    """A fault for clients. `slow`: seconds before each response. `cut`: one of this many responses is truncated.

    `busy`: each request gets status 503. `silent`: no responses. `refused`: connections are refused. `deaf`: event
    streams are unavailable.
    """

    slow: float = 0
    cut: int = 0
    busy: bool = False
    silent: bool = False
    refused: bool = False
    deaf: bool = False


class Proxy:
    """A proxy on a fixed port. `target` is an unused port for the server."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.target: int = free.getsockname()[1]
        self.harmed = 0
        """The total number of affected connections and responses."""
        self._harm = Harm()
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._answers = 0
        self._listen(0)

    @property
    def url(self) -> str:
        """Return the proxy's address."""
        return f"http://127.0.0.1:{self._port}"

    @contextlib.contextmanager
    def doing(self, harm: Harm) -> Iterator[None]:
        """Inject a fault into existing connections and new requests within the block."""
        self._harm = harm
        if harm.refused:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
        self._hang_up()
        try:
            yield
        finally:
            self._harm = Harm()
            if harm.refused:
                self._listen(self._port)
            self._hang_up()

    def close(self) -> None:
        """Stop listening and close all connections."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._hang_up()

    def _listen(self, port: int) -> None:
        self._listener = socket.create_server(("127.0.0.1", port))
        self._port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _hang_up(self) -> None:
        with self._lock:
            there, self._open = self._open, set()
        for one in there:
            _end(one)

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                with self._lock:
                    self._open.add(client)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client:
            harm, question = self._harm, _question(client)
            if harm.silent:
                self.harmed += 1
                # Wait until the client disconnects or the fault ends.
                client.recv(_MOST)
            elif harm.busy:
                self.harmed += 1
                client.sendall(_BUSY)
            elif harm.deaf and _EVENTS.match(question):
                self.harmed += 1
            elif question:
                self._pass_on(client, question)
        with self._lock:
            self._open.discard(client)

    def _pass_on(self, client: socket.socket, question: bytes) -> None:
        with socket.create_connection(("127.0.0.1", self.target)) as server:
            for side in (client, server):
                side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            server.sendall(question)
            threading.Thread(target=self._down, args=(server, client), daemon=True).start()
            with contextlib.suppress(OSError):
                while data := client.recv(_MOST):
                    server.sendall(data)
            _end(server)

    def _down(self, server: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(_MOST):
                harm = self._harm
                self._answers += 1
                if harm.slow:
                    self.harmed += 1
                    time.sleep(harm.slow)
                if harm.cut and self._answers % harm.cut == 0:
                    self.harmed += 1
                    client.sendall(data[: len(data) // 2])
                    break
                client.sendall(data)
        _end(client)


def _question(client: socket.socket) -> bytes:
    """Return the first complete request of a connection."""
    said = b""
    while b"\r\n\r\n" not in said:
        if not (data := client.recv(_MOST)):
            return said
        said += data
    head, _, body = said.partition(b"\r\n\r\n")
    length = _LENGTH.search(head)
    missing = int(length[1]) - len(body) if length else 0
    while missing > 0 and (data := client.recv(_MOST)):
        said += data
        missing -= len(data)
    return said


def _end(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
