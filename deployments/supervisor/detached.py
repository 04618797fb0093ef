"""The background process of `up --detach`: `python -m deployments.supervisor.detached [PORT [ADDRESS HOST]]`; port 0 is any."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime

from catchment.errors import CatchmentError
from catchment.runtime.home import Home
from deployments.server.logs import FORMAT_VARIABLE, LogFormat, log_line
from deployments.server.ports import Exposure
from deployments.supervisor.supervisor import up


def main(arguments: list[str]) -> int:
    """Run `up`. Prints one line for the process that started it."""
    port, *beyond = arguments or ["0"]
    try:
        exposure = Exposure.parse(*beyond) if beyond else None
        return up(Home.default(), port=int(port) or None, exposure=exposure, announce=_say)
    except CatchmentError as error:
        _say(str(error))
        return error.exit_code


def _say(line: str) -> None:
    sys.stdout.buffer.write(
        log_line(f"{line}\n".encode(), datetime.now(UTC), "up", LogFormat(os.environ.get(FORMAT_VARIABLE, "text")))
    )
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
