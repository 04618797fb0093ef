"""Resources shared by all syncs of one process: a ledger per database, the lease renewal thread, and GC thresholds."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from catchment.errors import LedgerUnavailable, TryAgain
from catchment.ledger import Ledger
from catchment.parser_pool import ParserPool
from catchment.runtime.home import Home

_lock = threading.Lock()
_ledgers: dict[str, tuple[Ledger, int]] = {}
"""By database URL: the open ledger, and how many use it."""
_syncing: set[tuple[str, str]] = set()
"""Database URL and name of each source that a sync of this process is open for."""


_pool: ParserPool | None = None
_PATIENCE_SECONDS = 150.0
"""How long a sync waits for a PostgreSQL server: longer than an update of the server takes."""


def configure_gc() -> None:
    """Run the cyclic GC less often: a batch creates 100,000 tuples and no cycles (8 % less CPU over 10,000 notes).

    Call once in each process that runs syncs.
    """
    gc.set_threshold(50_000, 20, 50)


@contextmanager
def shared_ledger(home: Home) -> Iterator[Ledger]:
    """Yield the process's ledger of this home: opened by its first user, closed by its last. Raises like `Ledger.open`."""
    url = home.database_url
    with _lock:
        ledger, users = _ledgers.get(url) or (Ledger.open(home, patience=_PATIENCE_SECONDS), 0)
        _ledgers[url] = ledger, users + 1
    try:
        yield ledger
    finally:
        with _lock:
            users = _ledgers[url][1] - 1
            if users:
                _ledgers[url] = ledger, users
            else:
                del _ledgers[url]
                ledger.close()


@contextmanager
def only_sync(url: str, source: str) -> Iterator[None]:
    """Allow one sync per source in this process. Raises TryAgain if one is open.

    The ledger identifies a sync by its process, so a sync that could not be closed (disk full) looks alive until the process
    exits.
    """
    with _lock:
        if (url, source) in _syncing:
            raise TryAgain("a sync of this source is already running; try again later")
        _syncing.add((url, source))
    try:
        yield
    finally:
        with _lock:
            _syncing.remove((url, source))


def use_pool(pool: ParserPool | None) -> None:
    """Set the parser pool of all further syncs in this process. With None, each sync creates its own."""
    global _pool  # noqa: PLW0603 - one for the process, as the ledgers
    _pool = pool


def shared_pool() -> ParserPool | None:
    """Return the pool set by `use_pool`."""
    return _pool


class Renewals:
    """Renews the leases of all open syncs from one thread, so that a busy event loop does not lose them.

    The thread starts with the first sync and ends with the last: a process may fork when none is open.
    """

    def __init__(self, every_seconds: float) -> None:
        self._every = every_seconds
        self._lock = threading.Lock()
        self._renewing: list[Callable[[], None]] = []
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    @contextmanager
    def of(self, renew: Callable[[], None]) -> Iterator[None]:
        """Call `renew` at intervals until the block ends."""
        with self._lock:
            self._renewing.append(renew)
            if self._thread is None:
                self._over = threading.Event()
                self._thread = threading.Thread(target=self._run, args=(self._over,), name="leases", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            last = None
            with self._lock:
                self._renewing.remove(renew)
                if not self._renewing:
                    last, self._thread = self._thread, None
                    self._over.set()
            if last is not None:
                last.join()

    def _run(self, over: threading.Event) -> None:
        while not over.wait(self._every):
            with self._lock:
                renewing = list(self._renewing)
            for renew in renewing:
                # If the ledger is busy, the next renewal still precedes the end of the leases.
                with suppress(LedgerUnavailable):
                    renew()
