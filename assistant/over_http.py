"""The server over HTTP: on the loopback interface, stateless, behind a token."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

from assistant.mcp_server import protocol_server
from catchment.errors import BadInput
from catchment.runtime import own_secrets
from catchment.runtime.home import Home
from web.guard import bearer
from web.guard import serve as serve_application

PATH = "/mcp"
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
        serve_application(app, bearer(token), [listening])
