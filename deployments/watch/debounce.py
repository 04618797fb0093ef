"""The state machine that decides when to request a sync of a source. It has no clock, thread or connection.

The first change after a quiet period makes the source *due* at once (leading edge). Changes that follow make it due once more
when the burst has been quiet, unless a sync has taken them by then (trailing edge). The event of a due source depends on the
runs that the server knows: a run that has not started will see the change; a run in progress may have passed it. So at most
one run waits, and every change is followed by a run that starts after it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

QUIET = 0.3
"""Seconds without a change that end a burst."""
LONGEST = 1.0
"""Seconds from a change to its trailing edge, if the burst does not end earlier."""
LONGEST_BY_QUIET = 4.0
"""The same for a source with its own quiet period, as a multiple of that period."""

_FIRST_ANSWER, _LAST_ANSWER = 10.0, 900.0
_RUNNING = (0.1, 2.0)
_IDLE = (1.0, 15.0)
_DOWN = (0.5, 10.0)


@dataclass(frozen=True, slots=True)
class DeploymentStatus:
    """The state of a source on the server. `newest`: the ID of its newest run that is due; None if it has none.

    `deployment` is None when the source is not deployed. `waiting`: a run exists that no worker has taken yet. `running`: a
    run is in progress, or its worker is starting it.
    """

    deployment: str | None
    paused: bool = False
    newest: str | None = None
    waiting: bool = False
    running: bool = False


class Debounce:
    """The events of one source. All times are seconds of one monotonic clock.

    The caller checks `needs_status` at `wake_at`, passes the server's answer to `should_emit`, and emits an event if True.
    """

    def __init__(self, quiet: float | None = None, *, is_covered: Callable[[], bool] = lambda: False) -> None:
        """`quiet`: the quiet period of the source in seconds; None: `QUIET`.

        `is_covered` returns whether a sync that sees all changes so far has started.
        """
        self._quiet = QUIET if quiet is None else quiet
        self._longest = LONGEST if quiet is None else max(LONGEST, quiet * LONGEST_BY_QUIET)
        self._is_covered = is_covered
        self._last = -math.inf
        self._uncovered_since: float | None = None
        self._due = False
        self._pending: DeploymentStatus | None = None
        self._answer_by = 0.0
        self._look_at = math.inf
        self._delay = 0.0
        self.unanswered = 0
        """Number of consecutive events that no run followed."""

    def changed(self, now: float) -> None:
        """Record a change."""
        is_leading = now >= self._last + self._quiet
        self._last = now
        if self._due:
            # The sync that will be requested sees this change, too. The pause since the latest look may be long.
            if is_leading:
                self._look_at = min(self._look_at, now + QUIET)
        elif is_leading:
            self._become_due(now)
        elif self._uncovered_since is None:
            self._uncovered_since = now

    def rescan(self, now: float) -> None:
        """Record that any path may have changed: events were lost, or the source was not watched for a while."""
        self._become_due(now)

    def look(self, now: float) -> None:
        """Let a source that waits for the server read its status now, because a deployment changed there."""
        if self._due:
            self._delay = 0.0
            self._look_at = now

    def wake_at(self) -> float:
        """The time of the next call of `needs_status` if no change is reported first; infinity if the source is idle."""
        return min(self._trailing_edge(), self._look_at)

    def needs_status(self, now: float) -> bool:
        """Whether to read the runs of the source from the server now."""
        if now >= self._trailing_edge():
            self._become_due(now)
        if now < self._look_at:
            return False
        if self._is_covered():
            self._due, self._pending, self.unanswered = False, None, 0
            self._look_at = math.inf
            return False
        return True

    def should_emit(self, now: float, status: DeploymentStatus) -> bool:
        """Process the status of the source on the server. If True, emit the event now, and call `emitted` or `failed`."""
        if self._pending is not None and not self._is_answered(now, status, self._pending):
            return False
        if not self._due:
            self._look_at = math.inf
            return False
        if status.deployment is None or status.paused:
            self._later(now, _IDLE)
            return False
        if status.waiting:
            self._due = False
            self._look_at = math.inf
            return False
        if status.running:
            self._later(now, _RUNNING)
            return False
        return True

    def emitted(self, now: float, status: DeploymentStatus) -> None:
        """Record that the server accepted the event. `status`: the status passed to `should_emit` before."""
        self._due = False
        self._pending = status
        self._answer_by = now + min(_FIRST_ANSWER * 2**self.unanswered, _LAST_ANSWER)
        self._look_at = self._answer_by
        self._delay = 0.0

    def failed(self, now: float) -> None:
        """Record that the server did not answer; a due source stays due."""
        self._later(now, _DOWN)

    def _is_answered(self, now: float, status: DeploymentStatus, before: DeploymentStatus) -> bool:
        """Whether the last event is settled: a run followed it, or it was lost and will be emitted again."""
        if status.newest != before.newest:
            self.unanswered = 0
        elif now < self._answer_by:
            self._later(now, _RUNNING)
            self._look_at = min(self._look_at, self._answer_by) if self._due else self._answer_by
            return False
        else:
            self.unanswered += 1
            self._due = True
        self._pending = None
        return True

    def _become_due(self, now: float) -> None:
        self._uncovered_since = None
        self._delay = 0.0
        self._due = True
        self._look_at = now

    def _trailing_edge(self) -> float:
        if self._uncovered_since is None:
            return math.inf
        return min(self._last + self._quiet, self._uncovered_since + self._longest)

    def _later(self, now: float, bounds: tuple[float, float]) -> None:
        """Look again after a pause that grows from the lower bound to the upper one."""
        shortest, longest = bounds
        self._delay = min(max(shortest, self._delay * 1.5), longest)
        self._look_at = now + self._delay
