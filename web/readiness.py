"""Liveness of the process, and readiness of its dependencies. Names nothing private: no token is needed to ask."""

from __future__ import annotations

import asyncio
import http.client
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from catchment.errors import TryAgain
from web.warm_library import WarmLibrary

_TICK_SECONDS = 1.0
_STALLED_SECONDS = 10.0
_PART_SECONDS = 2.0
_FRESH_SECONDS = 5.0
_GLANCE_SECONDS = 0.3


@dataclass(slots=True)
class _Part:
    """A check, with its last result. `reason` is None if it succeeded."""

    check: Callable[[], None]
    reason: str | None = "not checked yet"
    checked: float | None = None
    running: asyncio.Task[None] | None = None

    async def refresh(self) -> None:
        """Check again unless the last result is recent. A check that is still running is not started twice."""
        if self.checked is not None and time.monotonic() - self.checked < _FRESH_SECONDS:
            return
        if self.running is None or self.running.done():
            self.running = asyncio.create_task(self._run())
        try:
            await asyncio.wait_for(asyncio.shield(self.running), _PART_SECONDS)
        except TimeoutError:
            self.reason = f"no response within {_PART_SECONDS:.0f} s"

    async def _run(self) -> None:
        try:
            await asyncio.to_thread(self.check)
            self.reason = None
        except TryAgain as error:
            self.reason = str(error)
        except Exception as error:  # noqa: BLE001 - any error means that the part does not work
            # Its text may name a file or a source, and a probe needs no token.
            self.reason = type(error).__name__
        self.checked = time.monotonic()

    def state(self) -> dict[str, Any]:
        """Return the result and its age in seconds."""
        age = None if self.checked is None else round(time.monotonic() - self.checked, 1)
        return {"ok": self.reason is None, "reason": self.reason, "age": age}


class Readiness:
    """The state of this process. `server` is the address of the Prefect API."""

    def __init__(self, library: WarmLibrary, server: str | None) -> None:
        self._ticked = time.monotonic()
        self._library = library
        self._parts = {"ledger": _Part(library.check), "server": _Part(lambda: _request_health(server))}

    async def tick(self) -> None:
        """Record that the event loop runs, until cancelled."""
        while True:
            self._ticked = time.monotonic()
            await asyncio.sleep(_TICK_SECONDS)

    def is_live(self) -> bool:
        """Whether the event loop ran in the last ten seconds. No I/O."""
        return time.monotonic() - self._ticked < _STALLED_SECONDS

    async def state(self) -> dict[str, Any]:
        """Return whether the ledger and the server work, and the state of each part. Meaning is not required."""
        await asyncio.gather(*(part.refresh() for part in self._parts.values()))
        parts = {name: part.state() for name, part in self._parts.items()}
        is_ready = all(part["ok"] for part in parts.values())
        is_on = self._library.meaning_off is None
        return {"ready": is_ready, "parts": parts | {"meaning": {"ok": is_on, "reason": None if is_on else "off"}}}

    async def server_responds(self) -> bool:
        """Return whether the Prefect server works, as known within a fraction of a second."""
        part = self._parts["server"]
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(asyncio.ensure_future(part.refresh())), _GLANCE_SECONDS)
        return part.reason is None


def _request_health(server: str | None) -> None:
    if server is None:
        raise TryAgain("no server: started without `catchment up`")
    address = urlsplit(server)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=_PART_SECONDS)
    try:
        connection.request("GET", f"{address.path}/health")
        status = connection.getresponse().status
    finally:
        connection.close()
    if status != 200:
        raise TryAgain(f"the server responded with status {status}")
