"""Conditions (the present problems and successes), reason codes, and the rules by which conditions open and close incidents."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
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
    split_remedy,
)

_SLEPT_SECONDS = 60.0
"""Time between two judgements after which the machine has slept, or was too busy to judge."""
_GONE_SECONDS = 15.0
"""Time for which a condition that can flap must be absent before its incident closes."""


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
    SERVER_SILENT = "server.silent", "The Prefect server does not respond", 60.0
    WORKER_SILENT = "worker.silent", "The worker does not report; no sync runs", 45.0
    HOST_SILENT = "host.silent", "A host that shares the library does not answer"
    SETTINGS_INVALID = "settings.invalid", "A file of settings has an error"
    CLOCK_JUMPED = "clock.jumped", "The clock of this machine was set, or is wrong"
    LOGIN_REFUSED = "login.refused", "A source refused the login"
    DELETIONS_HELD = "deletions.held", "Deletions wait for a decision"
    SOURCE_UNREACHABLE = "source.unreachable", "A source cannot be reached or read", 60.0
    SOURCE_INVALID = "source.invalid", "The location of a source is not of its kind, or its program is missing"
    SOURCE_HELD = "source.held", "A source is held after repeated failures"
    PARSER_BROKEN = "parser.broken", "Most of the latest items of a source could not be parsed"
    FAILURES_RISING = "failures.rising", "Most of the latest items of a source failed"
    SYNC_FAILED = "sync.failed", "The last sync of a source was ended by a problem of Catchment itself", 45.0
    SYNC_STUCK = "sync.stuck", "A sync makes no progress", 90.0
    BACKLOG_GROWING = "backlog.growing", "Many jobs wait, and their number does not fall", 60.0
    HOST_THROTTLED = "host.throttled", "A host has limited requests, or answered slowly, for an hour", 3_600.0
    HOSTS_AWAY = "hosts.away", "Web hosts of a source have not answered for days"
    LOGIN_EXPIRING = "login.expiring", "A login expires soon"
    CONSENT_ENDING = "consent.ending", "A consent is missing, has expired or expires soon"
    WATCH_LIMITED = "watch.limited", "A source has not been watched completely for an hour", 3_600.0
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


class Verdict(StrEnum):
    """How bad a condition is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


OK, WARN, FAIL = Verdict
Key = tuple[ReasonCode, str]
"""The identity of an incident while it is open: reason code and subject."""


@dataclass(frozen=True, slots=True)
class Condition:
    """The present state of a component: a problem, or with the verdict ok that a check found none.

    Attributes:
        probe: The component, as `catchment check` names it.
        message: The state in words. What changes by itself, such as an age, comes after "; ".
        remedy: The way to solve it; "" if no action is needed. Neither text contains a path.
        reason: The code of the incident that it is unless it is ok; None if it is none.
        subject: "source:NAME", "host:NAME" of a source, "sink:NAME", "machine:NAME" of a host that shares the ledger, or ""
            for the whole system.
    """

    probe: str
    verdict: Verdict
    message: str
    remedy: str = ""
    reason: ReasonCode | None = None
    subject: str = ""

    @classmethod
    def of_error(
        cls, probe: str, error: object, remedy: str = "", reason: ReasonCode | None = None, subject: str = ""
    ) -> Condition:
        """Return the condition for an error. `remedy`: for an error that names none."""
        problem, own = split_remedy(str(error))
        return cls(probe, FAIL, problem, own or remedy, reason, subject)

    @property
    def problem(self) -> str:
        """The message without the parts that change by themselves."""
        return split_remedy(self.message)[0]

    @property
    def key(self) -> Key:
        """The identity of the incident that it is."""
        assert self.reason is not None
        return self.reason, self.subject


def worst(conditions: Iterable[Condition]) -> Verdict:
    """Return the most severe verdict."""
    return max((condition.verdict for condition in conditions), key=[*Verdict].index, default=OK)


def rank(reason: str) -> int:
    """Return the place of a reason code in the order "worst first". Those of another version are last."""
    return _RANKS.get(reason, len(_RANKS))


def problems(conditions: Iterable[Condition]) -> list[Condition]:
    """Return the conditions that are incidents and that no other explains, worst first."""
    by_key = {condition.key: condition for condition in conditions if condition.reason and condition.verdict is not OK}
    causes = [key for key in by_key if not any(explains(other, key) for other in by_key)]
    return [by_key[key] for key in sorted(causes, key=lambda key: (rank(key[0]), key[1]))]


def explains(cause: tuple[str, str], key: Key) -> bool:
    """Return whether a problem is only the consequence of another one. Two sources never explain each other."""
    about = {cause[1], key[1]}
    return cause[0] in _CAUSES.get(key[0], ()) and (
        len(about) == 1 or not all(subject.startswith("source:") for subject in about)
    )


_RANKS = {code.value: number for number, code in enumerate(ReasonCode)}
_OF_SYSTEM = {
    ReasonCode.DISK_FULL,
    ReasonCode.LEDGER_DAMAGED,
    ReasonCode.LEDGER_UNWRITABLE,
    ReasonCode.SERVER_SILENT,
    ReasonCode.WORKER_SILENT,
}
UNREAD = {
    ReasonCode.LOGIN_REFUSED,
    ReasonCode.SOURCE_UNREACHABLE,
    ReasonCode.SOURCE_INVALID,
    ReasonCode.SOURCE_HELD,
}
"""Reasons why a source is not read."""
_CAUSES: Mapping[ReasonCode, Collection[ReasonCode]] = {
    ReasonCode.LEDGER_UNWRITABLE: {ReasonCode.DISK_FULL},
    ReasonCode.SOURCE_UNREACHABLE: {ReasonCode.SOURCE_HELD},
    ReasonCode.SYNC_FAILED: _OF_SYSTEM,
    ReasonCode.SYNC_STUCK: {*_OF_SYSTEM, ReasonCode.HOST_THROTTLED},
    ReasonCode.FAILURES_RISING: {*_OF_SYSTEM, *UNREAD, ReasonCode.HOST_THROTTLED},
    ReasonCode.BACKLOG_GROWING: {*_OF_SYSTEM, ReasonCode.SYNC_STUCK, ReasonCode.HOST_THROTTLED},
    ReasonCode.HOSTS_AWAY: UNREAD,
    ReasonCode.LOGIN_EXPIRING: {ReasonCode.LOGIN_REFUSED},
    ReasonCode.WATCH_LIMITED: UNREAD,
    ReasonCode.MEANING_STALLED: _OF_SYSTEM,
    ReasonCode.UPKEEP_FAILED: _OF_SYSTEM,
}
"""The problems of which each is a consequence."""


class Judge:
    """Decides when a condition opens an incident, and when its absence closes it.

    A condition must hold for the time of its code, and then be absent for some seconds if it can flap. These times start anew
    after a sleep of the machine, because all reports were written before.
    """

    def __init__(self) -> None:
        self._turning: dict[Key, float] = {}
        """Since when a condition holds without an incident, or an incident has no condition."""
        self._judged: float | None = None

    def judge(
        self, conditions: Iterable[Condition], is_open: Collection[Key], now: float, *, is_partial: bool = False
    ) -> tuple[list[Condition], list[Key]]:
        """Return the conditions that open an incident, and the keys of the incidents that close.

        `now`: seconds of a clock that includes sleep.

        `is_partial`: not all conditions could be read, so no incident closes.
        """
        if self._judged is not None and now - self._judged > _SLEPT_SECONDS:
            self._turning.clear()
        self._judged = now
        present = {condition.key: condition for condition in conditions}
        turning = {key for key in present.keys() ^ set(is_open) if key in present or not is_partial}
        self._turning = {key: self._turning.get(key, now) for key in turning}
        opened = [each for key, each in present.items() if key in turning and self._lasts(key, now, key[0].wait)]
        closed = [key for key in is_open if key in turning and self._lasts(key, now, min(_GONE_SECONDS, key[0].wait))]
        for key in (*(each.key for each in opened), *closed):
            del self._turning[key]
        return opened, closed

    def _lasts(self, key: Key, now: float, seconds: float) -> bool:
        return now - self._turning[key] >= seconds
