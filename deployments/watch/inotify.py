"""Open Linux's inotify, and read its limits for each user and the present use by this user."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from watchdog.observers.inotify_c import InotifyFD

from deployments.watch.tree import Descriptor

_LIMITS = Path("/proc/sys/fs/inotify")


def open_inotify() -> Descriptor:
    """Return an inotify instance. Raises OSError."""
    descriptor = InotifyFD()
    descriptor.start()
    return descriptor


def inotify_limits() -> dict[str, int]:
    """The inotify limits for each user; empty if the system has no inotify."""
    limits = {}
    for name in ("max_user_watches", "max_user_instances"):
        with contextlib.suppress(OSError, ValueError):
            limits[name] = int((_LIMITS / name).read_text())
    return limits


def inotify_used() -> tuple[int, int]:
    """The numbers of inotify watches and instances of this user's processes."""
    watches = instances = 0
    for process in Path("/proc").glob("[0-9]*"):
        # A process may exit meanwhile, and those of other users are not readable.
        with contextlib.suppress(OSError):
            if process.stat().st_uid != os.getuid():
                continue
            for link in (process / "fd").iterdir():
                with contextlib.suppress(OSError):
                    if str(link.readlink()) == "anon_inode:inotify":
                        instances += 1
                        info = (process / "fdinfo" / link.name).read_text()
                        watches += sum(line.startswith("inotify wd:") for line in info.splitlines())
    return watches, instances
