"""A watched GitHub source: the webhook receiver requests its syncs, so it has an automation and a status only."""

from __future__ import annotations

from collections.abc import Callable

from catchment.runtime.home import Home
from catchment.runtime.watch_status import Watching, WatchState
from deployments.sources.sources_file import SourceEntry
from deployments.watch.debounce import Debounce
from deployments.watch.tree import Descriptor, WatchEvent
from deployments.watch.webhook import is_served

_NO_RECEIVER = WatchState(
    Watching.LIMITED,
    "no webhook receiver is running",
    "start it with `catchment webhook serve`; until then the schedule finds changes",
)


class WatchedHook:
    """A GitHub source that is read over the network. All times are of one monotonic clock."""

    def __init__(self, entry: SourceEntry, home: Home) -> None:
        self.entry = entry
        self.debounce = Debounce(entry.quiet)
        self._home = home
        self._state = _NO_RECEIVER

    def check(self, now: float, _descriptor: Callable[[], Descriptor]) -> None:
        """Check whether a receiver is running. After its start, all items count as changed."""
        before, self._state = self._state, WatchState(Watching.WATCHING) if is_served(self._home) else _NO_RECEIVER
        if self._state.state is Watching.WATCHING and before is _NO_RECEIVER:
            self.debounce.rescan(now)

    def complete(self) -> None:
        """Do nothing: the next `check` finds a new receiver."""

    def handle(self, now: float, event: str | WatchEvent) -> None:
        """Ignore the event: the receiver is another process and emits none here."""

    def rebuild(self, now: float) -> None:
        """Request a full comparison. Changes in the meantime are unknown."""
        self.debounce.rescan(now)

    def close(self) -> None:
        """Do nothing: no resource is open."""

    def state(self) -> WatchState:
        """Return how well the source is watched."""
        return self._state
