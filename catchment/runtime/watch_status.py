"""The watcher's report: a small file in the home's `run` folder, read by `status` and `doctor`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from catchment.runtime import atomic_files
from catchment.runtime.home import Home
from catchment.runtime.process import alive, identity


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


def write(home: Home, sources: Mapping[str, WatchState]) -> None:
    """Write the report. `sources` are those that this process watches, by name."""
    report = {"watcher": identity(), "sources": {name: asdict(state) for name, state in sorted(sources.items())}}
    atomic_files.write(report_file(home), json.dumps(report, indent=1).encode())


def read(home: Home) -> dict[str, WatchState] | None:
    """Return how each source is watched, by name; None if no watcher is running."""
    try:
        report = json.loads(report_file(home).read_text(encoding="utf-8"))
        if not alive(report["watcher"]):
            return None
        return {
            name: WatchState(**{**fields, "state": Watching(fields["state"])})
            for name, fields in report["sources"].items()
        }
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        # The report is missing, or was written by another version.
        return None


def report_file(home: Home) -> Path:
    """The path of the report. The watcher updates it while it runs."""
    return home.run / "watch.json"
