"""How a program is run where nobody else does it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO

from catchment.contracts import MOST_OUTPUT, Ended

_PIECE = 1 << 16
_END_SECONDS = 5.0


def run(command: Sequence[str], environment: Mapping[str, str], seconds: float, silence: float | None = None) -> Ended:
    """As `Shell`; in a session of its own, so that it is stopped with all that it began."""
    process = subprocess.Popen(
        command,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None
    with process.stdout as stream:
        try:
            output = _output(stream, seconds, silence)
            code = process.wait(_END_SECONDS) if output is not None else None
        except subprocess.TimeoutExpired:
            output = code = None
        finally:
            _kill(process)
    return Ended(None, "") if output is None else Ended(code, output.decode("utf-8", "replace"))


def _output(stream: IO[bytes], seconds: float, silence: float | None) -> bytes | None:
    """All that is written there; None at a limit."""
    ready = select.poll()
    ready.register(stream, select.POLLIN | select.POLLHUP)
    ends = time.monotonic() + seconds
    output = bytearray()
    while len(output) <= MOST_OUTPUT:
        left = max(0.0, ends - time.monotonic())
        if not ready.poll(1_000 * (left if silence is None else min(left, silence))):
            return None
        if not (piece := os.read(stream.fileno(), _PIECE)):
            return bytes(output)
        output += piece
        if time.monotonic() >= ends:
            return None
    return None


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    # One that waits for a disk that does not respond stays until the disk does.
    with suppress(subprocess.TimeoutExpired):
        process.wait(_END_SECONDS)
