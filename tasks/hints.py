"""The changed paths that a worker passes with a run, by the ID of the flow run. The run's sync takes them.

A run that a stock process worker started has none, and its sync compares everything.
"""

from __future__ import annotations

_changed: dict[str, frozenset[str]] = {}


def put(run: str, paths: frozenset[str]) -> None:
    """Store the paths for a run of this process."""
    _changed[run] = paths


def take(run: str | None) -> frozenset[str] | None:
    """Return the paths of a run and delete them; None if it has none. Idempotent."""
    return None if run is None else _changed.pop(run, None)
