"""Appends a line for each request to Prefect's server to the file `COUNTED_REQUESTS`.

With `PREFECT_ON_POSTGRES`, the server's database is at that address, as on a server for several machines.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

_FILE = os.environ.get("COUNTED_REQUESTS")
_ADDRESS = os.environ.get("PREFECT_ON_POSTGRES")


def _count(file: str) -> None:
    import uvicorn

    log = Path(file).open("a", buffering=1)  # noqa: SIM115 - open until the process exits
    make: Any = uvicorn.Config.__init__

    def make_counting(self: Any, app: Any, *given: Any, **named: Any) -> None:
        async def counting(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                log.write(f"{scope['method']} {scope['path']}\n")
            await app(scope, receive, send)

        make(self, counting, *given, **named)

    uvicorn.Config.__init__ = make_counting  # type: ignore[method-assign]


if _FILE and "deployments.server.app" in sys.orig_argv:
    if _ADDRESS:
        os.environ["PREFECT_API_DATABASE_CONNECTION_URL"] = _ADDRESS
        from prefect.server.database import configurations

        configurations.AioSqliteConfiguration = configurations.AsyncPostgresConfiguration  # type: ignore[misc,assignment]
    _count(_FILE)
