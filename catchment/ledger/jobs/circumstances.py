"""Which changes of the program, the settings or the login make it worth trying again what failed."""

from __future__ import annotations

from collections.abc import Mapping

from catchment.model import Reason

Circumstances = Mapping[str, str]
"""A fingerprint of each of `program`, `settings` and `login`."""

CHANGED = {
    "program": "the program changed",
    "settings": "a setting of the source changed",
    "login": "the login changed",
}
"""What is told when something is tried again because of it."""

_ABOUT_CONTENT = ("program", "settings")
_ABOUT_ACCESS = ("settings", "login")
_ANY = ("program", "settings", "login")
MATTERS: Mapping[Reason, tuple[str, ...]] = {
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
"""What has to change for an item that failed for this reason to be worth another try."""


def changed(reason: Reason, before: Circumstances, now: Circumstances) -> str | None:
    """The first thing that matters to a failure and is not as it was then; None where all of it is."""
    return next((what for what in MATTERS[reason] if what in before and before[what] != now.get(what)), None)
