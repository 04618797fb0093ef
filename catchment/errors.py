"""The exception hierarchy. Each class has a failure class, a quarantine reason and an exit code.

    CatchmentError
    ├── UserError                 a request cannot be carried out; nothing was changed
    │   ├── BadInput              2   invalid value, path or name
    │   │   └── ConfigError       2   error in a configuration file, with file and line
    │   ├── NotFound              4
    │   ├── Refused               5   forbidden by a rule
    │   │   └── NoConsent         5   no consent to read the source
    │   └── TryAgain             10   temporarily busy or down
    │       ├── NotNow           10   the source is paused, held or throttled
    │       ├── PageSilent       10   the page does not answer
    │       └── MeaningOff       10   search by meaning is off, or its model cannot be used
    │           └── ModelChanged 10   another model was chosen meanwhile, or none
    ├── SourceError               the source as a whole: its sync cannot continue
    │   ├── SourceUnavailable         transient: missing root, unreachable host
    │   ├── SourceInvalid         2   permanent: no folder, no vault, no clone
    │   ├── LoginFailed           3   permanent: never retried automatically
    │   └── RateLimited               the host requested a pause
    ├── ItemError                 one item; other items are unaffected
    │   ├── ParseError                permanent
    │   ├── AccessDenied              permanent (a change of mode is a new version)
    │   ├── ResourceExhausted         permanent: memory, decompression bomb
    │   ├── TimedOut                  transient
    │   ├── ProcessKilled             transient
    │   ├── FetchFailed               transient
    │   ├── StillChanging             transient: modified while being read
    │   ├── Vanished                  disappeared between listing and reading
    │   ├── Unexpected                unknown: a defect triggered by this item
    │   └── Skipped                   not a failure: excluded, with a reason
    ├── SinkUnavailable      10   a place that documents are copied to: away, full, or it refuses the login
    ├── DocumentRefused           a sink cannot store a document; other documents are unaffected
    ├── HomeUnavailable      10   Catchment's own files: disk full, failing or read-only
    └── LedgerError               Catchment's own database
        ├── LedgerUnavailable         locked, disk full, no server
        │   └── TookTooLong           the query was stopped at its time limit
        ├── ReadOnly                  opened for reading only; nothing was changed
        ├── LedgerCorrupt
        ├── SchemaMismatch            written by another version of the program
        ├── IllegalTransition         a defect in the caller; nothing was changed
        └── StaleLease                the lease was lost; nothing was changed

Every class passes its arguments to `Exception.__init__`, so that it pickles across processes. Messages contain neither content
nor full paths: they identify an item by its job, or repeat user input.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import ClassVar

_SIMILAR = 0.7
"""Similarity of a misspelled name, as difflib measures it. With its 0.6, `nope` resembles `notes`."""


def split_remedy(message: str) -> tuple[str, str]:
    """Return problem and remedy of "problem; remedy"; the remedy may be empty. Parentheses and code are not split."""
    depth, is_code = 0, False
    for place, character in enumerate(message):
        if character == "`":
            is_code = not is_code
        elif character in "()" and not is_code:
            depth = max(0, depth + (1 if character == "(" else -1))
        elif message.startswith("; ", place) and not depth and not is_code:
            return message[:place], message[place + 2 :]
    problem, _, remedy = message.partition("; ") if depth or is_code else (message, "", "")
    return problem, remedy


def did_you_mean(name: str, names: Iterable[str], otherwise: str, most: int = 1) -> str:
    """Return the question whether one of the `most` similar names was meant, or `otherwise` if no name is similar."""
    from difflib import get_close_matches

    close = get_close_matches(name, list(names), most, _SIMILAR)
    return f"did you mean {' or '.join(close)}?" if close else otherwise


class FailureClass(StrEnum):
    """Classification of a failure, which determines whether a retry can help."""

    TRANSIENT = "transient"
    RATE_LIMITED = "rate_limited"
    PERMANENT = "permanent"
    UNKNOWN = "unknown"


class Reason(StrEnum):
    """Reason for an item's quarantine."""

    PARSE_ERROR = "parse_error"
    PERMISSION_DENIED = "permission_denied"
    RESOURCE_EXHAUSTED = "resource_exhausted"
    CONNECTOR_ERROR = "connector_error"
    TIMEOUT = "timeout"
    INVALID_STATE = "invalid_state"
    DEPENDENCY_FAILURE = "dependency_failure"
    PROCESS_KILLED = "process_killed"
    UNKNOWN = "unknown"


class SkipReason(StrEnum):
    """Reason for producing no document from an item, on purpose."""

    UNCHANGED = "unchanged"
    UNSUPPORTED = "unsupported"
    TOO_LARGE = "too_large"
    EXCLUDED = "excluded"
    NOT_STORED = "not_stored"


class CatchmentError(Exception):
    """Base class. The message states the problem and the remedy."""

    failure_class: ClassVar[FailureClass] = FailureClass.UNKNOWN
    reason: ClassVar[Reason] = Reason.UNKNOWN
    exit_code: ClassVar[int] = 1

    def __str__(self) -> str:
        # Further arguments are facts for programs.
        return str(self.args[0]) if self.args else ""


class UserError(CatchmentError):
    """The request cannot be carried out. Nothing was changed."""

    failure_class = FailureClass.PERMANENT
    reason = Reason.INVALID_STATE


class BadInput(UserError):
    """A given value is invalid."""

    exit_code = 2


class Ambiguous(BadInput):
    """A name stands for several objects. `choices` are those, one line each."""

    def __init__(self, message: str, choices: tuple[str, ...]) -> None:
        super().__init__(message, choices)
        self.choices = choices


class ConfigError(BadInput):
    """A configuration file is invalid. The message names the file, the line and the remedy."""


class NotFound(UserError):
    """The requested object does not exist."""

    exit_code = 4


class Refused(UserError):
    """A rule forbids the request."""

    exit_code = 5


class NoConsent(Refused):
    """Consent to read the source was never given, has expired or was withdrawn. Nothing was read."""


class TryAgain(UserError):
    """Temporarily busy or down; the same call may succeed later."""

    failure_class = FailureClass.TRANSIENT
    exit_code = 10


class NotNow(TryAgain):
    """The source may not be synced now: paused, held or throttled. `until` is the end of the pause, if known."""

    def __init__(self, message: str, until: datetime | None = None) -> None:
        super().__init__(message, until)
        self.until = until


class PageSilent(TryAgain):
    """The page does not answer, or its program has another version. Its content can be read from the ledger."""


class MeaningOff(TryAgain):
    """Search by meaning is off, or its model cannot be used. Search by words works."""


class ModelChanged(MeaningOff):
    """Another model was chosen meanwhile, or search by meaning was switched off. The model receives no more texts."""


class Stopped(CatchmentError):
    """The sync was stopped on request. The next sync continues with the remaining jobs."""

    failure_class = FailureClass.TRANSIENT


class SourceError(CatchmentError):
    """The source as a whole cannot be read."""

    reason = Reason.CONNECTOR_ERROR


class SourceUnavailable(SourceError):
    """The source is unavailable: missing root, unmounted disk or unreachable host.

    `retry_after`: seconds after which it may be tried again; None if unknown.
    """

    failure_class = FailureClass.TRANSIENT
    exit_code = 10

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message, retry_after)
        self.retry_after = retry_after


class SourceInvalid(SourceError):
    """The location is not, or is no longer, a source of this kind; or the program that reads it is missing."""

    failure_class = FailureClass.PERMANENT
    exit_code = 2


class LoginFailed(SourceError):
    """The source rejected the credentials or denied permission. Never retried automatically."""

    failure_class = FailureClass.PERMANENT
    reason = Reason.PERMISSION_DENIED
    exit_code = 3


class RateLimited(SourceError):
    """The host requested a pause of `retry_after` seconds, or gave no duration (None)."""

    failure_class = FailureClass.RATE_LIMITED
    exit_code = 10

    def __init__(self, host: str, retry_after: float | None = None) -> None:
        super().__init__(host, retry_after)
        self.host = host
        self.retry_after = retry_after

    def __str__(self) -> str:
        wait = "later" if self.retry_after is None else f"in {self.retry_after:.0f} s"
        return f"{self.host}: rate limit; retry {wait}"


class ItemError(CatchmentError):
    """One item cannot be processed; other items are unaffected."""


class ParseError(ItemError):
    """The content is damaged or does not match its type."""

    failure_class = FailureClass.PERMANENT
    reason = Reason.PARSE_ERROR


class AccessDenied(ItemError):
    """Permission to read the item was denied."""

    failure_class = FailureClass.PERMANENT
    reason = Reason.PERMISSION_DENIED


class ResourceExhausted(ItemError):
    """The item needs more memory than the limit for one item."""

    failure_class = FailureClass.PERMANENT
    reason = Reason.RESOURCE_EXHAUSTED


class TimedOut(ItemError):
    """Processing the item exceeded its time limit."""

    failure_class = FailureClass.TRANSIENT
    reason = Reason.TIMEOUT


class ProcessKilled(ItemError):
    """The process working on the item died."""

    failure_class = FailureClass.TRANSIENT
    reason = Reason.PROCESS_KILLED


class FetchFailed(ItemError):
    """The item could not be read in this attempt."""

    failure_class = FailureClass.TRANSIENT
    reason = Reason.CONNECTOR_ERROR


class StillChanging(ItemError):
    """The item changed while it was read."""

    failure_class = FailureClass.TRANSIENT
    reason = Reason.INVALID_STATE


class Vanished(ItemError):
    """The item disappeared between listing and reading. The next listing determines whether it moved or was deleted."""

    failure_class = FailureClass.TRANSIENT
    reason = Reason.INVALID_STATE


class Unexpected(ItemError):
    """A defect in Catchment or a library, triggered by this item. The message names the exception class, never its text."""

    @classmethod
    def of(cls, error: BaseException) -> Unexpected:
        """Wrap an exception that is not a CatchmentError."""
        kind = type(error)
        name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        return cls(f"unexpected {name}; report it with the traceback of this item")


class Skipped(ItemError):
    """The item is excluded on purpose; this is not a failure."""

    failure_class = FailureClass.PERMANENT

    def __init__(self, skip_reason: SkipReason) -> None:
        super().__init__(skip_reason)
        self.skip_reason = skip_reason

    def __str__(self) -> str:
        return self.skip_reason.value


class SinkUnavailable(CatchmentError):
    """A sink cannot be written or read now. Its delivery is repeated, ever later."""

    failure_class = FailureClass.TRANSIENT
    exit_code = 10


class DocumentRefused(CatchmentError):
    """A sink cannot store one of the documents that it received. The others are sent again one by one."""

    failure_class = FailureClass.PERMANENT


class HomeUnavailable(CatchmentError):
    """Catchment's own files cannot be read or written: the disk is full, failing or read-only."""

    failure_class = FailureClass.TRANSIENT
    exit_code = 10


class LedgerError(CatchmentError):
    """Base class for failures of the ledger."""


class LedgerUnavailable(LedgerError):
    """The ledger is temporarily inaccessible: locked, disk full or server down."""

    failure_class = FailureClass.TRANSIENT
    exit_code = 10


class TookTooLong(LedgerUnavailable):
    """A query was stopped at its time limit. It would take as long again."""


class ReadOnly(LedgerError):
    """The ledger was opened for reading only. Nothing was changed."""


class LedgerCorrupt(LedgerError):
    """The database file is damaged."""

    failure_class = FailureClass.PERMANENT


class SchemaMismatch(LedgerError):
    """The ledger was written by another version of the program."""

    failure_class = FailureClass.PERMANENT


class IllegalTransition(LedgerError):
    """The transition is not allowed from the job's present state. Nothing was changed."""

    failure_class = FailureClass.PERMANENT
    reason = Reason.INVALID_STATE


class StaleLease(LedgerError):
    """Another claim has taken over the lease. Nothing was changed."""

    failure_class = FailureClass.TRANSIENT
    reason = Reason.INVALID_STATE
