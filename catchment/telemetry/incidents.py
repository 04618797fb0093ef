"""Incidents: the reason codes, and the rules by which conditions open, change and close incidents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path

from catchment.errors import (
    CatchmentError,
    HomeUnavailable,
    LedgerCorrupt,
    LedgerUnavailable,
    LoginFailed,
    RateLimited,
    SourceError,
    SourceInvalid,
)

_SLEPT_SECONDS = 60.0
"""Time between two judgements after which the machine has slept, or was too busy to judge."""
_GONE_SECONDS = 15.0
"""Time for which a condition must be absent before its incident closes."""


class ReasonCode(StrEnum):
    """Kinds of problems, worst first.

    Attributes:
        help: The meaning in one line.
        wait: Seconds for which a condition must hold before it is an incident; 0 for conditions that cannot flap.
    """

    help: str
    wait: float

    def __new__(cls, code: str, help_: str = "", wait: float = 0.0) -> ReasonCode:
        """Create a member with its attributes."""
        member = str.__new__(cls, code)
        member._value_, member.help, member.wait = code, help_, wait
        return member

    @property
    def runbook(self) -> str:
        """The meaning and the remedies in a few sentences."""
        return _runbooks()[self]

    DISK_FULL = "disk.full", "The disk of the home folder is full; it cannot be written"
    LEDGER_DAMAGED = "ledger.damaged", "The database is damaged"
    LEDGER_UNWRITABLE = "ledger.unwritable", "The database cannot be written", 20.0
    SERVER_SILENT = "server.silent", "The Prefect server does not respond", 30.0
    WORKER_SILENT = "worker.silent", "The worker does not report; no sync runs", 45.0
    HOST_SILENT = "host.silent", "A host that shares the library does not answer"
    SETTINGS_INVALID = "settings.invalid", "A file of settings has an error"
    CLOCK_JUMPED = "clock.jumped", "The clock of this machine was set, or is wrong"
    LOGIN_REFUSED = "login.refused", "A source refused the login"
    DELETIONS_HELD = "deletions.held", "Deletions wait for a decision"
    SOURCE_UNREACHABLE = "source.unreachable", "A source cannot be reached or read"
    SOURCE_INVALID = "source.invalid", "The location of a source is not of its kind, or its program is missing"
    SOURCE_HELD = "source.held", "A source is held after repeated failures"
    PARSER_BROKEN = "parser.broken", "Most of the latest items of a source could not be parsed"
    FAILURES_RISING = "failures.rising", "Most of the latest items of a source failed"
    SYNC_FAILED = "sync.failed", "The last sync of a source was ended by a problem of Catchment itself", 45.0
    SYNC_STUCK = "sync.stuck", "A sync makes no progress", 90.0
    OBJECTIVE_BURNING = "objective.burning", "An objective is missed much faster than it permits"
    BACKLOG_GROWING = "backlog.growing", "Many jobs wait, and their number does not fall", 60.0
    HOST_THROTTLED = "host.throttled", "A host limits requests, or answers slowly", 30.0
    LOGIN_EXPIRING = "login.expiring", "A login expires soon"
    CONSENT_ENDING = "consent.ending", "A consent is missing, has expired or expires soon"
    WATCH_LIMITED = "watch.limited", "A source is not watched completely", 30.0
    MEANING_STALLED = "meaning.stalled", "Search by meaning is behind", 60.0
    SINK_FAILING = "sink.failing", "A place that documents are copied to cannot be written", 60.0
    UPKEEP_FAILED = "upkeep.failed", "The daily clean-up failed"


@cache
def _runbooks() -> Mapping[str, str]:
    _, *parts = Path(__file__).with_name("runbooks.md").read_text(encoding="utf-8").split("\n## ")
    return {code: " ".join(text.split()) for code, _, text in (part.partition("\n") for part in parts)}


_OF_ERRORS: Mapping[type[CatchmentError], ReasonCode] = {
    LoginFailed: ReasonCode.LOGIN_REFUSED,
    SourceInvalid: ReasonCode.SOURCE_INVALID,
    RateLimited: ReasonCode.HOST_THROTTLED,
    SourceError: ReasonCode.SOURCE_UNREACHABLE,
    LedgerCorrupt: ReasonCode.LEDGER_DAMAGED,
    LedgerUnavailable: ReasonCode.LEDGER_UNWRITABLE,
    HomeUnavailable: ReasonCode.LEDGER_UNWRITABLE,
}


def reason_of(error: CatchmentError | None) -> ReasonCode:
    """Return the code of the error that ended a sync, by its class."""
    return next((code for kind, code in _OF_ERRORS.items() if isinstance(error, kind)), ReasonCode.SYNC_FAILED)


@dataclass(frozen=True, slots=True)
class Condition:
    """A present problem.

    Attributes:
        subject: "source:NAME", "host:NAME" of a source, "sink:NAME", "machine:NAME" of a host that shares the ledger, or "" for
            the whole system.
        message: The problem, without values that change by themselves, such as an age.
        remedy: The way to solve it.
    """

    reason: ReasonCode
    subject: str
    message: str
    remedy: str

    @property
    def key(self) -> Key:
        """The identity of an incident while it is open."""
        return self.reason, self.subject


Key = tuple[ReasonCode, str]


@dataclass(frozen=True, slots=True)
class Judgement:
    """The conditions that open an incident, change its message, and close one."""

    opened: tuple[Condition, ...]
    changed: tuple[Condition, ...]
    closed: tuple[Condition, ...]


class Judge:
    """Decides when a condition opens an incident, and when its absence closes it.

    A condition must hold for the time of its code, and then be absent for some seconds. These times start anew after a sleep of
    the machine, because all reports were written before.
    """

    def __init__(self, opened: Iterable[Condition]) -> None:
        self._open = {condition.key: condition for condition in opened}
        self._turning: dict[Key, float] = {}
        """Since when a condition holds without an incident, or an incident has no condition."""
        self._judged: float | None = None

    def judge(self, conditions: Iterable[Condition], now: float, *, is_partial: bool = False) -> Judgement:
        """Compare the conditions with the open incidents. `now`: seconds of a clock that includes sleep.

        `is_partial`: not all conditions could be read, so no incident closes.
        """
        if self._judged is not None and now - self._judged > _SLEPT_SECONDS:
            self._turning.clear()
        self._judged = now
        present = {condition.key: condition for condition in conditions}
        turning = {key for key in present.keys() ^ self._open.keys() if key in present or not is_partial}
        self._turning = {key: self._turning.get(key, now) for key in turning}
        opened = [present[key] for key in present if key in turning and self._lasts(key, now, key[0].wait)]
        closed = [self._open[key] for key in self._open if key in turning and self._lasts(key, now, _GONE_SECONDS)]
        changed = [present[key] for key in self._open.keys() & present.keys() if present[key] != self._open[key]]
        for condition in (*opened, *closed):
            del self._turning[condition.key]
        for condition in closed:
            del self._open[condition.key]
        self._open |= {condition.key: condition for condition in (*opened, *changed)}
        return Judgement(tuple(opened), tuple(changed), tuple(closed))

    def _lasts(self, key: Key, now: float, seconds: float) -> bool:
        return now - self._turning[key] >= seconds
