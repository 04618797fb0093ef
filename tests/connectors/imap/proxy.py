"""A proxy between a connector and its IMAP server that injects faults."""

from __future__ import annotations

import re
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

_COMMAND = re.compile(rb"(\S+) (UID \S+|\S+)")

Harm = Callable[["Exchange"], None]


@dataclass
class Exchange:
    """A client command before it is forwarded; `number` counts commands over all connections."""

    number: int
    tag: bytes
    command: bytes
    line: bytes
    client: socket.socket
    server: socket.socket
    harmed: bool = False

    def answer(self, text: str) -> None:
        """Answer instead of the server."""
        self.harmed = True
        self.client.sendall(text.replace("{tag}", self.tag.decode()).encode() + b"\r\n")

    def cut(self) -> None:
        """Close both connections."""
        self.harmed = True
        for side in (self.client, self.server):
            with suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)


@dataclass
class Proxy:
    """A proxy on its own port.

    `harm` is called for every command, `translate` for every response line, before they are forwarded. After `most`
    bytes of responses, the connection is closed or, with `stall`, left silent. `tls`: encrypt the client's side.
    """

    target: int
    harm: Harm | None = None
    translate: Callable[[bytes], bytes] = lambda line: line
    most: int | None = None
    stall: bool = False
    tls: ssl.SSLContext | None = None
    greeting: bytes | None = None
    commands: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._begin(self._accept)

    def close(self) -> None:
        for one in [self._listener, *self._open]:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._threads:
            thread.join(timeout=10)

    def _begin(self, task: Callable[..., None], *sides: socket.socket) -> None:
        self._threads.append(threading.Thread(target=task, args=sides, daemon=True))
        self._threads[-1].start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self.tls is not None:
                    try:
                        client = self.tls.wrap_socket(client, server_side=True)
                    except ssl.SSLError:
                        continue  # The client rejects the certificate.
                try:
                    server = socket.create_connection(("127.0.0.1", self.target))
                except ConnectionRefusedError:
                    client.close()
                    continue
                for side in (client, server):
                    # Otherwise each response in two segments is delayed by 40 ms.
                    side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    self._open.append(side)
                if self.greeting is not None:
                    client.sendall(self.greeting)
                    continue
                self._begin(self._upwards, client, server)
                self._begin(self._downwards, client, server)

    def _upwards(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError, ValueError), client.makefile("rb") as lines:
            for line in lines:
                found = _COMMAND.match(line)
                exchange = Exchange(
                    len(self.commands), found[1] if found else b"", found[2] if found else b"", line, client, server
                )
                self.commands.append(exchange.command)
                if self.harm is not None:
                    self.harm(exchange)
                if not exchange.harmed:
                    server.sendall(exchange.line)

    def _downwards(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError, ValueError), server.makefile("rb") as lines:
            for line in lines:
                data = self.translate(line)
                if self.most is not None:
                    data, self.most = data[: self.most], max(self.most - len(data), 0)
                client.sendall(data)
                if self.most == 0:
                    self.most = None
                    if self.stall:
                        # Wait until the client gives up.
                        client.recv(1)
                    break
        for side in (client, server):
            with suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)
