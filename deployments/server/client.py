"""A client for the API of our Prefect server, without Prefect."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import httpx

from catchment.errors import TryAgain
from deployments.server.running import Running

_TRIES = 6
_PAGE = 200
"""What the server gives at once, at most."""


class _Patient(httpx.HTTPTransport):
    """Asks again, a little later each time, when the server says that its database is busy: it has done nothing then."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        for attempt in range(_TRIES):
            response = super().handle_request(request)
            if response.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                break
            if attempt < _TRIES - 1:
                response.close()
                time.sleep(0.1 * 2**attempt)
        return response


@contextlib.contextmanager
def api(state: Running, *, timeout: float = 10) -> Iterator[httpx.Client]:
    """A client of the Prefect API. Raises TryAgain when the server does not answer, or answers with an error."""
    user, _, password = state.login.partition(":")
    # A transport of our own also keeps the environment's proxies away from the loopback. Nothing there speaks TLS, and
    # to read whom to trust would take 40 ms of each client.
    transport = _Patient(verify=False)
    try:
        with httpx.Client(
            base_url=state.api_url, auth=(user, password), timeout=timeout, transport=transport, trust_env=False
        ) as client:
            yield client
    except httpx.TransportError as error:
        raise TryAgain(
            "the Prefect server does not answer at the moment; try again, or restart it: catchment down, catchment up"
        ) from error
    except httpx.HTTPStatusError as error:
        code = error.response.status_code
        raise TryAgain(f"the Prefect server answered with status {code}; its log is logs/server.log at home") from error


def everything(client: httpx.Client, what: str, query: dict[str, Any]) -> list[dict[str, Any]]:
    """All of a kind that a query matches, such as "flow_runs", however many pages the server has of it."""
    found: list[dict[str, Any]] = []
    while True:
        asked = {**query, "limit": _PAGE, "offset": len(found)}
        page = client.post(f"/{what}/filter", json=asked).raise_for_status().json()
        found += page
        if len(page) < _PAGE:
            return found
