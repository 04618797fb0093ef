"""The library as the web process holds it: opened once, with the model and the vectors in memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, TypeVar

from anyio import CapacityLimiter, to_thread
from pydantic import AwareDatetime, ConfigDict, Field
from pydantic.dataclasses import dataclass

from catchment.errors import CatchmentError, TryAgain
from catchment.ledger import Incident, Ledger, time_limit
from catchment.runtime.home import Home
from catchment.search.meaning.index import MeaningIndex
from catchment.search.related import related as near
from catchment.search.remote import SECONDS
from catchment.search.results import Hit, Lanes, Results
from catchment.search.search import search
from catchment.telemetry.catalogue import SEARCH
from catchment.telemetry.tally import Tally
from catchment.views.documents import NEAREST, RelatedView, related
from catchment.views.resolver import Settings

_READ_SECONDS = 4.0
"""Time limit of a transaction; of a search, the request has it."""
_LOAD_SECONDS = 120.0
"""Time limit of the transaction that reads the vectors: five seconds for a million, and longer on a busy machine."""
_AT_ONCE = 3
"""Reads that run at the same time, each in a thread."""
_WAITING = 16
"""Reads that wait for a thread."""
_FIRST_PAUSE, _LONGEST_PAUSE = 2.0, 600.0
"""Seconds until the next attempt with a model that fails."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid"))
class SearchRequest:
    """The parameters of `catchment.search.search.search`. `now` defaults to the present, in the time zone of this process.

    `only`: the names of the sources to search, as if there were no others; None: all. `seconds`: the time limit.
    """

    text: str
    limit: Annotated[int, Field(ge=1, le=1_000)] = 20
    offset: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    by_conversation: bool = False
    lanes: Lanes = Lanes.BOTH
    now: AwareDatetime | None = None
    only: frozenset[str] | None = None
    seconds: Annotated[float, Field(gt=0, le=60)] = SECONDS


@dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid"))
class RelatedRequest:
    """The parameters of `catchment.views.documents.related`, for a document."""

    document: Annotated[int, Field(ge=0, le=2**62)]
    limit: Annotated[int, Field(ge=1, le=1_000)] = NEAREST


class WarmLibrary:
    """A library for all threads of this process. Its methods block, except `read`, and raise CatchmentError.

    Args:
        tell: Receives the reason when embeddings cannot be made, and "" when they can be made again.
        settings: Returns the settings of the sources by name, for `served_file`.
    """

    def __init__(self, home: Home, tell: Callable[[str], None], settings: Settings = dict) -> None:
        self._home, self._tell, self.settings = home, tell, settings
        self._pause = self._not_before = 0.0
        self._lock = threading.Lock()
        self._threads = CapacityLimiter(_AT_ONCE)
        self._ledger: Ledger | None = None
        self._meaning: MeaningIndex | None = None
        self._limited: tuple[frozenset[str], Ledger, MeaningIndex] | None = None
        """The library without some sources, as last searched."""
        self.tally = Tally()
        """Counts of this process that are not stored yet."""
        self.unsaved: Callable[[], Sequence[Incident]] = tuple
        """Returns the incidents that could not be stored as they are now."""
        self.meaning_off: str | None = "search by meaning: starting"
        """Why search by meaning is not possible now; None if it is."""

    @property
    def home(self) -> Home:
        """The home of this library."""
        return self._home

    @property
    def ledger(self) -> Ledger:
        """The ledger, for reading. Raises NotFound before the first source was added, and as `Ledger.inspect`."""
        return self._open_library()[0]

    async def read(self, function: Callable[[], T]) -> T:
        """Call a function that reads in a thread, and return its result. Raises TryAgain if too many calls wait."""
        if self._threads.statistics().tasks_waiting >= _WAITING:
            raise TryAgain("busy; try again")
        return await to_thread.run_sync(function, limiter=self._threads)

    def search(self, request: SearchRequest) -> Results:
        """Return the results of a search. Raises BadInput if the query has an error."""
        ledger, meaning = self._open_library() if request.only is None else self._open_sources(request.only)
        start = time.monotonic()
        results = search(
            ledger,
            request.text,
            request.now or datetime.now().astimezone(),
            meaning=meaning,
            lanes=request.lanes,
            limit=request.limit,
            offset=request.offset,
            by_conversation=request.by_conversation,
            seconds=request.seconds,
        )
        self.tally.add(SEARCH, time.monotonic() - start)
        return results

    def related(self, request: RelatedRequest) -> RelatedView:
        """Return the documents related to a document. Raises NotFound."""
        ledger, meaning = self._open_library()
        with time_limit(_READ_SECONDS):
            return related(ledger, ledger.library.document(request.document), meaning, request.limit)

    def near(self, content_id: int, limit: int) -> list[Hit]:
        """Return the documents whose meaning is nearest to a content. Raises MeaningOff without embeddings."""
        with time_limit(_READ_SECONDS):
            return near(*self._open_library(), content_id, limit)

    def warm(self) -> bool:
        """Load the model and the vectors. Returns whether search by meaning is possible; else `meaning_off` has the reason."""
        try:
            _, meaning = self._open_library()
            meaning.warm()
            self.meaning_off = None
        except CatchmentError as reason:
            self.meaning_off = str(reason)
        except Exception as error:  # noqa: BLE001 - search by words works without the model
            self.meaning_off = _failure_text(error)
        return self.meaning_off is None

    def embed_few(self) -> None:
        """Make missing embeddings if they are few. After each failure in a row, pauses for a longer time."""
        if time.monotonic() < self._not_before:
            return
        try:
            self._open_library()[1].embed_few()
        except CatchmentError as reason:
            self.meaning_off = str(reason)
        except Exception as error:  # noqa: BLE001 - as in `warm`
            self.meaning_off = _failure_text(error)
        else:
            if self._pause:
                self._tell("")
            self._pause = 0.0
            return
        self._tell(self.meaning_off)
        self._pause = min(2 * self._pause or _FIRST_PAUSE, _LONGEST_PAUSE)
        self._not_before = time.monotonic() + self._pause

    def _open_library(self) -> tuple[Ledger, MeaningIndex]:
        """Return the ledger and the meaning. Raises NotFound before the first source was added, and as `Ledger.inspect`."""
        with self._lock:
            if self._ledger is None or self._meaning is None:
                self._ledger = Ledger.inspect(self._home, seconds=_READ_SECONDS, read_only=True)
                self._meaning = MeaningIndex(Ledger.inspect(self._home, seconds=_LOAD_SECONDS))
            return self._ledger, self._meaning

    def _open_sources(self, names: frozenset[str]) -> tuple[Ledger, MeaningIndex]:
        _, meaning = self._open_library()
        with self._lock:
            if self._limited is None or self._limited[0] != names:
                ledger, vectors = (Ledger.inspect(self._home, seconds=_LOAD_SECONDS, only=names) for _ in range(2))
                self._limited = names, ledger, MeaningIndex(vectors, meaning)
            return self._limited[1:]


def _failure_text(error: Exception) -> str:
    return f"search by meaning: failed ({type(error).__name__})"
