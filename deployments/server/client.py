"""The HTTP client of the Prefect server. Uses `http.client`, which is imported in 25 ms; httpx takes 100 ms.

Plain for the home's own server on the loopback interface, and over TLS for the server of joined hosts. No redirects or proxies.
"""

from __future__ import annotations

import contextlib
import http.client
import json as json_format
import select
import ssl
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from typing import Any, Self
from urllib.parse import quote, urlencode, urlsplit
from uuid import NAMESPACE_DNS, UUID, uuid4, uuid5

from catchment.errors import LoginFailed, TryAgain
from deployments.server.running import ELSEWHERE, Running

_TRIES = 6
_PROBE = "catchment.probe"
_PROBE_ID = uuid5(NAMESPACE_DNS, _PROBE)
_PROBE_SECONDS = 2.0
_PATIENT_SECONDS = 20.0
"""Time limit of a check that is reported as slow before. A busy server answers within it."""
_PAGE = 200
"""Maximum number of rows in a response of the server."""


class ServerUnreachable(TryAgain):
    """The server did not answer in time, or closed the connection.

    `server`: the address of a server elsewhere. `reason`: why its certificate was refused.
    """

    def __init__(self, server: str = "", reason: str = "") -> None:
        if reason:
            text = (
                f"{server}: certificate refused ({reason}); correct it, or pass its authority: catchment join --ca FILE"
            )
        elif server:
            text = f"the Prefect server at {server} does not respond; try again, or see to it on its machine"
        else:
            text = (
                "the Prefect server does not respond; try again, or restart it: catchment down && catchment up --detach"
            )
        super().__init__(text)
        self._given = server, reason

    def __reduce__(self) -> tuple[type[Self], tuple[str, str]]:
        return type(self), self._given


class ServerError(TryAgain):
    """The server answered with an error. `status` is its HTTP status."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the Prefect server responded with status {status}; see `catchment logs server`")
        self.status = status

    def __reduce__(self) -> tuple[type[Self], tuple[int]]:
        return type(self), (self.status,)


@dataclass(frozen=True, slots=True)
class Response:
    """A complete response."""

    status_code: int
    headers: http.client.HTTPMessage
    content: bytes

    @property
    def is_success(self) -> bool:
        return self.status_code < HTTPStatus.BAD_REQUEST

    @property
    def is_missing(self) -> bool:
        """Whether the status is 404."""
        return self.status_code == HTTPStatus.NOT_FOUND

    def raise_for_status(self) -> Self:
        """Return this response. Raises ServerError if it is an error."""
        if not self.is_success:
            raise ServerError(self.status_code)
        return self

    def raise_unless_missing(self) -> Self:
        """Return this response. Raises ServerError if it is an error other than status 404."""
        return self if self.is_missing else self.raise_for_status()

    def json(self) -> Any:
        """The decoded body."""
        return json_format.loads(self.content)


class Client:
    """A persistent connection to the Prefect API, for one thread at a time.

    Every request raises ServerUnreachable if there is no answer within `timeout` seconds.
    """

    def __init__(self, state: Running, timeout: float) -> None:
        address = urlsplit(state.api_url)
        assert address.hostname
        self._server = state.server
        self._base = address.path
        self._headers = {"Authorization": f"Basic {b64encode(state.login.encode()).decode()}"}
        self._connection = (
            http.client.HTTPSConnection(
                address.hostname,
                address.port,
                timeout=timeout,
                context=ssl.create_default_context(cafile=state.authorities),
            )
            if address.scheme == "https"
            else http.client.HTTPConnection(address.hostname, address.port, timeout=timeout)
        )

    def get(self, path: str, *, params: Mapping[str, Any] | None = None) -> Response:
        return self.request("GET", f"{path}?{urlencode(params)}" if params else path)

    def post(self, path: str, *, json: Any = None, headers: Mapping[str, str] | None = None) -> Response:
        return self.request("POST", path, json=json, headers=headers)

    def put(self, path: str, *, json: Any) -> Response:
        return self.request("PUT", path, json=json)

    def patch(self, path: str, *, json: Any) -> Response:
        return self.request("PATCH", path, json=json)

    def delete(self, path: str) -> Response:
        return self.request("DELETE", path)

    def emit(
        self,
        event: str,
        resource: Mapping[str, str],
        payload: Mapping[str, Any] | None = None,
        identifier: UUID | None = None,
    ) -> Response:
        """Emit a Prefect event about a resource, which has `prefect.resource.id`."""
        body = {
            "id": str(identifier or uuid4()),
            "occurred": datetime.now(UTC).isoformat(),
            "event": event,
            "resource": resource,
            "payload": payload or {},
        }
        return self.post("/events", json=[body])

    def request(
        self, method: str, path: str, *, json: Any = None, headers: Mapping[str, str] | None = None
    ) -> Response:
        """Send a request. Retries on status 503 with a growing delay: the database was busy, and unchanged."""
        body = None if json is None else json_format.dumps(json).encode()
        sent = {**self._headers, **({"Content-Type": "application/json"} if body else {}), **(headers or {})}
        for attempt in range(_TRIES):
            response = self._send(method, path, body, sent)
            if response.status_code != HTTPStatus.SERVICE_UNAVAILABLE or attempt == _TRIES - 1:
                break
            time.sleep(0.1 * 2**attempt)
        return response

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        self._connection.close()

    def _send(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Response:
        # The server closes a connection that was idle for some seconds; the socket then reads as end of file.
        if (open_socket := self._connection.sock) and select.select([open_socket], [], [], 0)[0]:
            self.close()
        try:
            self._connection.request(method, self._base + path, body, headers)
            response = self._connection.getresponse()
            return Response(response.status, response.headers, response.read())
        except (OSError, http.client.HTTPException) as error:
            self.close()
            reason = error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else ""
            raise ServerUnreachable(self._server, reason.rstrip(".")) from error


@contextlib.contextmanager
def api(state: Running, *, timeout: float = 10) -> Iterator[Client]:
    """A client of the Prefect API, closed at the end. Raises TryAgain if the system runs in another container."""
    if state.is_elsewhere:
        # Another program may have its port here, and would get the login.
        raise TryAgain(f"{ELSEWHERE}; run the command there")
    client = Client(state, timeout)
    try:
        yield client
    finally:
        client.close()


def checks(state: Running) -> dict[str, Callable[[], None]]:
    """Return the checks whether the server responds and accepts events. They raise TryAgain, without private data."""

    def server() -> None:
        with api(state, timeout=_PROBE_SECONDS) as client:
            _require_success(client.get("/health"))

    def events() -> None:
        # The server reports that it is healthy and ready even if it cannot accept events. The server of several hosts has them
        # in Redis, which drops an event with a known ID; PostgreSQL keeps the first. So the feed has one event for all checks.
        probe = {"prefect.resource.id": _PROBE}
        with api(state, timeout=_PATIENT_SECONDS) as client:
            _require_success(
                client.emit(_PROBE, probe, identifier=_PROBE_ID) if state.server else client.post("/events", json=[])
            )

    return {"server": server, "events": events}


def _require_success(response: Response) -> None:
    if not response.is_success:
        raise TryAgain(f"the server responded with status {response.status_code}")


def everything(client: Client, what: str, query: dict[str, Any]) -> list[dict[str, Any]]:
    """Return all rows of a type, such as "flow_runs", that match a query, from all pages."""
    gathered: list[dict[str, Any]] = []
    while True:
        page = client.post(f"/{what}/filter", json={**query, "limit": _PAGE, "offset": len(gathered)})
        rows = page.raise_for_status().json()
        gathered += rows
        if len(rows) < _PAGE:
            return gathered


def deployment_named(client: Client, flow: str, name: str) -> dict[str, Any] | None:
    """Return the deployment of this flow and name; None if there is none."""
    response = client.get(f"/deployments/name/{flow}/{name}")
    return None if response.is_missing else response.raise_for_status().json()


def read_blocks_of(running: Running) -> None:
    """Resolve `block:NAME` in this process to the Secret block of this name on this server."""
    # Imported here: most commands need no secret.
    from catchment.runtime.secret_references import read_blocks_with

    read_blocks_with(partial(_read_block, running))


def _read_block(running: Running, name: str) -> str:
    with api(running) as client:
        address = f"/block_types/slug/secret/block_documents/name/{quote(name, safe='')}"
        answer = client.get(address, params={"include_secrets": True})
        if answer.is_missing:
            raise LoginFailed(f"Secret block {name}: not found; create it in the Prefect UI under Blocks")
        # An error of the server does not mean that the block is missing.
        return str(answer.raise_for_status().json()["data"]["value"])
