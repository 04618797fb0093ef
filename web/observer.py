"""The background duties of the web process (incidents every ten seconds, figures every minute), and `/metrics`."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Scope

from catchment.errors import CatchmentError, NotFound
from catchment.ledger import Ledger
from catchment.runtime import own_secrets
from catchment.runtime.home import Home
from catchment.telemetry.exposition import PROMETHEUS_TYPE, Series, prometheus
from catchment.views.telemetry.anomalies import anomalies
from catchment.views.telemetry.gauges import current, sample
from web.guard import Check, bearer, error
from web.json_interface import status_of
from web.warm_library import WarmLibrary

METRICS_PATH = "/metrics"
_FRESH_SECONDS = 5.0
_JUDGE_SECONDS = 10.0
_SAMPLE_SECONDS = 60.0
_ROLL_SECONDS = 300.0


class Observer:
    """Calls each duty at its interval in one thread, so that they never overlap. A duty that fails is repeated in time.

    Args:
        judge: Opens and closes incidents. Raises CatchmentError.
        sample: Stores the gauges. Raises CatchmentError.
        roll: Merges old figures. Raises CatchmentError.
    """

    def __init__(self, judge: Callable[[], None], sample: Callable[[], None], roll: Callable[[], None]) -> None:
        self._duties = {judge: _JUDGE_SECONDS, sample: _SAMPLE_SECONDS, roll: _ROLL_SECONDS}

    async def run(self) -> None:
        """Watch until cancelled."""
        alone, due = CapacityLimiter(1), dict.fromkeys(self._duties, 0.0)
        while True:
            for duty, seconds in self._duties.items():
                if time.monotonic() >= due[duty]:
                    due[duty] = time.monotonic() + seconds
                    await to_thread.run_sync(_attempt, duty, limiter=alone)
            await asyncio.sleep(1)


def _attempt(duty: Callable[[], object]) -> None:
    try:
        duty()
    except NotFound:
        return  # There is no ledger before the first source.
    except CatchmentError as error:
        sys.stderr.write(f"observer: {error}\n")


def metrics_check(home: Home) -> Check:
    """Return the check of requests for `/metrics`: the token of the home's file `metrics-token`.

    With `CATCHMENT_METRICS=open`, everyone who can connect may read them. Raises ConfigError.
    """
    token = own_secrets.token(home.path / "metrics-token")
    return _everyone if os.environ.get("CATCHMENT_METRICS") == "open" else bearer(token)


def _everyone(_scope: Scope) -> None:
    """Permit every request, also from other machines if the page listens there."""


class Metrics:
    """The figures of this process and of the ledger. `open_ledger`: returns it, writable, or raises CatchmentError."""

    def __init__(self, library: WarmLibrary, open_ledger: Callable[[], Ledger]) -> None:
        self._library, self._open_ledger = library, open_ledger
        self._lock = threading.Lock()
        self._text, self._until = b"", 0.0

    def sample(self) -> None:
        """Store the gauges and the counts of this process. Raises CatchmentError."""
        ledger = self._open_ledger()
        ledger.measures.tally.merge(self._library.tally.take())
        sample(ledger, self._library.home)

    def roll(self) -> None:
        """Merge old figures, and find the anomalies of a new hour, so that no page waits for them. Raises CatchmentError."""
        self._open_ledger().measures.roll()
        ledger = self._library.ledger
        anomalies(ledger, ledger.now())

    async def push(self) -> None:
        """Send every series each minute to the address in `OTEL_EXPORTER_OTLP_ENDPOINT`, if it is set, until cancelled."""
        if not os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"):
            return
        try:
            from catchment.telemetry.otlp import sender
        except ImportError:
            sys.stderr.write(
                "metrics: not sent to OpenTelemetry; install its exporter: pip install 'catchment[otel]'\n"
            )
            return
        send = sender()
        while True:
            await to_thread.run_sync(_attempt, lambda: send(self._current(), time.time_ns()))
            await asyncio.sleep(_SAMPLE_SECONDS)

    def _current(self) -> list[Series]:
        return current(self._library.ledger, self._library.home, self._library.unsaved())

    @property
    def route(self) -> Route:
        """The route `/metrics`."""

        async def show(_request: Request) -> Response:
            try:
                return Response(await self._library.read(self._read), media_type=PROMETHEUS_TYPE)
            except CatchmentError as failure:
                return error(status_of(failure), str(failure))

        return Route(METRICS_PATH, show)

    def _read(self) -> bytes:
        with self._lock:
            if time.monotonic() >= self._until:
                self._text = prometheus(self._current())
                self._until = time.monotonic() + _FRESH_SECONDS
            return self._text
