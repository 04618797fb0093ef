"""The server over HTTP: on the loopback interface, stateless, behind a token. The SDK refuses a foreign Host and Origin."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from assistant.server import protocol_server
from catchment.errors import BadInput
from catchment.runtime import own_secrets
from catchment.runtime.home import Home

PATH = "/mcp"
_CONNECTIONS = 64
_BODY_BYTES = 64 * 1024


def token_file(home: Home) -> Path:
    """Return the file with the token, which only its owner can read."""
    return home.path / "assistant-token"


def serve(home: Home, port: int, on_start: Callable[[str], None]) -> None:
    """Serve assistants until a signal. Calls `on_start` with the address. Raises BadInput if the port is in use."""
    home.make()
    token = own_secrets.token(token_file(home))
    app = protocol_server(home).streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=_BODY_BYTES,
        host="127.0.0.1",
    )
    try:
        listening = socket.create_server(("127.0.0.1", port))
    except OSError as error:
        raise BadInput(f"--port {port}: cannot be used ({error.strerror}); choose another port") from None
    with listening:
        on_start(f"http://127.0.0.1:{listening.getsockname()[1]}{PATH}")
        config = uvicorn.Config(
            _TokenGuard(app, token),
            access_log=False,
            log_level="critical",
            lifespan="on",
            http="h11",
            ws="none",
            limit_concurrency=_CONNECTIONS,
            timeout_graceful_shutdown=1,
        )
        uvicorn.Server(config).run(sockets=[listening])


class _TokenGuard:
    """An ASGI application that passes requests with the token to another."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a connection, as ASGI requires."""
        authorization = dict(scope.get("headers", ())).get(b"authorization", b"")
        if scope["type"] != "lifespan" and not own_secrets.is_bearer(authorization, self._token):
            refusal = JSONResponse({"error": "token missing or wrong"}, 401, {"WWW-Authenticate": "Bearer"})
            await refusal(scope, receive, send)
        else:
            await self._app(scope, receive, send)
