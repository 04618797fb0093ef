"""The changed paths that a worker passed with a run, until the run's sync takes them. Keyed by the ID of the flow run.

A run that a stock process worker started has none, and its sync compares everything.
"""

from __future__ import annotations

_changed: dict[str, frozenset[str]] = {}


def put(run: str, paths: frozenset[str]) -> None:
    """Keep the paths for a run of this process."""
    _changed[run] = paths


def take(run: str | None) -> frozenset[str] | None:
    """Return and forget the paths of a run; None if it has none. May be called again."""
    return None if run is None else _changed.pop(run, None)
