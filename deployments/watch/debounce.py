"""When a source is to be synced: a state machine without a clock, a thread or a file of its own.

Changes gather until it is quiet; then the source is *due*. What a due source has to do depends on its runs, as the server
tells them: one that waits to begin will see the change, one that goes on may have passed it by. So there is never more
than one run waiting, and no change goes without a run that began after it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

QUIET = 0.3
"""Seconds without a change after which one changed file is taken to be written."""
QUIET_IN_BURST = 1.0
BURST = 100
"""Changed paths from which on the longer quiet is waited for; below it grows with their number."""
LONGEST = 2.0
"""Seconds after which a batch is due though it never was quiet."""
MOST = 1_000
"""Changed paths at which a batch is due at once."""

LEAD = 0.28
"""Seconds that a sync takes to begin at the very least; it waits itself for what is left of the quiet."""
LONGEST_BY_QUIET = 4.0
"""With a quiet of the source's own: a batch is due after so many times it, though it never was quiet."""

_FIRST_ANSWER, _LAST_ANSWER = 10.0, 900.0
_RUNNING = (0.1, 2.0)
_IDLE = (1.0, 15.0)
_DOWN = (0.5, 10.0)


@dataclass(frozen=True, slots=True)
class Standing:
    """How a source stands on the server. `newest` is the id of its newest run that should have begun, None without one.

    `deployment` is None when the source is not deployed; `waiting` says that a run is yet to begin, `running` that one
    goes on.
    """

    deployment: str | None
    paused: bool = False
    newest: str | None = None
    waiting: bool = False
    running: bool = False


class Debounce:
    """One source's way from a change to the question for a sync. All times are seconds of one monotonic clock.

    The caller asks `wants_look` at `wake_at`, tells what the server said by `looked`, and emits an event if that says so.
    """

    def __init__(
        self, quiet: float | None = None, *, lead: float = 0.0, taken: Callable[[], bool] = lambda: False
    ) -> None:
        """`quiet`: seconds without a change that the source asks for, in place of what is usual.

        `lead`: how long before it is quiet a sync is asked for. `taken` tells whether a sync has begun that sees all changes
        so far.
        """
        self._quiet = quiet
        self._lead = lead
        self._taken = taken
        self._paths: set[str] = set()
        self._first = self._last = 0.0
        self._count = 0
        self._due = False
        self._asked: Standing | None = None
        self._answer_by = 0.0
        self._look_at = math.inf
        self._delay = 0.0
        self.unanswered = 0
        """How many events in a row no run came after."""

    def needs(self, path: str) -> bool:
        """Whether it matters if this path is a wanted one: not when it counted already, or when nothing more can."""
        return not self._due and path not in self._paths

    def changed(self, now: float, path: str) -> None:
        """Something happened to a wanted path."""
        if not self._paths and not self._due:
            self._first, self._count = now, 0
        self._last = now
        if self._due:
            # The sync that is still to be asked for will see this change too.
            return
        if len(self._paths) < MOST:
            self._paths.add(path)
            self._count = len(self._paths)

    def rescan(self, now: float) -> None:
        """Anything may have changed: events were lost, or nobody watched for a while."""
        self._first = self._last = 0.0
        self._become_due(now)

    def quiet_at(self) -> float:
        """When the changes so far are taken to be over, if there are no more."""
        if self._count >= MOST and self._quiet is None:
            return self._last
        if self._quiet is not None:
            return min(self._last + self._quiet, self._first + max(LONGEST, self._quiet * LONGEST_BY_QUIET))
        quiet = QUIET + (QUIET_IN_BURST - QUIET) * min(1.0, max(0, self._count - 1) / (BURST - 1))
        return min(self._last + quiet, self._first + LONGEST)

    def wake_at(self) -> float:
        """When `wants_look` is to be asked again, if nothing happens before; infinity when there is nothing to do."""
        return min(self._batch_due(), self._look_at)

    def wants_look(self, now: float) -> bool:
        """Whether it is time to look how the source stands on the server."""
        if now >= self._batch_due():
            self._become_due(now)
        if now < self._look_at:
            return False
        if self._taken():
            self._due, self._asked, self.unanswered = False, None, 0
            self._look_at = math.inf
            return False
        return True

    def looked(self, now: float, standing: Standing) -> bool:
        """Take what the server said; True asks the caller to emit the event now, and to report by `emitted` or `failed`."""
        if self._asked is not None and not self._is_answered(now, standing, self._asked):
            return False
        if not self._due:
            self._look_at = math.inf
            return False
        if standing.deployment is None or standing.paused:
            self._later(now, _IDLE)
            return False
        if standing.waiting:
            self._due = False
            self._look_at = math.inf
            return False
        if standing.running:
            self._later(now, _RUNNING)
            return False
        return True

    def emitted(self, now: float, standing: Standing) -> None:
        """The server took the event; `standing` is what was seen just before."""
        self._due = False
        self._asked = standing
        self._answer_by = now + min(_FIRST_ANSWER * 2**self.unanswered, _LAST_ANSWER)
        self._look_at = self._answer_by
        self._delay = 0.0

    def failed(self, now: float) -> None:
        """The server did not answer; what is due stays due."""
        self._later(now, _DOWN)

    def _is_answered(self, now: float, standing: Standing, asked: Standing) -> bool:
        """Whether the last event is dealt with: a run came after it, or it was lost and has to be emitted again."""
        if standing.newest != asked.newest:
            self.unanswered = 0
        elif now < self._answer_by:
            self._later(now, _RUNNING)
            self._look_at = min(self._look_at, self._answer_by) if self._due else self._answer_by
            return False
        else:
            self.unanswered += 1
            self._due = True
        self._asked = None
        return True

    def _become_due(self, now: float) -> None:
        self._paths.clear()
        self._delay = 0.0
        self._due = True
        self._look_at = now

    def _batch_due(self) -> float:
        return self.quiet_at() - self._lead if self._paths else math.inf

    def _later(self, now: float, bounds: tuple[float, float]) -> None:
        """Look again after a pause that grows from one end of the bounds to the other."""
        shortest, longest = bounds
        self._delay = min(max(shortest, self._delay * 1.5), longest)
        self._look_at = now + self._delay
