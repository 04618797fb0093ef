"""What the watcher says of itself: one small file in the home's `run` folder, for `status` and `doctor`."""

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
    """How a source is watched; `reason` and `remedy` are for a person, "" where all is well."""

    state: Watching
    reason: str = ""
    remedy: str = ""
    folders: int = 0


def write(home: Home, sources: Mapping[str, WatchState]) -> None:
    """Say how each source is watched, by this process."""
    said = {"watcher": identity(), "sources": {name: asdict(state) for name, state in sorted(sources.items())}}
    atomic_files.write(report_file(home), json.dumps(said, indent=1).encode())


def read(home: Home) -> dict[str, WatchState] | None:
    """How each source is watched, by name; None when no watcher lives."""
    try:
        said = json.loads(report_file(home).read_text(encoding="utf-8"))
        if not alive(said["watcher"]):
            return None
        return {name: WatchState(**{**one, "state": Watching(one["state"])}) for name, one in said["sources"].items()}
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        # A file of another version, or none.
        return None


def report_file(home: Home) -> Path:
    """The file that the watcher keeps up to date while it runs."""
    return home.run / "watch.json"
