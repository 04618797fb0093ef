"""A server that lives and answers nothing: noticed by asking it now and then."""

from __future__ import annotations

import time
from collections.abc import Callable

_ASK_SECONDS = 5.0
_IN_VAIN = 9
"""Questions in a row: a machine that is busy with everything else may keep a server silent for fewer."""


class Silence:
    """How often in a row a server has not answered. `answers` asks it once; `clock` gives monotonic seconds."""

    def __init__(self, answers: Callable[[], bool], clock: Callable[[], float] = time.monotonic) -> None:
        self._answers = answers
        self._clock = clock
        self.end()

    def end(self) -> None:
        """Begin anew: it has answered, or is another one now."""
        self._in_vain = 0
        self._due = self._clock() + _ASK_SECONDS

    def is_long(self) -> bool:
        """Whether it has been asked in vain so often that it will not answer any more; asks it when it is time to."""
        if self._clock() >= self._due:
            asked_in_vain = self._in_vain + 1
            self.end()
            self._in_vain = 0 if self._answers() else asked_in_vain
        return self._in_vain >= _IN_VAIN
