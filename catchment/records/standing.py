"""Consents, sinks, incidents, undos and parts of lists, as the ledger returns them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Generic, TypeVar

WHOLE = "content"
"""The only scope of a source without specific scopes."""
OFF = "off"
"""The setting without a model, which switches search by meaning off."""

TO_COMPARE = 0
"""Value of `compared` of a sink while a comparison is requested, until it begins."""

R = TypeVar("R")


class ConsentState(StrEnum):
    """State of a consent. A scope is only read while its consent is `given`."""

    ASKED = "asked"
    GIVEN = "given"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    PURGING = "purging"
    """Withdrawn, but the data has not been deleted completely, or not on every host."""


_PROBLEMS = {
    ConsentState.ASKED: "no consent given",
    ConsentState.EXPIRED: "consent expired",
    ConsentState.WITHDRAWN: "consent withdrawn",
    ConsentState.PURGING: "deletion of revoked data is incomplete",
}


@dataclass(frozen=True, slots=True)
class Consent:
    """Consent for one scope of a source. `wanted` is True if the source is configured to read the scope.

    Times are aware UTC. Without `expires`, the consent is valid until it is withdrawn. `hosts`: if it was withdrawn, the names
    of the hosts that have not deleted their data of the source.
    """

    source: str
    kind: str
    scope: str
    state: ConsentState
    wanted: bool
    by: str | None
    given: datetime | None
    expires: datetime | None
    withdrawn: datetime | None
    purged: datetime | None
    hosts: tuple[str, ...]

    @property
    def suffix(self) -> str:
        """The scope in parentheses, if its source has several."""
        return "" if self.scope == WHOLE else f" ({self.scope})"

    @property
    def problem(self) -> str:
        """Why the scope is not read, in words; "" if it is."""
        on = f" on {', '.join(self.hosts)}" if self.hosts else ""
        return _PROBLEMS.get(self.state, "") + (on if self.state is ConsentState.PURGING else "")

    @property
    def remedy(self) -> str:
        """The command that helps."""
        return f"catchment consent {'revoke' if self.state is ConsentState.PURGING else 'give'} {self.source}"


class SinkState(StrEnum):
    """`emptying`: everything is deleted at the sink and sent again."""

    ACTIVE = "active"
    PAUSED = "paused"
    EMPTYING = "emptying"


@dataclass(frozen=True, slots=True)
class SinkRow:
    """A place that documents are copied to.

    Attributes:
        secret: The reference to its password, or None.
        compared: Documents up to this ID were compared with the library; 0 before, None once all are.
        stamp: The stamp that the last delivery left at the place; None before the first.
        failures: Consecutive failed deliveries; the next is not made before `not_before`. `error`: the last one's.
        current: When it had received everything last.
        waiting: Number of changed documents that it has not received; while it is compared, at least the rest of the library.
        refused: Number of documents that it did not accept.
    """

    id: int
    name: str
    kind: str
    place: str
    secret: str | None
    state: SinkState
    position: int
    compared: int | None
    stamp: str | None
    failures: int
    not_before: datetime | None
    error: str | None
    current: datetime | None
    waiting: int
    refused: int

    @property
    def is_idle(self) -> bool:
        """Whether it is active and up to date."""
        return self.state is SinkState.ACTIVE and self.compared is None and not self.waiting

    @property
    def must_be_compared(self) -> bool:
        """Whether a comparison was requested that has not begun."""
        return self.compared == TO_COMPARE


@dataclass(frozen=True, slots=True)
class Moment:
    """An entry in the timeline of an incident: its kind (opened, changed, notified, acknowledged or closed), and a text."""

    at: datetime
    event: str
    text: str


@dataclass(frozen=True, slots=True)
class Incident:
    """A condition with its start and its end: open while it has none.

    Attributes:
        id: 0 if it is not stored yet.
        reason: Its reason code ("source.unreachable").
        subject: As of a `Condition`.
        message, remedy: The latest. Neither contains a path.
        timeline: The first entry and the latest 49.
    """

    id: int
    reason: str
    subject: str
    opened_at: datetime
    closed_at: datetime | None
    message: str
    remedy: str
    timeline: tuple[Moment, ...]
    acknowledged_at: datetime | None = None
    acknowledged_by: str | None = None
    note: str | None = None

    @property
    def identity(self) -> tuple[str, str, datetime]:
        """The identity, also before it is stored: reason, subject and start."""
        return self.reason, self.subject, self.opened_at

    @property
    def about(self) -> str:
        """The name of the source or host that it is about, or "Catchment"."""
        return self.subject.partition(":")[2] or "Catchment"


@dataclass(frozen=True, slots=True)
class ListPage(Generic[R]):
    """A part of a list. `total`: length of the whole list. `next`: key of the next part; None if this is the last one."""

    rows: tuple[R, ...]
    total: int
    next: str | None


class UndoAction(StrEnum):
    """Effect of an undo at a path. `LEFT`: none, because the path has changed since the sync."""

    TAKE_OUT = "take out"
    BRING_BACK = "bring back"
    SET_BACK = "set back"
    LEFT = "left"
