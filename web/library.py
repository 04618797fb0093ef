"""The library as the web process holds it: opened once, with the model and the vectors in memory."""

from __future__ import annotations

import threading
from datetime import datetime
from typing import Annotated

from pydantic import AwareDatetime, ConfigDict, Field, TypeAdapter
from pydantic.dataclasses import dataclass

from catchment.ledger import Ledger
from catchment.search.search import Results, search

_READ_SECONDS = 5.0
"""Time limit of one transaction."""
_RESULTS = TypeAdapter(Results)


@dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid"))
class SearchRequest:
    """The parameters of `catchment.search.search.search`. `now` defaults to the present, in the time zone of this process."""

    text: str
    limit: Annotated[int, Field(ge=1, le=1_000)] = 20
    offset: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    by_thread: bool = False
    now: AwareDatetime | None = None


class WarmLibrary:
    """A library for all threads of this process. Its methods block, and raise CatchmentError."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._lock = threading.Lock()
        self._ledger: Ledger | None = None

    def search(self, request: SearchRequest) -> bytes:
        """Return the results as JSON. Raises BadInput if the query has an error."""
        results = search(
            self.ledger(),
            request.text,
            request.now or datetime.now().astimezone(),
            limit=request.limit,
            offset=request.offset,
            by_thread=request.by_thread,
        )
        return _RESULTS.dump_json(results)

    def check(self) -> None:
        """Read from the ledger. Raises an error if that is impossible."""
        self.ledger().sources.all()

    def ledger(self) -> Ledger:
        """Return the ledger. Raises NotFound before the first source was added, and any error of `Ledger.inspect`."""
        with self._lock:
            if self._ledger is None:
                self._ledger = Ledger.inspect(self._url, seconds=_READ_SECONDS)
            return self._ledger
