"""Search by the `web` process of a running system, which keeps the model and the vectors in memory. Quick to import.

The process records its address and identity in `run/web.json`, and expects the token of the home's file `web-token`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from catchment.errors import MeaningOff
from catchment.results import Hit, Results, hits_from_json, results_from_json
from catchment.runtime import atomic_files, own_secrets
from catchment.runtime.home import Home
from catchment.runtime.process import alive, identity

_CONNECT_SECONDS = 0.2
_ANSWER_SECONDS = 5.0
_OK = 200
_OTHER_VERSION = (
    "search by meaning: the running system has another version; restart it: catchment down && catchment up --detach"
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WebAddress:
    """Where the web process of a home listens, on the loopback interface.

    `process` is its identity, `ledger` the digest of the address of its ledger.
    """

    port: int
    process: str
    ledger: str

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
        address = cls(port, identity(), _digest(home.database_url))
        atomic_files.write(_record(home), json.dumps(asdict(address)).encode())


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
    by_thread: bool = False,
) -> Results:
    """Return what `search.search` returns, from the web process. Raises MeaningOff if it does not answer.

    A query with an error raises MeaningOff too; `search.search` explains the error.
    """
    query = {"text": text, "now": now.isoformat(), "lanes": lanes, "limit": limit, "offset": offset}
    return _post(home, "/search", {**query, "by_thread": by_thread}, results_from_json)


def related(home: Home, document: int, limit: int) -> list[Hit]:
    """Return what `related.related` returns for a document, from the web process. Raises MeaningOff if it does not answer."""
    return _post(home, "/related", {"document": document, "limit": limit}, hits_from_json)


def _post(home: Home, path: str, query: Mapping[str, Any], decode: Callable[[Any], T]) -> T:
    address, secret = WebAddress.read(home), own_secrets.stored(_token_file(home))
    if address is None or secret is None:
        raise MeaningOff("search by meaning: not running; start Catchment with `catchment up --detach`")
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", address.port, timeout=_CONNECT_SECONDS)
    try:
        connection.connect()
        connection.sock.settimeout(_ANSWER_SECONDS)
        headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
        connection.request("POST", path, json.dumps(query).encode(), headers)
        response = connection.getresponse()
        content = response.read()
    except TimeoutError:
        raise MeaningOff(f"search by meaning: no response within {_ANSWER_SECONDS:.0f} s") from None
    except (OSError, http.client.HTTPException):
        raise MeaningOff("search by meaning: no response; see `catchment logs web`") from None
    finally:
        connection.close()
    if response.status != _OK:
        raise MeaningOff(f"search by meaning: failed with status {response.status}; see `catchment logs web`")
    try:
        return decode(json.loads(content))
    except (KeyError, TypeError, ValueError):
        raise MeaningOff(_OTHER_VERSION) from None


def _digest(url: str) -> str:
    return sha256(url.encode("utf-8", "surrogateescape")).hexdigest()


def _record(home: Home) -> Path:
    return home.run / "web.json"


def _token_file(home: Home) -> Path:
    return home.path / "web-token"
