"""The changed paths that a worker passes with a run, by the ID of the flow run. The run's sync takes them.

A run that a stock process worker started has none, and its sync compares everything.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class ChangeHint:
    """The paths that changed at a source since its last run was started, and when the first of them did (aware)."""

    paths: frozenset[str]
    since: datetime


_changed: dict[str, ChangeHint] = {}


def put(run: str, hint: ChangeHint) -> None:
    """Store the hint for a run of this process."""
    _changed[run] = hint


def take(run: str | None) -> ChangeHint | None:
    """Return the hint of a run and delete it; None if it has none. Idempotent."""
    return None if run is None else _changed.pop(run, None)
