"""`up --detach`: runs `up` in a background process, and returns when it is ready or has failed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable

from catchment.errors import TryAgain
from catchment.runtime.home import Home
from deployments.server.logs import message_of, rotate
from deployments.server.ports import Exposure, is_free
from deployments.server.processes import end, until
from deployments.server.running import running, starting
from deployments.supervisor.service import START_SECONDS

_START_SECONDS = 2 * START_SECONDS + 60
"""Longer than the time limits of the server and the worker together."""
STOP_SECONDS = 35.0


def start_in_background(
    home: Home, port: int | None, exposure: Exposure | None, announce: Callable[[str], None]
) -> int:
    """Start `up` and wait until it is ready; returns 0. Raises TryAgain if it fails; no process is left running then."""
    if port is not None and not is_free(port):
        raise TryAgain(f"port {port}: in use by another program; choose another --port, or omit it")
    log = home.logs / "up.log"
    rotate(log)
    command = [
        sys.executable,
        "-P",
        "-m",
        "deployments.supervisor.detached",
        str(port or 0),
        *([exposure.address, exposure.host] if exposure else []),
    ]
    # Several may be started at once, and one of them wins. Appending keeps the output of each.
    with open(log, "a", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as output:
        before = output.tell()
        process = subprocess.Popen(
            command,
            env={**os.environ, "CATCHMENT_HOME": str(home.path)},
            cwd=home.path,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    # The process outlives this call. The thread reaps it if it exits before this process.
    threading.Thread(target=process.wait, daemon=True).start()
    try:
        # The process exits if another one is starting the system.
        is_in_time = until(
            lambda: running(home) is not None or (process.poll() is not None and starting(home) is None), _START_SECONDS
        )
    except BaseException:
        # Ctrl-C, for example. The user expects that no process is left running.
        end(process, grace=STOP_SECONDS)
        raise
    output_lines = [*map(message_of, log.read_bytes()[before:].decode(errors="replace").strip().splitlines())]
    if not is_in_time:
        end(process, grace=STOP_SECONDS)
        raise TryAgain("Catchment did not start in time and was terminated; try again when the machine is less busy")
    if running(home) is None:
        raise TryAgain(
            output_lines[-1] if output_lines else "Catchment did not start; try again without --detach to see why"
        )
    for line in output_lines:
        announce(line)
    return 0
