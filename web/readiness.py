"""Liveness of the process, and readiness of its dependencies. Contains no private names: a request needs no token."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any

from catchment.errors import CatchmentError, NotFound, TryAgain
from catchment.ledger import Ledger
from catchment.pacing.limits import HostLimits
from catchment.runtime import process
from catchment.runtime.home import Home
from web.warm_library import WarmLibrary

_TICK_SECONDS = 1.0
_STALLED_SECONDS = 10.0
_PART_SECONDS = 2.0
_FRESH_SECONDS, _FAILED_SECONDS = 60.0, 15.0
"""Age after which a check that succeeded, or failed, is repeated."""
_PATIENT_SECONDS = 20.0
"""Time limit of a check that is already reported as slow. A busy ledger or server answers within it."""
_ALIVE_SECONDS = 5.0
"""Interval of the check whether the server responds at all, which pages show at once."""
_LOOK_SECONDS = 2.0
_GLANCE_SECONDS = 0.3
_NOBODY = HostLimits("catchment.probe")
"""No host: its slot is the lease that is taken and given back."""


@dataclass(slots=True)
class _Part:
    """A check and its last result, which is valid for `fresh` seconds. `error` is None if the check succeeded."""

    check: Callable[[], None]
    fresh: float = _FRESH_SECONDS
    error: CatchmentError | None = None
    checked_at: float | None = None
    task: asyncio.Task[None] | None = None

    async def refresh(self) -> None:
        """Check again unless the last result is recent. A check that is still running is not started twice."""
        fresh = self.fresh if self.error is None else min(self.fresh, _FAILED_SECONDS)
        if self.checked_at is not None and time.monotonic() - self.checked_at < fresh:
            return
        if self.task is None or self.task.done():
            self.task = asyncio.create_task(self._run())
        try:
            await asyncio.wait_for(asyncio.shield(self.task), _PART_SECONDS)
        except TimeoutError:
            self.error = TryAgain(f"no response within {_PART_SECONDS:.0f} s")

    async def _run(self) -> None:
        try:
            await asyncio.to_thread(self.check)
            self.error = None
        except Exception as error:  # noqa: BLE001 - any error means that the part does not work
            # The text of another error may name a file or a source.
            self.error = error if isinstance(error, CatchmentError) else TryAgain(type(error).__name__)
        # A ledger that is missing is looked for again at once: it is created with the first source.
        self.checked_at = None if isinstance(self.error, NotFound) else time.monotonic()

    def state(self) -> dict[str, Any]:
        """Return the result and its age in seconds."""
        age = None if self.checked_at is None else round(time.monotonic() - self.checked_at, 1)
        # Our errors other than `TryAgain` may also name a file or a source, and a probe needs no token.
        reason = str(self.error) if isinstance(self.error, TryAgain) else type(self.error).__name__
        return {"ok": self.error is None, "reason": None if self.error is None else reason, "age": age}


class Readiness:
    """The state of this process. `server`: the checks `server` and `events`; `ui`: where browsers are signed in, too."""

    def __init__(
        self, library: WarmLibrary, server: Mapping[str, Callable[[], None]] | None, ui: str | None = None
    ) -> None:
        self.ui = ui
        checks = server or {}
        self._ticked_at = time.monotonic()
        self._library = library
        home = library.home
        self._parts = {
            "ledger": _Part(lambda: _write_nothing(home)),
            "lease": _Part(lambda: _take_lease(home)),
            "server": _Part(checks.get("server", _no_server), _ALIVE_SECONDS),
            "events": _Part(checks.get("events", _no_server)),
        }

    async def tick(self) -> None:
        """Record that the event loop runs, and repeat the checks that are due, until cancelled."""
        look = asyncio.create_task(self._look())
        try:
            while True:
                self._ticked_at = time.monotonic()
                await asyncio.sleep(_TICK_SECONDS)
        finally:
            look.cancel()

    def is_live(self) -> bool:
        """Whether the event loop ran in the last ten seconds. No I/O."""
        return time.monotonic() - self._ticked_at < _STALLED_SECONDS

    def errors(self) -> Mapping[str, CatchmentError]:
        """Return why parts did not work when they were last checked."""
        return {name: part.error for name, part in self._parts.items() if part.error is not None}

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
        return part.error is None and part.checked_at is not None

    async def _look(self) -> None:
        while True:
            await self.state()
            await asyncio.sleep(_LOOK_SECONDS)


def _write_nothing(home: Home) -> None:
    """Write to the ledger, and roll it back."""
    with closing(Ledger.inspect(home, seconds=_PATIENT_SECONDS)) as ledger:
        ledger.try_writing()


def _take_lease(home: Home) -> None:
    """Take a slot, which is stored, and give it back."""
    with closing(Ledger.inspect(home, seconds=_PATIENT_SECONDS)) as ledger:
        ticket, _ = ledger.pacing.ask(_NOBODY, "", process.identity())
        ledger.pacing.release(ticket)


def _no_server() -> None:
    raise TryAgain("no server: started without `catchment up`")
