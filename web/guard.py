"""Checks of every request before the application receives it: host, token and size."""

from __future__ import annotations

import sys

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from catchment.runtime import own_secrets

QUERY_BYTES = 102_400
"""Maximum size of a query."""
HEADER_BYTES = 4 * QUERY_BYTES
"""Maximum size of a request line with its headers. Each byte of a query takes up to three in an address."""
_BODY_BYTES = 8 * QUERY_BYTES
"""Maximum size of a body. Each byte of a query takes up to six in JSON."""
_TOO_LARGE = "too large"


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
            return error(421, "unknown host")
        if not own_secrets.is_bearer(headers.get(b"authorization", b""), self._token):
            return error(401, "token missing or wrong", {"WWW-Authenticate": "Bearer"})
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
