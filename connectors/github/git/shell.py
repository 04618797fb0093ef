"""How a program is run where nobody else does it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress

from catchment.contracts import Ended


def run(command: Sequence[str], environment: Mapping[str, str], seconds: float) -> Ended:
    """As `Shell`; in a session of its own, so that it is stopped with all that it began."""
    process = subprocess.Popen(
        command,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=seconds)
    except BaseException as error:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            return Ended(None, "")
        raise
    return Ended(process.returncode, said.decode("utf-8", "replace"))
