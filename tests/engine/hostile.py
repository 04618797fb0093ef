"""A folder in which the name of a file determines how reading it fails."""

from __future__ import annotations

import os
import signal
import time
from typing import ClassVar

from catchment.errors import AccessDenied, TimedOut
from catchment.model import Item, RawContent
from connectors.local_files import LocalFiles, LocalFilesSettings


class Hostile(LocalFiles):
    """Append a byte to `reads/<name>`, beside the root, on every successful read so that tests can count reads.

    While there is a file `locked` beside the root, no file can be read.
    """

    kind: ClassVar[str] = "hostile"

    def __init__(self, settings: LocalFilesSettings) -> None:
        super().__init__(settings)
        self._reads = settings.root.parent / "reads"

    def fetch(self, item: Item) -> RawContent:
        name = item.locator.rpartition("/")[2]
        if name.startswith("unreadable") or self._reads.with_name("locked").exists():
            raise AccessDenied("the item may not be read; change its mode")
        if name.startswith("hangs"):
            time.sleep(3_600)
        if name.startswith("swells"):
            list(range(400_000_000))
        if name.startswith("kills"):
            os.kill(os.getpid(), signal.SIGKILL)
        if name.startswith("flaky") and not (self._reads / name).exists():
            self._count(name)
            raise TimedOut("not this time")
        self._count(name)
        return super().fetch(item)

    def _count(self, name: str) -> None:
        with (self._reads / name).open("ab") as file:
            file.write(b".")
