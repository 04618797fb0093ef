"""A server for this machine, and the checks of every request: host, origin, size, time and sender."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

import h11
import uvicorn
from jinja2 import UndefinedError
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from catchment.runtime import own_secrets
from web.peers import peer_of

PEER = "peer"
"""Key of the sender in the state of a request, as `peer_of` returns it."""
PATIENCE = "patience"
"""Key of the function in the state of a request that gives its body more seconds to arrive."""
ANY_SIZE = "any-size"
"""Key in the scope of a request whose handler limits the size of its body."""
_EXTENSIONS = (b"chrome-extension://", b"moz-extension://", b"safari-web-extension://")
"""Origins of the add-ons of browsers, which may push with a token."""
QUERY_BYTES = 102_400
"""Maximum size of a query."""
_HEADER_BYTES = 4 * QUERY_BYTES
"""Maximum size of a request line with its headers. Each byte of a query takes up to three in an address."""
_BODY_BYTES = 8 * QUERY_BYTES
"""Maximum size of a body. Each byte of a query takes up to six in JSON."""
_TOO_LARGE = "too large"
_CLOSING = {"Connection": "close"}
_CONNECTIONS = 128
"""Most open connections. For another one, one of the user with the most connections is closed."""
_REQUEST_SECONDS = 2.0
"""Time in which each request must arrive, with its body."""


_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "frame-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    # With `no-referrer`, browsers send `Origin: null` with the forms of our own pages.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cache-Control": "no-store",
}
"""Headers of every response that does not set them itself."""

_PROJECT = f"{Path(__file__).parents[1]}{os.sep}"
_ROOMS = tuple(f"{_PROJECT}{room}{os.sep}" for room in ("catchment", "deployments", "web"))
_NAMES = re.compile(r"'([A-Za-z_]\w*)'")

Check = Callable[[Scope], ASGIApp | None]
"""Returns the refusal of a request, or None if the sender may make it."""


def serve(
    app: ASGIApp,
    check: Check,
    sockets: Sequence[socket.socket],
    on_stop: Callable[[], None] = lambda: None,
    host: str = "",
) -> None:
    """Serve an application until a signal. Calls `on_stop` at the signal, before it waits for open responses to end.

    `sockets`: with one port. `host`: of other requests than those for the loopback interface that are permitted.
    """
    config = uvicorn.Config(
        Guard(app, check, sockets[0].getsockname()[1], host),
        # Neither may contain a query.
        access_log=False,
        # A header must not change the recorded sender of a request.
        proxy_headers=False,
        server_header=False,
        log_level="warning",
        lifespan="on",
        http=_Connection,
        ws="none",
        h11_max_incomplete_event_size=_HEADER_BYTES,
        # As many are accepted at once, before any is closed: fewer than the descriptors that a process may have.
        backlog=_CONNECTIONS,
        timeout_graceful_shutdown=1,
    )
    # asyncio sets it only for sockets that name their protocol. Without it, a response with a body takes 40 ms more.
    for listener in sockets:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    _Server(config, on_stop).run(sockets=list(sockets))


def bearer(token: str) -> Check:
    """Return a check that admits only requests with this token."""

    def refusal(scope: Scope) -> ASGIApp | None:
        if own_secrets.is_bearer(dict(scope["headers"]).get(b"authorization", b""), token):
            return None
        return error(
            401,
            "token missing or wrong, or one that only pushes",
            {"WWW-Authenticate": "Bearer", **_CLOSING},
        )

    return refusal


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, on_stop: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_stop = on_stop

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._on_stop()
        super().handle_exit(sig, frame)


class _Connection(H11Protocol):
    """A connection that is closed unless a whole request arrives in time, after its start and after each response."""

    _limit: asyncio.TimerHandle | None = None
    _opened = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._opened = self.loop.time()
        peer = peer_of(transport.get_extra_info("socket"))
        self.app_state = {**self.app_state, PEER: peer, PATIENCE: self._wait_longer}
        self._limit_request()
        if len(self.connections) > _CONNECTIONS:
            self._make_room()

    def _make_room(self) -> None:
        """Close the oldest connection without a request of the user with the most, so that no user keeps the others out."""
        connections = [connection for connection in self.connections if isinstance(connection, _Connection)]
        ((largest, _),) = Counter(connection.app_state[PEER] for connection in connections).most_common(1)
        crowd = [connection for connection in connections if connection.app_state[PEER] == largest]
        oldest = min(crowd, key=lambda connection: (connection._limit is None, connection._opened))
        # Its end is reported later, and must not be counted until then.
        self.connections.discard(oldest)
        oldest.transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._limit_request()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._limit_request()

    def _limit_request(self) -> None:
        is_arriving = self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
        if is_arriving and self._limit is None:
            self._limit = self.loop.call_later(_REQUEST_SECONDS, self.transport.close)
        elif not is_arriving and self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def _wait_longer(self, seconds: float) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = self.loop.call_later(seconds, self.transport.close)


class Guard:
    """An ASGI application that passes permitted requests to another, and reports its errors without their content."""

    def __init__(self, app: ASGIApp, check: Check, port: int, host: str = "") -> None:
        self._app = app
        self._check = check
        self._hosts = {b"127.0.0.1:%d" % port, b"localhost:%d" % port, *filter(None, [host.encode()])}
        self._origins = {None, *(b"http://%b" % host for host in self._hosts)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a connection, as ASGI requires."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif refusal := self._refusal(scope):
            await refusal(scope, receive, send_with_headers)
        else:
            await self._answer(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> ASGIApp | None:
        headers = dict(scope["headers"])
        # A page in a browser can send requests here under a host name that resolves to this machine.
        if headers.get(b"host", b"").lower() not in self._hosts:
            return error(421, "unknown host", _CLOSING)
        origin = headers.get(b"origin")
        if origin not in self._origins and not (origin or b"").startswith(_EXTENSIONS):
            return error(403, "unknown origin", _CLOSING)
        if refusal := self._check(scope):
            return refusal
        if scope.get(ANY_SIZE):
            return None
        if origin not in self._origins:
            return error(403, "unknown origin", _CLOSING)
        length = headers.get(b"content-length", b"")
        return error(413, _TOO_LARGE) if length.isdigit() and int(length[:12]) > _BODY_BYTES else None

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        received = 0

        async def receive_limited() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > _BODY_BYTES and not scope.get(ANY_SIZE):
                raise HTTPException(413, _TOO_LARGE)
            return message

        try:
            await self._app(scope, receive_limited, send)
        except ClientDisconnect:
            return
        except Exception as failure:  # noqa: BLE001 - a traceback could contain a query or a text of the library
            # Starlette has responded with status 500.
            sys.stderr.write(f"{scope['method']} {scope['path']}: {defect(failure)}\n")


def defect(failure: Exception) -> str:
    """Return the type of an exception, the line of our code or template that raised it, and a name undefined there.

    Omits the rest of the message, which may contain text of the library.
    """
    frames = [frame for frame in traceback.extract_tb(failure.__traceback__) if frame.filename.startswith(_ROOMS)]
    if not frames:
        return type(failure).__name__
    last, line = frames[-1], frames[-1].line or ""
    place = f"{type(failure).__name__} in {last.filename.removeprefix(_PROJECT)}, line {last.lineno}"
    names = _NAMES.findall(str(failure)) if isinstance(failure, UndefinedError) else []
    return ": ".join([place, *(name for name in names[-1:] if re.search(rf"\b{name}\b", line))])


def error(status: int, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """Return the response to a failed request, with the reason."""
    return JSONResponse({"error": message}, status, headers)
