"""The process of the Prefect server: `python -P -m deployments.server.app FD`, where FD is the listening socket.

Differs from `prefect server start` in twelve ways:

- Every SQLite transaction starts with BEGIN IMMEDIATE. Prefect starts them DEFERRED: a read that becomes a write after
  another connection wrote fails at once, without the busy timeout. The API then answers 503, and clients back off for seconds.
- The pages carry a content security policy. Prefect's UI would report its use to an analytics service, with any settings.
- A response with a status of 500 or more leaves a line in the log. Prefect hides such errors, and its clients retry silently.
- A login that is not ASCII text is rejected. Prefect logs a traceback.
- Actions of people in the pages are recorded in the history (`deployments/server/ui_acts.py`).
- A browser signs in by a one-time link (`deployments/server/signin.py`).
- A statement crosses to the thread of its connection once, not four times.
- Routine events are not stored (`deployments/server/stored_rows.py`).
- The runs that the server creates have no random names (`deployments/server/run_names.py`).
- Block types are registered once per database, not at every start.
- The queue of the server's own tasks is looked at every second. Four times a second cost a third of a percent of a core.
- Garbage is collected in a thread. An abandoned request leaves an SQLite cursor behind, and collecting it waits until its
  connection is idle. On the event loop this could deadlock with a transaction that waits for the event loop, until SQLite's
  busy timeout of a minute.
"""

from __future__ import annotations

import gc
import os
import socket
import sys
import threading
import time
from base64 import b64decode
from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping
from datetime import timedelta
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from catchment.runtime.child_process import become_child
from catchment.runtime.home import Home
from deployments.server.environment import is_tried
from deployments.server.prefect_database import block_type_settings

if TYPE_CHECKING:
    from starlette.types import ASGIApp

FAILED = "failed with status "
_COLLECT_SECONDS = 0.5
_QUEUE_INTERVAL = timedelta(seconds=1)

_Message = MutableMapping[str, Any]
_Send = Callable[[_Message], Awaitable[None]]
_Receive = Callable[[], Awaitable[_Message]]


def main(listening: socket.socket) -> None:
    """Serve until SIGTERM."""
    become_child("server")
    # Imports leave hardly any garbage; with collections they take 2.1 s instead of 1.8 s.
    gc.disable()
    # The server checks the login of each request against this variable.
    os.environ["PREFECT_SERVER_API_AUTH_STRING"] = os.environ["PREFECT_API_AUTH_STRING"]
    os.environ.update(block_type_settings(Home.default()))
    # Prefect copies its UI into its own package, which belongs to root in an image and below a system unit.
    if (package := find_spec("prefect")) and not os.access(
        str(package.origin).replace("__init__.py", "server"), os.W_OK
    ):
        os.environ["PREFECT_SERVER_UI_STATIC_DIRECTORY"] = str(Home.default().prefect / "ui")
    # Imported here: Prefect reads the settings when it is imported.
    import uvicorn

    from deployments.server.signin import with_signin
    from deployments.server.ui_acts import note, recorded

    adapt_prefect()
    collect_aside()
    from prefect.server.api.server import create_app

    app = recorded(create_app(final=True), note)
    app = with_signin(app, Home.default().signin_keys, os.environ["PREFECT_API_AUTH_STRING"])
    # The collector skips the objects that the imports have left.
    gc.freeze()
    config = uvicorn.Config(
        refusing_odd_logins(restricted(app, listening.getsockname()[1])),
        log_level="warning",
        # Open event streams never end by themselves; a stop must not wait for them.
        timeout_graceful_shutdown=3,
    )
    uvicorn.Server(config).run(sockets=[listening])


def adapt_prefect() -> None:
    """Change the parts of Prefect that are not public, in this process. No effect with an untested version."""
    from prefect import __version__

    from deployments.server.run_names import name_runs
    from deployments.server.stored_rows import store_less

    if is_tried(__version__):
        begin_immediately()
        merge_database_calls()
        name_runs()
        rest_longer()
        store_less()


def begin_immediately() -> None:
    """Start SQLite's transactions with BEGIN IMMEDIATE in this process."""
    from prefect.server.database.configurations import AioSqliteConfiguration
    from prefect.server.database.dependencies import MODELS_DEPENDENCIES
    from prefect.settings import get_current_settings

    class ImmediateSqlite(AioSqliteConfiguration):
        """Prefect's own configuration, except that each transaction takes the write lock when it starts."""

        def begin_transaction(self, session: Any, with_for_update: bool = False) -> Any:
            """Start a transaction as Prefect does, ignoring `with_for_update`."""
            del with_for_update
            return super().begin_transaction(session, with_for_update=True)

    url = get_current_settings().server.database.connection_url
    assert url is not None
    MODELS_DEPENDENCIES["database_config"] = ImmediateSqlite(connection_url=url.get_secret_value())


def rest_longer() -> None:
    """Look at the queue of the server's own tasks every second, in this process."""
    from docket import Worker
    from prefect.server.api import background_workers

    background_workers.Worker = partial(  # type: ignore[assignment, attr-defined]
        Worker, minimum_check_interval=_QUEUE_INTERVAL, scheduling_resolution=_QUEUE_INTERVAL
    )


def merge_database_calls() -> None:
    """Let a statement cross to the thread of its connection once. SQLAlchemy crosses four times, at 50 µs each."""
    from prefect.server.database import configurations

    def execute(self: Any, operation: str, parameters: Any = ()) -> None:
        def in_thread() -> deque[Any]:
            cursor = self._connection._conn.execute(operation, parameters or ())
            self.description, self.lastrowid = cursor.description, cursor.lastrowid
            self.rowcount = -1 if cursor.description else cursor.rowcount
            return deque(cursor)

        self._rows = self.await_(self._connection._execute(in_thread))

    vars(configurations)["aiosqlite"].AsyncAdapt_aiosqlite_cursor.execute = execute


def collect_aside() -> None:
    """Disable garbage collection, and collect in a thread instead, with the interpreter's thresholds."""
    gc.disable()
    threading.Thread(target=_collect, name="garbage", daemon=True).start()


def _collect() -> None:
    thresholds = gc.get_threshold()
    while True:
        time.sleep(_COLLECT_SECONDS)
        counts = gc.get_count()
        due = [generation for generation, most in enumerate(thresholds) if counts[generation] > most]
        if due:
            gc.collect(max(due))


def restricted(app: ASGIApp, port: int) -> ASGIApp:
    """Add the content security policy to every response, and log the responses with a status of 500 or more.

    The policy lets the pages connect to this server only, and forbids showing them in a frame.
    """
    origin = f"'self' http://127.0.0.1:{port} ws://127.0.0.1:{port}"
    policy = (
        f"default-src 'self' data: blob:; connect-src {origin}; style-src 'self' 'unsafe-inline'; "
        "script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; frame-ancestors 'none'; form-action 'self'"
    ).encode()

    async def with_policy(scope: _Message, receive: _Receive, send: _Send) -> None:
        async def sending(message: _Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (b"content-security-policy", policy)]
                if message["status"] >= 500:
                    sys.stderr.write(f"{scope['method']} {scope['path']} {FAILED}{message['status']}\n")
            await send(message)

        await app(scope, receive, sending if scope["type"] == "http" else send)

    return with_policy


def refusing_odd_logins(app: ASGIApp) -> ASGIApp:
    """Reject a login on which Prefect raises, with at most one line in the log.

    Otherwise any local program could fill the log with tracebacks, without a login.
    """

    async def refusing(scope: _Message, receive: _Receive, send: _Send) -> None:
        if scope["type"] == "http":
            # Prefect compares ASCII only, and answers 401 without the header.
            headers = [pair for pair in scope["headers"] if pair[0] != b"authorization" or _is_ascii(pair[1])]
            await app({**scope, "headers": headers}, receive, send)
            return
        received = 0

        async def receiving() -> _Message:
            nonlocal received
            message = await receive()
            received += message["type"] == "websocket.receive"
            return message

        try:
            await app(scope, receiving, send)
        except Exception as error:
            # The first message of a WebSocket is the login.
            if received != 1:
                raise
            sys.stderr.write(f"{scope['path']}: rejected a malformed login ({type(error).__name__})\n")
            await send({"type": "websocket.close", "code": 1008, "reason": "Invalid token"})

    return refusing


def _is_ascii(login: bytes) -> bool:
    """Whether an HTTP Basic authentication header has an ASCII user and password, or is malformed."""
    try:
        return b64decode(login.partition(b" ")[2]).isascii()
    except ValueError:
        return True


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
