"""The duration of syncs of a folder with a thousand notes: the first, one without changes, and one after an edit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.hazards.folders import note, write
from tests.hazards.model import System
from tests.hazards.results import Pace

_NOTES = 1_000


def paces(system: System, place: Path) -> Iterator[Pace]:
    """Ingest a folder three times."""
    folder = place / f"thousand-{system.name.replace('_', '-')}"
    for number in range(_NOTES):
        write(folder, f"{number // 100}/note {number}.md", note(f"note{number}x") + "A line of what was seen.\n" * 40)
    yield _pace("1. first sync", system, folder)
    yield _pace("2. no change", system, folder)
    write(folder, "0/note 7.md", note("edited"))
    yield _pace("3. one edit", system, folder)


def _pace(step: str, system: System, folder: Path) -> Pace:
    took = system.ingest(folder)
    assert took.code == 0, f"{system.name} ended with {took.code}"
    return Pace(step, system.name, took.seconds, took.peak_mb)
