"""A server on the loopback interface, and the checks of every request before its application: host, token and size."""

from __future__ import annotations

import asyncio
import socket
import sys

import uvicorn
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from catchment.runtime import own_secrets

QUERY_BYTES = 102_400
"""Maximum size of a query."""
_HEADER_BYTES = 4 * QUERY_BYTES
"""Maximum size of a request line with its headers. Each byte of a query takes up to three in an address."""
_BODY_BYTES = 8 * QUERY_BYTES
"""Maximum size of a body. Each byte of a query takes up to six in JSON."""
_TOO_LARGE = "too large"
_CLOSING = {"Connection": "close"}
_CONNECTIONS = 64
_REQUEST_SECONDS = 2.0
"""Time limit of the headers of the first request: idle connections must not use up the limit."""


def serve(app: ASGIApp, token: str, listening: socket.socket) -> None:
    """Serve an application behind a token until a signal."""
    config = uvicorn.Config(
        Guard(app, token, listening.getsockname()[1]),
        # Neither may contain a query.
        access_log=False,
        log_level="warning",
        lifespan="on",
        http=_Connection,
        ws="none",
        h11_max_incomplete_event_size=_HEADER_BYTES,
        limit_concurrency=_CONNECTIONS,
        timeout_graceful_shutdown=1,
    )
    uvicorn.Server(config).run(sockets=[listening])


class _Connection(H11Protocol):
    """A connection that is closed if it sends no request."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.loop.call_later(_REQUEST_SECONDS, self._close_if_silent)

    def _close_if_silent(self) -> None:
        if self.cycle is None:
            self.transport.close()  # type: ignore[unreachable] # its type lacks the None before the first request


class Guard:
    """An ASGI application that passes permitted requests to another, and reports its errors without their content."""

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app = app
        self._token = token
        self._hosts = {b"127.0.0.1:%d" % port, b"localhost:%d" % port}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a connection, as ASGI requires."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif refusal := self._refusal(scope):
            await refusal(scope, receive, send)
        else:
            await self._answer(scope, receive, send)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        headers = dict(scope["headers"])
        # A page in a browser can send requests here under a host name that resolves to this machine.
        if headers.get(b"host", b"").lower() not in self._hosts:
            return error(421, "unknown host", _CLOSING)
        if not own_secrets.is_bearer(headers.get(b"authorization", b""), self._token):
            return error(401, "token missing or wrong", {"WWW-Authenticate": "Bearer", **_CLOSING})
        length = headers.get(b"content-length", b"")
        return error(413, _TOO_LARGE) if length.isdigit() and int(length[:12]) > _BODY_BYTES else None

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        received = 0

        async def receiving() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > _BODY_BYTES:
                raise HTTPException(413, _TOO_LARGE)
            return message

        try:
            await self._app(scope, receiving, send)
        except Exception as failure:  # noqa: BLE001 - a traceback could contain a query or a text of the library
            # Starlette has responded with status 500.
            sys.stderr.write(f"{scope['method']} {scope['path']}: {type(failure).__name__}\n")


def error(status: int, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """Return the response to a failed request, with the reason."""
    return JSONResponse({"error": message}, status, {"Cache-Control": "no-store", **(headers or {})})
