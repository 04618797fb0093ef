"""Appends a line for each request to Prefect's server to the file `COUNTED_REQUESTS`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

_FILE = os.environ.get("COUNTED_REQUESTS")


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
    _count(_FILE)
