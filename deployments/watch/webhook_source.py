"""A source whose host tells of changes by itself, to the receiver of webhooks: here it only has its automation, and a state."""

from __future__ import annotations

from collections.abc import Callable

from catchment.runtime.home import Home
from deployments.sources.sources_file import SourceEntry
from deployments.watch.debounce import Debounce
from deployments.watch.status import Watching, WatchState
from deployments.watch.tree import Descriptor, Sign
from deployments.watch.webhook import is_served

_UNHEARD = WatchState(
    Watching.LIMITED,
    "no webhook receiver is running",
    "start it with `catchment webhook serve`; until then the schedule finds changes",
)


class WatchedHook:
    """A source of repositories at a host. All times are of one monotonic clock."""

    def __init__(self, entry: SourceEntry, home: Home) -> None:
        self.entry = entry
        self.debounce = Debounce(entry.quiet)
        self._home = home
        self._state = _UNHEARD

    def check(self, now: float, _descriptor: Callable[[], Descriptor]) -> None:
        """See whether a receiver runs; when one begins to, nobody knows what happened before. May be called at any time."""
        before, self._state = self._state, WatchState(Watching.WATCHING) if is_served(self._home) else _UNHEARD
        if self._state.state is Watching.WATCHING and before is _UNHEARD:
            self.debounce.rescan(now)

    def complete(self) -> None:
        """Nothing: the next `check` sees it."""

    def heard(self, now: float, sign: str | Sign) -> None:
        """Nothing is told here."""

    def rebuild(self, now: float) -> None:
        """Begin again: what happened meanwhile is not known."""
        self.debounce.rescan(now)

    def close(self) -> None:
        """Nothing is held."""

    def state(self) -> WatchState:
        """How well the source is watched."""
        return self._state
