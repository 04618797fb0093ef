"""The sources that assistants may use: their setting `assistants` is true, here or on another host. All others are kept."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from catchment.errors import ConfigError, TryAgain
from catchment.runtime.home import Home
from catchment.runtime.membership import Membership
from deployments.server.running import running

if TYPE_CHECKING:
    from deployments.sources.sources_file import SourceEntry


_FRESH_SECONDS = 5
"""Time for which the answer of the server about other hosts counts."""


class Sharing:
    """Reads sources.yaml again whenever it has changed, so that a changed setting holds from the next call on.

    Requests the shared sources of other hosts from the server every few seconds. Shares none of them while it does not answer.
    """

    def __init__(self, home: Home) -> None:
        self._home, self._file = home, home.sources_file
        self._lock = threading.Lock()
        self._read: tuple[tuple[int, ...], dict[str, SourceEntry], list[str]] | None = None

    def shared(self) -> Mapping[str, SourceEntry]:
        """Return the shared sources by name. Raises ConfigError if the file has an error; no source is shared then."""
        return self._sources()[0]

    def kept(self) -> Sequence[str]:
        """Return the names of the sources that are kept, for people and not for assistants. Raises as `shared`."""
        return self._sources()[1]

    def _sources(self) -> tuple[Mapping[str, SourceEntry], Sequence[str]]:
        from deployments.sources.sources_file import SourcesFile

        with self._lock:
            version = self._version()
            if self._read is None or self._read[0] != version:
                try:
                    entries = SourcesFile.load(self._file).entries
                except ConfigError:
                    # Its message may name a source that is kept.
                    problem = f"{self._file.name}: has an error, so no source is shared"
                    raise ConfigError(f"{problem}; a person runs: catchment config validate") from None
                entries = (*entries, *self._elsewhere())
                shared = {entry.name: entry for entry in entries if entry.settings.assistants}
                self._read = version, shared, [entry.name for entry in entries if entry.name not in shared]
            return self._read[1:]

    def _elsewhere(self) -> Iterable[SourceEntry]:
        if (host := Membership.of(self._home)) is None or (server := running(self._home)) is None:
            return ()
        from deployments.sources.placement import elsewhere

        try:
            return elsewhere(server, host).values()
        except TryAgain:
            return ()

    def _version(self) -> tuple[int, ...]:
        moment = (int(time.monotonic() // _FRESH_SECONDS),) if Membership.of(self._home) else ()
        try:
            status = self._file.stat()
        except FileNotFoundError:
            return moment
        return status.st_ino, status.st_size, status.st_mtime_ns, *moment
