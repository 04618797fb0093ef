"""The client of the `web` process, which serves the page and keeps the ledger and the vectors open. Quick to import.

The process records its address and identity in `run/web.json`, and expects the token of the home's file `web-token`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Self, TypeVar
from urllib.parse import urlencode

from catchment.errors import BadInput, CatchmentError, HomeUnavailable, PageSilent, TookTooLong
from catchment.runtime import own_secrets
from catchment.runtime.home import Home
from catchment.runtime.process import alive, identity, is_local, operator
from catchment.runtime.reports import ProcessReport
from catchment.runtime.reports.record_json import from_json

_LIVE_SECONDS = 0.8
"""Measured while the model was loaded, on two cores with four busy processes: at most 0.3 s; 1 ms later."""
_ANSWER_SECONDS = 5.0
_OK = 200
TOO_LONG = 504
"""Status of the response to a query that was stopped at its time limit."""
_OTHER_VERSION = "page: the running system has another version; restart it: catchment down && catchment up --detach"

_ERRORS = MappingProxyType({400: BadInput, TOO_LONG: TookTooLong})
"""Errors of a query that would be the same in another process."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WebAddress(ProcessReport):
    """Where the web process of a home listens, on the loopback interface.

    `process` is its identity, `ledger` the digest of the address of its ledger, `operator` the user that it records.
    """

    file: ClassVar = "web.json"
    port: int
    process: str
    ledger: str
    operator: str

    @classmethod
    def read(cls, home: Home) -> Self | None:
        """Return the address if its process is alive and has the same ledger as this one. Takes 0.1 ms."""
        address = super(WebAddress, cls).read(home)
        return address if address and address.ledger == _digest(home.database_url) else None

    @property
    def is_valid(self) -> bool:
        """Whether the process is alive."""
        return alive(self.process)

    @classmethod
    def record(cls, home: Home, port: int) -> None:
        """Record the address of this process. Raises HomeUnavailable."""
        if not cls(port, identity(), _digest(home.database_url), operator()).write(home):
            raise HomeUnavailable("page: its address cannot be recorded; check the disk that holds Catchment's state")


def last_start(home: Home) -> datetime | None:
    """Return when a web process of this home last started (aware); None if none ever did."""
    with suppress(OSError):
        return datetime.fromtimestamp(WebAddress.path(home).stat().st_mtime, UTC)
    return None


def page_address(home: Home, path: str) -> str:
    """Return the address of a page for people; "" before the first start of the system."""
    try:
        return f"http://127.0.0.1:{int(home.web_port.read_text())}{path}"
    except (OSError, ValueError):
        return ""


def token(home: Home) -> str:
    """Return the token that the web process expects; created at the first call. Raises ConfigError."""
    return own_secrets.token(_token_file(home))


def is_live(home: Home) -> bool:
    """Return whether the web process responds. Takes a millisecond, or a second if it is silent."""
    try:
        _request(home, "GET", "/live", _LIVE_SECONDS)
    except PageSilent:
        return False
    return True


def fetch(home: Home, path: str, kind: type[T], **query: str) -> T:
    """Return a view of the web process. Raises PageSilent if it does not answer, or shows another kind of view."""
    return _ask(home, "GET", f"{path}?{urlencode(query, errors='surrogateescape')}", partial(from_json, kind))


def act(home: Home, action: str, fields: Mapping[str, Any]) -> Any:
    """Return the result of an action of the web process. Raises PageSilent if it refuses, or does not answer.

    Also if it belongs to another user: the history would name the wrong actor.
    """
    if (address := WebAddress.read(home)) is not None and address.operator != operator():
        raise PageSilent(f"page: runs as {address.operator}")
    return _ask(home, "POST", f"/actions/{action}", lambda answer: answer["result"], fields)


def post(home: Home, path: str, query: Mapping[str, Any], kind: type[T], seconds: float) -> T:
    """Return the answer of the web process to a query, for which it may take so long.

    Raises BadInput if the query is invalid, TookTooLong if it was stopped, PageSilent if there is no answer.
    """
    return _ask(home, "POST", path, partial(from_json, kind), query, _ERRORS, seconds + 1)


def _ask(
    home: Home,
    method: str,
    path: str,
    decode: Callable[[Any], T],
    query: Mapping[str, Any] | None = None,
    errors: Mapping[int, type[CatchmentError]] = MappingProxyType({}),
    seconds: float = _ANSWER_SECONDS,
) -> T:
    # An answer may take seconds. Asking first whether the process is live keeps a silent one from costing all of them.
    _request(home, "GET", "/live", _LIVE_SECONDS)
    body = None if query is None else json.dumps(query).encode()
    status, content = _request(home, method, f"/api/v1{path}", seconds, body)
    error = errors.get(status)
    if status != _OK and error is None:
        raise PageSilent(f"page: failed with status {status}; see `catchment logs web`")
    try:
        answer = json.loads(content)
        if error is None:
            return decode(answer)
        problem = str(answer["error"])
    except (KeyError, TypeError, ValueError, AttributeError):
        raise PageSilent(_OTHER_VERSION) from None
    raise error(problem)


def _request(home: Home, method: str, path: str, seconds: float, body: bytes | None = None) -> tuple[int, bytes]:
    """Return status and content of a response. Raises PageSilent if the process is not running, or silent for so long."""
    if (address := WebAddress.read(home)) is None or (secret := own_secrets.stored(_token_file(home))) is None:
        raise PageSilent("page: not running; start Catchment with `catchment up --detach`")
    if not is_local(address.process):
        # Another program may have its port here, and would get the token.
        raise PageSilent("page: runs in another container; run the command there")
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", address.port, timeout=seconds)
    try:
        connection.request(method, path, body, {"Authorization": f"Bearer {secret}"})
        response = connection.getresponse()
        return response.status, response.read()
    except (OSError, http.client.HTTPException):
        raise PageSilent("page: no response; see `catchment check`") from None
    finally:
        connection.close()


def _digest(url: str) -> str:
    return sha256(url.encode("utf-8", "surrogateescape")).hexdigest()


def _token_file(home: Home) -> Path:
    return home.path / "web-token"
