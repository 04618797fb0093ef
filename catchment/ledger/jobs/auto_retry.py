"""Auto-retry rules: which changes of program, settings or login justify a retry of a failed item."""

from __future__ import annotations

from collections.abc import Mapping

from catchment.errors import Reason

Circumstances = Mapping[str, str]
"""Versions or digests of `program`, `settings` and `login`."""

CHANGED = {
    "program": "the program changed",
    "settings": "a setting of the source changed",
    "login": "the login changed",
}
"""Descriptions of the changes, as the reason for a retry."""

_ABOUT_CONTENT = ("program", "settings")
_ABOUT_ACCESS = ("settings", "login")
_ANY = ("program", "settings", "login")
RELEVANT: Mapping[Reason, tuple[str, ...]] = {
    Reason.PARSE_ERROR: _ABOUT_CONTENT,
    Reason.RESOURCE_EXHAUSTED: _ABOUT_CONTENT,
    Reason.TIMEOUT: _ABOUT_CONTENT,
    Reason.PROCESS_KILLED: _ABOUT_CONTENT,
    Reason.PERMISSION_DENIED: _ABOUT_ACCESS,
    Reason.CONNECTOR_ERROR: _ANY,
    Reason.INVALID_STATE: _ANY,
    Reason.DEPENDENCY_FAILURE: _ANY,
    Reason.UNKNOWN: _ANY,
}
"""The changes that justify a retry, by reason of failure."""


def first_change(reason: Reason, before: Circumstances, now: Circumstances) -> str | None:
    """Return the first relevant circumstance that has changed since the failure, or None."""
    return next((name for name in RELEVANT[reason] if name in before and before[name] != now.get(name)), None)
