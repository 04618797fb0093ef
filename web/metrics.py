"""`/metrics` for Prometheus, and what of it this process stores each minute."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Scope

from catchment.errors import CatchmentError
from catchment.ledger import Ledger
from catchment.runtime import own_secrets
from catchment.runtime.home import Home
from catchment.telemetry.exposition import PROMETHEUS_TYPE, prometheus
from catchment.views.telemetry.gauges import current, sample
from web.guard import Check, bearer, error
from web.json_interface import status_of
from web.warm_library import WarmLibrary

PATH = "/metrics"
_FRESH_SECONDS = 5.0
_OPEN = "CATCHMENT_METRICS"


def check(home: Home) -> Check:
    """Return the check of requests for `/metrics`: the token of the home's file `metrics-token`.

    With `CATCHMENT_METRICS=open`, every program of this machine may read them. Raises ConfigError.
    """
    token = own_secrets.token(home.path / "metrics-token")
    return _everyone if os.environ.get(_OPEN) == "open" else bearer(token)


def _everyone(_scope: Scope) -> None:
    """Refuse nobody: the process listens on the loopback interface alone."""


class Metrics:
    """The figures of this process and of the ledger. `opened` returns the ledger, writable; it may raise CatchmentError."""

    def __init__(self, library: WarmLibrary, opened: Callable[[], Ledger]) -> None:
        self._library, self._opened = library, opened
        self._lock = threading.Lock()
        self._text, self._until = b"", 0.0

    def sample(self) -> None:
        """Store the gauges, and what this process has counted. Raises CatchmentError."""
        ledger = self._opened()
        ledger.measures.tally.merge(self._library.tally.take())
        sample(ledger, self._library.home)

    def roll(self) -> None:
        """Merge old figures. Raises CatchmentError."""
        self._opened().measures.roll()

    @property
    def route(self) -> Route:
        """The route `/metrics`."""

        async def show(_request: Request) -> Response:
            try:
                return Response(await self._library.read(self._read), media_type=PROMETHEUS_TYPE)
            except CatchmentError as failure:
                return error(status_of(failure), str(failure))

        return Route(PATH, show)

    def _read(self) -> bytes:
        with self._lock:
            if time.monotonic() >= self._until:
                self._text = prometheus(current(self._library.ledger, self._library.home))
                self._until = time.monotonic() + _FRESH_SECONDS
            return self._text
