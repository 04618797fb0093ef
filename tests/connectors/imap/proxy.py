"""Between a connector and its server: passes lines on, and does harm where a test says so."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

_COMMAND = re.compile(rb"(\S+) (UID \S+|\S+)")

Harm = Callable[["Exchange"], None]


@dataclass
class Exchange:
    """One command of the client, before it is passed on; `number` counts them over all connections."""

    number: int
    tag: bytes
    command: bytes
    line: bytes
    client: socket.socket
    server: socket.socket
    harmed: bool = False

    def answer(self, text: str) -> None:
        """Answer in place of the server."""
        self.harmed = True
        self.client.sendall(text.replace("{tag}", self.tag.decode()).encode() + b"\r\n")

    def cut(self) -> None:
        """Hang up on both."""
        self.harmed = True
        for side in (self.client, self.server):
            with suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)


@dataclass
class Proxy:
    """A proxy on a port of its own. `harm` sees every command; `most` bytes of the answers are passed on, if it is set."""

    target: int
    harm: Harm | None = None
    most: int | None = None
    greeting: bytes | None = None
    commands: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for one in [self._listener, *self._open]:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self.target))
                except ConnectionRefusedError:
                    client.close()
                    continue
                for side in (client, server):
                    # Else each answer in two pieces waits for 40 ms.
                    side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    self._open.append(side)
                if self.greeting is not None:
                    client.sendall(self.greeting)
                    continue
                threading.Thread(target=self._upwards, args=(client, server), daemon=True).start()
                threading.Thread(target=self._downwards, args=(client, server), daemon=True).start()

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
                    server.sendall(line)

    def _downwards(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(65_536):
                if self.most is not None:
                    data, self.most = data[: self.most], max(self.most - len(data), 0)
                client.sendall(data)
                if self.most == 0:
                    self.most = None
                    break
        for side in (client, server):
            with suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)
