"""Children of the supervisor: they exit with their parent, have a name in `ps -o comm`, and a pause before a restart."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from catchment.runtime.system.linux import die_with_parent, name_process

PARENT_VARIABLE = "CATCHMENT_SUPERVISOR"
"""Environment variable with the supervisor's pid, set for its children."""
_FIRST_SECONDS, _LAST_SECONDS = 1.0, 60.0
_HEALTHY_SECONDS = 60.0
"""Duration of a life after which the next death is the first again."""


def become_child(name: str) -> None:
    """If the supervisor started this process, exit with it, and name the process `name`."""
    # Removed, because children of this process have another parent.
    if parent := os.environ.pop(PARENT_VARIABLE, None):
        end_with_parent(int(parent))
        name_process(name)


def end_with_parent(parent: int) -> None:
    """Have the system kill this process when its parent exits. The parent passes its own pid as `parent`.

    If the parent died before this call, the process has another parent, and exits at once. In a container the parent may be
    pid 1.
    """
    if not die_with_parent():
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    if os.getppid() != parent:
        os._exit(1)


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


class RestartPause:
    """The pause before a process or thread that died is started again.

    Doubles with each short life, from 1 s to 60 s. `clock` returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.started = 0.0
        """Time of the latest start; 0 before the first."""
        self.seconds = 0.0
        """The latest pause."""
        self._due = 0.0

    def begin(self) -> None:
        """Record a start."""
        self.started = self._clock()

    def died(self) -> float:
        """Record an exit or a failed start. Returns the seconds until the next start is due."""
        now = self._clock()
        is_first = now - self.started > _HEALTHY_SECONDS
        self.seconds = _FIRST_SECONDS if is_first else min(max(2 * self.seconds, _FIRST_SECONDS), _LAST_SECONDS)
        self._due = now + self.seconds
        return self.seconds

    @property
    def left(self) -> float:
        """The seconds until the next start is due; 0 if it is."""
        return max(0.0, self._due - self._clock())

    @property
    def is_growing(self) -> bool:
        """Whether several lives in a row were short, and none has been long enough since."""
        return self.seconds > _FIRST_SECONDS and self._clock() < max(self._due, self.started) + _HEALTHY_SECONDS
