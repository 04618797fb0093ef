"""The process: `python -P -m web`, started by `catchment up`."""

from __future__ import annotations

import os
import socket

import uvicorn

from catchment.runtime.child_process import become_child
from catchment.runtime.home import Home
from catchment.search.remote import WebAddress, token
from web.app import application
from web.guard import HEADER_BYTES, Guard
from web.library import WarmLibrary
from web.readiness import Readiness

_CONNECTIONS = 64


def main() -> None:
    """Serve until SIGTERM."""
    become_child("web")
    home = Home.default()
    library = WarmLibrary(home.database_url)
    readiness = Readiness(library, os.environ.get("PREFECT_API_URL"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        app = application(library, readiness, lambda: WebAddress.record(home, port))
        config = uvicorn.Config(
            Guard(app, token(home), port),
            # Neither may contain a query.
            access_log=False,
            log_level="warning",
            lifespan="on",
            http="h11",
            ws="none",
            h11_max_incomplete_event_size=HEADER_BYTES,
            limit_concurrency=_CONNECTIONS,
            timeout_graceful_shutdown=1,
        )
        uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
