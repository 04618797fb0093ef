"""A program in a pseudo-terminal, which a test answers like a person at the keyboard."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import subprocess
import time
from collections.abc import Mapping, Sequence

_SECONDS = 240.0
_AGAIN_SECONDS = 3.0


class Terminal:
    """One program with its own controlling terminal. `shown` is all text that it has written."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str]) -> None:
        self._keyboard, screen = pty.openpty()
        # `setsid` makes the terminal the controlling one, so that Ctrl-C reaches the program as SIGINT.
        self.process = subprocess.Popen(
            ["setsid", "--ctty", *words], env=dict(environment), stdin=screen, stdout=screen, stderr=screen
        )
        os.close(screen)
        self.shown = ""

    def reads(self, text: str) -> None:
        """Wait until the program has written a text after the text read before."""
        begin, deadline = len(self.shown), time.monotonic() + _SECONDS
        while text not in self.shown[begin:]:
            assert time.monotonic() < deadline, self.shown
            assert self._take(deadline - time.monotonic()), f"{text!r} was not written, but:\n{self.shown}"

    def types(self, keys: str) -> None:
        """Send keys."""
        os.write(self._keyboard, keys.encode())

    def interrupts(self) -> int:
        """Press Ctrl-C until the program ends; return its exit code. Python misses a Ctrl-C sent just before it reads."""
        while self.process.poll() is None:
            self.types("\x03")
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(_AGAIN_SECONDS)
        return self.ends()

    def ends(self) -> int:
        """Read until the program ends; return its exit code."""
        while self._take(_SECONDS):
            pass
        os.close(self._keyboard)
        return self.process.wait(_SECONDS)

    def _take(self, seconds: float) -> bool:
        if not select.select([self._keyboard], [], [], seconds)[0]:
            return False
        try:
            more = os.read(self._keyboard, 65_536)
        except OSError:  # the program closed its side
            return False
        self.shown += more.decode(errors="replace")
        return bool(more)
