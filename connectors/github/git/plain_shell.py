"""Run a program without Prefect. Flows replace this with their own shell."""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import IO

from catchment.contracts import MOST_OUTPUT, Ended
from connectors.child_end import END_SECONDS, end

_PIECE = 1 << 16


def run(command: Sequence[str], environment: Mapping[str, str], seconds: float, silence: float | None = None) -> Ended:
    """Run a program in its own session, so that it can be stopped with all its children. See `Shell`."""
    process = subprocess.Popen(
        command,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        output = _output(process.stdout, seconds, silence)
        code = process.wait(END_SECONDS) if output is not None else None
    except subprocess.TimeoutExpired:
        output = code = None
    finally:
        end(process, own_group=True)
    return Ended(None, "") if output is None else Ended(code, output.decode("utf-8", "replace"))


def _output(stream: IO[bytes], seconds: float, silence: float | None) -> bytes | None:
    """Return all output; None if a limit was exceeded."""
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
