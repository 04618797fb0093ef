"""The error tree. Each class knows its failure class, its quarantine reason and its exit code.

    CatchmentError
    ├── UserError                 what a person asked for cannot be done; nothing was changed
    │   ├── BadInput              2   a value, a path, a name that is wrong
    │   │   └── ConfigError       2   … in a configuration file, with file and line
    │   ├── NotFound              4
    │   ├── Refused               5   a rule forbids it
    │   │   └── NoConsent         5   nobody has agreed to what would be read
    │   └── TryAgain             10   busy or down now
    │       └── NotNow           10   the source is paused, held or throttled
    ├── SourceError               the source as a whole: its sync cannot go on
    │   ├── SourceUnavailable         transient: a root that is gone, a host that does not answer
    │   ├── LoginFailed           3   permanent: never retried in a loop
    │   └── RateLimited               the host said when to come back
    ├── ItemError                 one item: its neighbours go on
    │   ├── ParseError                permanent
    │   ├── AccessDenied              permanent (a change of mode is a new version)
    │   ├── ResourceExhausted         permanent: memory, a bomb
    │   ├── TimedOut                  transient
    │   ├── ProcessKilled             transient
    │   ├── FetchFailed               transient
    │   ├── StillChanging             transient: it changed while it was read
    │   ├── Vanished                  it went away between listing and reading
    │   ├── Unexpected                unknown: a defect that shows on this item
    │   └── Skipped                   not a failure: not wanted, with a reason
    ├── HomeUnavailable      10   our own files: disk full, worn out, read-only
    └── LedgerError               our own database
        ├── LedgerUnavailable         locked, disk full, no server
        ├── LedgerCorrupt
        ├── SchemaMismatch            written by another version of the program
        ├── IllegalTransition         a defect in the caller; nothing was changed
        └── StaleLease                the lease was lost; nothing was changed

Every class passes its arguments to `Exception.__init__`, so it pickles across processes. Messages carry no content and no
full path: they name the item by its job or by what a person typed.
"""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from catchment.model import FailureClass, Reason, SkipReason


class CatchmentError(Exception):
    """Something went wrong; the message says what, and what to do about it."""

    failure_class: ClassVar[FailureClass] = FailureClass.UNKNOWN
    reason: ClassVar[Reason] = Reason.UNKNOWN
    exit_code: ClassVar[int] = 1


class UserError(CatchmentError):
    """What was asked for cannot be done; nothing was changed."""

    failure_class = FailureClass.PERMANENT
    reason = Reason.INVALID_STATE


class BadInput(UserError):
    """A value that was given is wrong."""

    exit_code = 2


class ConfigError(BadInput):
    """A configuration file is wrong; the message names file, line, and the remedy."""


class NotFound(UserError):
    """There is no such thing."""

    exit_code = 4


class Refused(UserError):
    """A rule forbids it."""

    exit_code = 5


class NoConsent(Refused):
    """Nobody has agreed to have this source read, or it was taken back; nothing is read."""


class TryAgain(UserError):
    """Busy or down at the moment; the same call may work later."""

    failure_class = FailureClass.TRANSIENT
    exit_code = 10


class NotNow(TryAgain):
    """The source may not be synced at present: it is paused, held or throttled; `until` says when it may, if that is known."""

    def __init__(self, message: str, until: datetime | None = None) -> None:
        super().__init__(message, until)
        self.until = until

    def __str__(self) -> str:
        return str(self.args[0])


class Stopped(CatchmentError):
    """The sync was asked to stop; what it did not do waits for the next one."""

    failure_class = FailureClass.TRANSIENT


class SourceError(CatchmentError):
    """The source as a whole cannot be read."""

    reason = Reason.CONNECTOR_ERROR


class SourceUnavailable(SourceError):
    """The source does not answer: a root that is gone, a disk that is not mounted, a host that is down."""

    failure_class = FailureClass.TRANSIENT
    exit_code = 10


class LoginFailed(SourceError):
    """The source refused the login or the permission; never retried in a loop."""

    failure_class = FailureClass.PERMANENT
    reason = Reason.PERMISSION_DENIED
    exit_code = 3


class RateLimited(SourceError):
    """The host asks to wait `retry_after` seconds (None: it did not say how long)."""

    failure_class = FailureClass.RATE_LIMITED
    exit_code = 10

    def __init__(self, host: str, retry_after: float | None = None) -> None:
        super().__init__(host, retry_after)
        self.host = host
        self.retry_after = retry_after

    def __str__(self) -> str:
        wait = "a while" if self.retry_after is None else f"{self.retry_after:.0f} s"
        return f"{self.host} asks to wait {wait}"


class ItemError(CatchmentError):
    """One item cannot be processed; its neighbours can."""


class ParseError(ItemError):
    """The content is damaged, or not what its type says."""

    failure_class = FailureClass.PERMANENT
    reason = Reason.PARSE_ERROR


class AccessDenied(ItemError):
    """The item may not be read."""

    failure_class = FailureClass.PERMANENT
    reason = Reason.PERMISSION_DENIED


class ResourceExhausted(ItemError):
    """The item needs more memory than an item may take."""

    failure_class = FailureClass.PERMANENT
    reason = Reason.RESOURCE_EXHAUSTED


class TimedOut(ItemError):
    """The item took longer than an item may take."""

    failure_class = FailureClass.TRANSIENT
    reason = Reason.TIMEOUT


class ProcessKilled(ItemError):
    """The process that worked on the item died."""

    failure_class = FailureClass.TRANSIENT
    reason = Reason.PROCESS_KILLED


class FetchFailed(ItemError):
    """The item could not be read this time."""

    failure_class = FailureClass.TRANSIENT
    reason = Reason.CONNECTOR_ERROR


class StillChanging(ItemError):
    """The item changed while it was read."""

    failure_class = FailureClass.TRANSIENT
    reason = Reason.INVALID_STATE


class Vanished(ItemError):
    """The item went away between listing and reading; the next listing decides what that means."""

    failure_class = FailureClass.TRANSIENT
    reason = Reason.INVALID_STATE


class Unexpected(ItemError):
    """A defect, ours or a library's, that shows on this item; the message names the exception, never its text."""

    @classmethod
    def of(cls, error: BaseException) -> Unexpected:
        """What is told of an exception that is not one of ours."""
        kind = type(error)
        name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        return cls(f"{name} was raised where nothing should; report it with the traceback of this item")


class Skipped(ItemError):
    """The item is not wanted; this is a decision, not a failure."""

    failure_class = FailureClass.PERMANENT

    def __init__(self, skip_reason: SkipReason) -> None:
        super().__init__(skip_reason)
        self.skip_reason = skip_reason

    def __str__(self) -> str:
        return self.skip_reason.value


class HomeUnavailable(CatchmentError):
    """Catchment's own files cannot be read or written at the moment: the disk is full, worn out or read-only."""

    failure_class = FailureClass.TRANSIENT
    exit_code = 10


class LedgerError(CatchmentError):
    """The ledger cannot do what was asked."""


class LedgerUnavailable(LedgerError):
    """The ledger cannot be reached or written at the moment: locked, disk full, server down."""

    failure_class = FailureClass.TRANSIENT
    exit_code = 10


class LedgerCorrupt(LedgerError):
    """The ledger's file is damaged."""

    failure_class = FailureClass.PERMANENT


class SchemaMismatch(LedgerError):
    """The ledger was written by another version of the program."""

    failure_class = FailureClass.PERMANENT


class IllegalTransition(LedgerError):
    """A job cannot go from its present state to the one asked for; nothing was changed."""

    failure_class = FailureClass.PERMANENT
    reason = Reason.INVALID_STATE


class StaleLease(LedgerError):
    """The lease was lost to another claim; nothing was changed."""

    failure_class = FailureClass.TRANSIENT
    reason = Reason.INVALID_STATE
