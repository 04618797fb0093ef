"""The watcher as a process: `python -m deployments.watch`."""

from __future__ import annotations

import signal
import sys

from catchment.runtime.home import Home
from deployments.server.child_process import become_child
from deployments.watch.watcher import Watcher


def main() -> None:
    """Watch the sources of `CATCHMENT_HOME` until SIGTERM or Ctrl-C."""
    become_child("watcher")
    watcher = Watcher(Home.default().make(), _say)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: watcher.stop())
    watcher.run()


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
