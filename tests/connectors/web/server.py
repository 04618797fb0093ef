"""A web of many hosts on loopback: pages with versions, delays, refusals, and a record of every request.

Hosts have separate addresses (127.0.1.1, 127.0.1.2, …) with one port, so that any process reaches them without a resolver.
`add_name` adds a host that is addressed by name; its client resolves the name with `SmallWeb.resolve`.
"""

from __future__ import annotations

import asyncio
import hashlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from itertools import pairwise
from typing import Self


@dataclass(frozen=True)
class Page:
    """The response to a path. The ETag is made of the body unless `etag` is given ("" for none).

    Attributes:
        delay: Seconds before the response.
        trickle: Seconds after each byte of the body, or of `raw`.
        raw: The whole response as it is sent, instead of all other attributes.
    """

    body: bytes = b""
    media_type: str = "text/html; charset=utf-8"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    etag: str | None = None
    modified: str | None = None
    delay: float = 0.0
    trickle: float = 0.0
    raw: bytes | None = None

    @classmethod
    def of(cls, text: str, media_type: str = "text/html; charset=utf-8") -> Page:
        return cls(text.encode(), media_type)

    @classmethod
    def moved(cls, location: str, status: int = 301) -> Page:
        return cls(status=status, headers={"Location": location}, etag="")

    @property
    def tag(self) -> str:
        return f'"{hashlib.sha256(self.body).hexdigest()[:16]}"' if self.etag is None else self.etag


@dataclass(frozen=True)
class Request:
    """A request that a host received. `at`: monotonic seconds. Header names are in lower case."""

    at: float
    path: str
    status: int
    headers: Mapping[str, str]

    @property
    def is_conditional(self) -> bool:
        return "if-none-match" in self.headers or "if-modified-since" in self.headers


@dataclass
class Host:
    """One host: its pages by path (with the query), and the requests to it.

    Attributes:
        name: As in an address, with the port.
        always: The response to every path, if set. May be changed between requests.
        make: Makes the page of a path that is not in `pages`; None is "not found".
    """

    name: str
    pages: dict[str, Page] = field(default_factory=dict)
    always: Page | None = None
    make: Callable[[str], Page | None] | None = None
    requests: list[Request] = field(default_factory=list)
    scheme: str = "http"

    def address(self, path: str = "/") -> str:
        return f"{self.scheme}://{self.name}{path}"

    def put(self, path: str, text: str, media_type: str = "text/html; charset=utf-8") -> str:
        """Set the text of a page and return its address."""
        self.pages[path] = Page.of(text, media_type)
        return self.address(path)

    def change(self, path: str, text: str) -> None:
        self.pages[path] = replace(self.pages[path], body=text.encode())

    def answer(self, path: str) -> Page:
        page = self.always or self.pages.get(path) or (self.make(path) if self.make else None)
        return page or Page(b"not found", "text/plain", status=404, etag="")

    @property
    def paths(self) -> list[str]:
        return [request.path for request in self.requests]

    def shortest_gap(self) -> float:
        """Return the shortest time between two requests, in seconds."""
        times = sorted(request.at for request in self.requests)
        return min((b - a for a, b in pairwise(times)), default=float("inf"))


class SmallWeb:
    """The hosts and the thread that serves them. Use as a context manager."""

    def __init__(self, hosts: int = 1) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._tasks: set[asyncio.Task[None]] = set()
        self._by_name: dict[str, Host] = {}
        self._at: dict[str, str] = {}
        self._listening: list[asyncio.Server] = []
        self.port = 0
        self.hosts: list[Host] = []
        self._number = hosts

    def __enter__(self) -> Self:
        self._thread.start()
        for _ in range(self._number):
            self.add()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def add(self, tls: ssl.SSLContext | None = None) -> Host:
        """Add a host that serves."""
        host = self._new()
        address = host.name.partition(":")[0] if self.port else "127.0.1.1"
        server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._serve, address, self.port, ssl=tls), self._loop
        ).result(10)
        self._listening.append(server)
        self.port = server.sockets[0].getsockname()[1]
        host.name = f"{address}:{self.port}"
        host.scheme = "https" if tls else "http"
        self._by_name[host.name] = host
        return host

    def dead(self) -> Host:
        """Add a host that refuses connections."""
        return self._new()

    def add_name(self, name: str, host: Host | None = None) -> Host:
        """Add a host that is known by name, at the address of the first one; or a name of `host`, with its pages."""
        new_host = Host(f"{name}:{self.port}") if host is None else replace(host, name=f"{name}:{self.port}")
        self._by_name[new_host.name] = new_host
        self._at[name] = host.name.partition(":")[0] if host else "127.0.1.1"
        return new_host

    def resolve(self, name: str, port: int) -> list[str]:
        """Resolve names of hosts of this web, and IP addresses."""
        if name not in self._at and not name.startswith("127."):
            raise socket.gaierror(socket.EAI_NONAME, "unknown name")
        return [self._at.get(name, name)]

    @property
    def requests(self) -> list[Request]:
        """All requests of all hosts, by time."""
        return sorted((r for host in self._by_name.values() for r in host.requests), key=lambda request: request.at)

    def _new(self) -> Host:
        number = len(self.hosts)
        host = Host(f"127.0.{1 + number // 250}.{1 + number % 250}:{self.port}")
        self.hosts.append(host)
        return host

    # Serving

    async def _end(self) -> None:
        for server in self._listening:
            server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._tasks.add(task)
        try:
            while await self._answer_request(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort() if task.cancelling() else writer.close()

    async def _answer_request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request. Returns whether the connection stays open."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        arrival = time.monotonic()
        path = head[0].split(" ")[1]
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        host = self._by_name.get(headers.get("host", ""))
        page = host.answer(path) if host else Page(status=421, etag="")
        is_same = page.status == 200 and page.raw is None and _is_same(page, headers)
        status = 304 if is_same else page.status
        if host:
            host.requests.append(Request(arrival, path, status, headers))
        if page.delay:
            await asyncio.sleep(page.delay)
        if page.raw is not None:
            await _send(writer, page.raw, page.trickle)
            return False
        body = b"" if is_same else page.body
        lines = [f"HTTP/1.1 {status} X", f"Content-Type: {page.media_type}"]
        lines += [f"ETag: {page.tag}"] if page.tag else []
        lines += [f"Last-Modified: {page.modified}"] if page.modified else []
        lines += [f"{name}: {value}" for name, value in page.headers.items()]
        if status != 304 and "Content-Length" not in page.headers:
            lines.append(f"Content-Length: {len(body)}")
        writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
        await _send(writer, body, page.trickle)
        return "Content-Length" not in page.headers


async def _send(writer: asyncio.StreamWriter, data: bytes, trickle: float) -> None:
    for part in [data[i : i + 1] for i in range(len(data))] if trickle else [data]:
        writer.write(part)
        await writer.drain()
        await asyncio.sleep(trickle)


def _is_same(page: Page, headers: Mapping[str, str]) -> bool:
    """RFC 9110, 13.2.2: If-None-Match is compared weakly, and If-Modified-Since counts without it only."""
    if "if-none-match" in headers:
        return bool(page.tag) and headers["if-none-match"].removeprefix("W/") == page.tag.removeprefix("W/")
    if page.modified and "if-modified-since" in headers:
        return parsedate_to_datetime(page.modified) <= parsedate_to_datetime(headers["if-modified-since"])
    return False
