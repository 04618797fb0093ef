"""The watcher's report: a small file in the home's `run` folder, read by `status` and `check`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from catchment.runtime.home import Home
from catchment.runtime.process import alive, identity
from catchment.runtime.reports import ProcessReport


class Watching(StrEnum):
    """How well a source is watched."""

    WATCHING = "watching"
    LIMITED = "limited"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class WatchState:
    """How a source is watched. `reason` and `remedy` are shown to the user; both are empty if it is watched completely."""

    state: Watching
    reason: str = ""
    remedy: str = ""
    folders: int = 0


@dataclass(frozen=True, slots=True)
class WatchReport(ProcessReport):
    """The identity of the watcher, and how it watches each source, by name."""

    file: ClassVar = "watch.json"
    watcher: str
    sources: Mapping[str, WatchState]

    @property
    def is_valid(self) -> bool:
        """Whether the watcher is alive."""
        return alive(self.watcher)


def write(home: Home, sources: Mapping[str, WatchState]) -> bool:
    """Write the report, and return whether the disk took it. `sources` are the watched sources of this process, by name."""
    return WatchReport(identity(), dict(sorted(sources.items()))).write(home)


def read(home: Home) -> Mapping[str, WatchState] | None:
    """Return how each source is watched, by name; None if no watcher is running."""
    report = WatchReport.read(home)
    return report.sources if report else None
