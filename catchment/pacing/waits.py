"""Why something waits: the one vocabulary of syncs, previews, the read model and the documents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

_THROTTLE = "see `catchment throttle show`"


class WaitKind(StrEnum):
    """The reasons for which a source or an item waits. An earlier kind must end first; docs/waiting.md has the same order."""

    label: str
    """The state of the source or item meanwhile, in a table."""
    why: str
    """The cause in words; "" if each wait has its own."""
    remedy: str
    """The way to end the wait or to see more; `{}` is the subject."""

    def __new__(cls, value: str, label: str = "", why: str = "", remedy: str = "") -> WaitKind:
        """Create a member with `value` as its text."""
        member = str.__new__(cls, value)
        member._value_, member.label, member.why, member.remedy = value, label, why, remedy
        return member

    PAUSED = "paused", "paused", "", "resume with `catchment sources resume {}`"
    SWITCHED_OFF = "switched_off", "paused", "switched off in Prefect", "resume with `catchment sources resume {}`"
    HELD = "held", "held", "", "resume with `catchment sources resume {}`"
    CONSENT = "consent", "no consent", "", "run: catchment consent give {}"
    MACHINE = "machine", "waits for its host", "", "see `catchment hosts`"
    RULE = "rule", "throttled", "paused by an operator", _THROTTLE
    BLACKOUT = "blackout", "throttled", "blackout window", _THROTTLE
    LOGIN = "login", "throttled", "login refused", "correct the login, then: catchment sources resume {}"
    FAILURES = "failures", "throttled", "repeated failures", _THROTTLE
    HOST_FAILURES = "host_failures", "throttled", "repeated failures of its host", _THROTTLE
    HOST_PAUSE = "host_pause", "throttled", "requested by the host", _THROTTLE
    HOST_QUOTA = "host_quota", "throttled", "hourly quota of the host used up", _THROTTLE
    QUOTA = "quota", "throttled", "quota of jobs used up", _THROTTLE
    STOPPED = "stopped", "stopped", "Catchment is not running", "start it with `catchment up --detach`"
    SLOT = "slot", "waits", "other runs have all run slots", "see `catchment status`"
    DELETION = "deletion", "missing", "its deletion waits for a decision", "see `catchment deletions list {}`"
    RETRY = "retry", "retrying", "", "see `catchment jobs list --source {}`"
    SYNC = "sync", "waits", "", "see `catchment sources next {}`"

    def of(self, subject: str, until: datetime | None = None, why: str = "") -> Wait:
        """Return a wait of this kind. `subject`: the name of the source or host."""
        return Wait(self, subject, why or self.why, until, self.remedy.format(subject))


@dataclass(frozen=True, slots=True)
class Wait:
    """A reason for which a source, host or item waits now.

    `until`: its end, aware UTC; None if it is open or not known. `remedy`: a command that helps or shows more.
    """

    kind: WaitKind
    subject: str
    why: str
    until: datetime | None
    remedy: str

    def sentence(self, clock: Callable[[datetime], str] = "{:%H:%M} UTC".format) -> str:
        """Return the state, its end and its cause. `clock` formats the end."""
        until = f" until {clock(self.until)}" if self.until else ""
        return f"{self.kind.label}{until}" + (f" ({self.why})" if self.why else "")

    def __str__(self) -> str:
        return f"{self.subject}: {self.sentence()}; {self.remedy}"
