"""The `web` process of a running system, which keeps the model, the vectors and the ledger open. Quick to import.

The process records its address and identity in `run/web.json`, and expects the token of the home's file `web-token`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

from catchment.errors import MeaningOff, TookTooLong
from catchment.runtime import atomic_files, own_secrets
from catchment.runtime.home import Home
from catchment.runtime.process import alive, identity, is_local, operator
from catchment.search.results import Hit, Results, hits_from_json, results_from_json

_LIVE_SECONDS = 0.8
"""Measured while the model was loaded, on two cores with four busy processes: at most 0.3 s; 1 ms later."""
_ANSWER_SECONDS = 5.0
_OK = 200
_TIMES = frozenset(
    [
        *(
            "acknowledged_at",
            "at",
            "began",
            "changed",
            "checked",
            "closed_at",
            "ended",
            "expected",
            "joined",
            "last_beat",
        ),
        *(
            "current",
            "expires",
            "first_failed",
            "first_seen",
            "given",
            "gone",
            "last_failed",
            "modified",
            "next_attempt",
        ),
        *("not_before", "oldest", "opened_at", "purged", "until", "withdrawn"),
    ]
)
"""Fields of views that are times."""
TOO_LONG = 504
"""Status of the response to a query that was stopped at its time limit."""
_OTHER_VERSION = (
    "search by meaning: the running system has another version; restart it: catchment down && catchment up --detach"
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WebAddress:
    """Where the web process of a home listens, on the loopback interface.

    `process` is its identity, `ledger` the digest of the address of its ledger, `operator` the user that it records.
    """

    port: int
    process: str
    ledger: str
    operator: str

    @classmethod
    def read(cls, home: Home) -> WebAddress | None:
        """Return the address if its process is alive and has the same ledger as this one. Takes 0.1 ms."""
        try:
            address = cls(**json.loads(_record(home).read_bytes()))
            return address if address.ledger == _digest(home.database_url) and alive(address.process) else None
        except (OSError, ValueError, TypeError, AttributeError):
            # The file is missing, or was written by another version.
            return None

    @classmethod
    def record(cls, home: Home, port: int) -> None:
        """Record the address of this process. Raises OSError."""
        address = cls(port, identity(), _digest(home.database_url), operator())
        atomic_files.write(_record(home), json.dumps(asdict(address)).encode())


def last_start(home: Home) -> datetime | None:
    """Return when a web process of this home last started (aware); None if none ever did."""
    with suppress(OSError):
        return datetime.fromtimestamp(_record(home).stat().st_mtime, UTC)
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


def search(
    home: Home,
    text: str,
    now: datetime,
    *,
    lanes: str = "both",
    limit: int = 20,
    offset: int = 0,
    by_conversation: bool = False,
    only: Collection[str] | None = None,
) -> Results:
    """Return what `search.search` returns, from the web process. Raises MeaningOff if it does not answer.

    `only`: as if the library had no other sources. A query with an error raises MeaningOff too; `search.search` explains the
    error. A query that took too long raises TookTooLong: it would take as long in this process.
    """
    query = {"text": text, "now": now.isoformat(), "lanes": lanes, "limit": limit, "offset": offset}
    limits = {"by_thread": by_conversation, "only": None if only is None else sorted(only)}
    return _post(home, "/api/v1/search", query | limits, results_from_json)


def related(home: Home, document: int, limit: int) -> list[Hit]:
    """Return what `related.related` returns for a document, from the web process. Raises MeaningOff if it does not answer."""
    return _post(home, "/api/v1/related", {"document": document, "limit": limit}, hits_from_json)


def is_live(home: Home) -> bool:
    """Return whether the web process responds. Takes a millisecond, or a second if it is silent."""
    try:
        _request(home, "GET", "/live", _LIVE_SECONDS)
    except MeaningOff:
        return False
    return True


def fetch(home: Home, path: str, **query: str) -> Any:
    """Return what the web process shows below `/api/v1`, as JSON with times. Raises MeaningOff if it does not answer."""
    try:
        return _ask(home, "GET", f"/api/v1{path}?{urlencode(query, errors='surrogateescape')}", _with_times)
    except TookTooLong as reason:
        raise MeaningOff(str(reason)) from None


def act(home: Home, action: str, fields: Mapping[str, Any]) -> Any:
    """Return the result of an action of the web process. Raises MeaningOff if it refuses, or does not answer.

    Also if it belongs to another user: the history names who acts.
    """
    if (address := WebAddress.read(home)) is not None and address.operator != operator():
        raise MeaningOff(f"page: runs as {address.operator}")
    return _post(home, f"/api/v1/actions/{action}", fields, lambda done: done["result"])


def _post(home: Home, path: str, query: Mapping[str, Any], decode: Callable[[Any], T]) -> T:
    return _ask(home, "POST", path, decode, json.dumps(query).encode())


def _ask(home: Home, method: str, path: str, decode: Callable[[Any], T], body: bytes | None = None) -> T:
    # An answer may take seconds. Asking first whether the process is live keeps a silent one from costing all of them.
    _request(home, "GET", "/live", _LIVE_SECONDS)
    status, content = _request(home, method, path, _ANSWER_SECONDS, body)
    if status == TOO_LONG:
        raise TookTooLong(json.loads(content)["error"])
    if status != _OK:
        raise MeaningOff(f"search by meaning: failed with status {status}; see `catchment logs web`")
    try:
        return decode(json.loads(content))
    except (KeyError, TypeError, ValueError):
        raise MeaningOff(_OTHER_VERSION) from None


def _with_times(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_times(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: datetime.fromisoformat(one) if name in _TIMES and isinstance(one, str) else _with_times(one)
        for name, one in value.items()
    }


def _request(home: Home, method: str, path: str, seconds: float, body: bytes | None = None) -> tuple[int, bytes]:
    """Return status and content of a response. Raises MeaningOff if the process is not running, or silent for so long."""
    if (address := WebAddress.read(home)) is None or (secret := own_secrets.stored(_token_file(home))) is None:
        raise MeaningOff("search by meaning: not running; start Catchment with `catchment up --detach`")
    if not is_local(address.process):
        # Another program may have its port here, and would get the token.
        raise MeaningOff("search by meaning: Catchment runs in another container; search there")
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", address.port, timeout=seconds)
    try:
        connection.request(method, path, body, {"Authorization": f"Bearer {secret}"})
        response = connection.getresponse()
        return response.status, response.read()
    except (OSError, http.client.HTTPException):
        raise MeaningOff("search by meaning: no response; see `catchment health`") from None
    finally:
        connection.close()


def _digest(url: str) -> str:
    return sha256(url.encode("utf-8", "surrogateescape")).hexdigest()


def _record(home: Home) -> Path:
    return home.run / "web.json"


def _token_file(home: Home) -> Path:
    return home.path / "web-token"
