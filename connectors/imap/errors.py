"""Translate errors of servers and of imaplib into errors of Catchment. No other module examines their texts."""

from __future__ import annotations

import imaplib
import re
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from catchment.errors import FetchFailed, RateLimited, SourceUnavailable, Vanished
from connectors.imap.bounds import LimitExceeded

_CODE = re.compile(r"\[([A-Z-]+)")
_BACK_OFF = re.compile(r"back-?off time: ?(\d{1,12}) milliseconds", re.IGNORECASE)
_TOO_MUCH = frozenset({"LIMIT", "OVERQUOTA", "THROTTLED"})
_NOT_THERE = frozenset({"NONEXISTENT", "TRYCREATE"})
# Dovecot and others omit the response code of RFC 5530.
_IS_NOT_THERE = re.compile(r"(?:n't|not|no longer) exist|no such mailbox|unknown mailbox", re.IGNORECASE)
_NOT_YET, _EXPIRED = 9, 10
_REMEDIES = {
    _NOT_YET: "set the clock of this machine",
    _EXPIRED: "the server's operator must renew it; until then no password is sent and no mail is read",
}
"""Remedies by OpenSSL's verify code (X509_V_ERR_…)."""
_NOT_NOW = frozenset({"UNAVAILABLE", "INUSE"})


class ResponseTooLarge(FetchFailed):
    """A response exceeds a limit. The connection cannot be used again."""


@contextmanager
def translate_errors(host: str, folder: str | None = None) -> Iterator[None]:
    """Translate errors raised in the block. `folder`: the folder that the block reads.

    Raises SourceUnavailable, RateLimited, Vanished if the folder does not exist, ResponseTooLarge or FetchFailed.
    """
    try:
        yield
    except ssl.SSLCertVerificationError as error:
        remedy = _REMEDIES.get(
            error.verify_code, "correct host, or set ca_file if the server uses a private certificate authority"
        )
        raise SourceUnavailable(f"{host}: invalid certificate ({error.verify_message}); {remedy}") from None
    except LimitExceeded as error:
        remedy = "raise limits.max_mb if the messages are that large, or exclude the folder"
        raise ResponseTooLarge(f"{host}: response too large ({error}); {remedy}") from None
    except (imaplib.IMAP4.abort, OSError, EOFError) as error:
        raise _connection_error(host, error) from error
    except imaplib.IMAP4.error as error:
        text, code = str(error), response_code(error)
        if code in _TOO_MUCH or _BACK_OFF.search(text):
            raise RateLimited(host, _backoff_seconds(text)) from None
        if code in _NOT_NOW:
            raise SourceUnavailable(f"{host}: temporarily unavailable ({code}); the next sync tries again") from None
        if folder and (code in _NOT_THERE or _IS_NOT_THERE.search(text)):
            raise Vanished("folder no longer exists; the next sync checks whether it was moved or deleted") from None
        what = "folder" if folder else "request"
        raise FetchFailed(f"{host}: {what} refused{f' ({code})' if code else ''}; it will be retried") from None
    except (ValueError, TypeError, LookupError, AttributeError, AssertionError, OverflowError, RecursionError) as error:
        # IMAPClient parses responses without validation and fails on malformed ones in many ways.
        raise FetchFailed(f"{host}: malformed response; it will be retried") from error


def response_code(error: BaseException) -> str:
    """Return the response code (RFC 5530) in an error; "" if there is none."""
    match = _CODE.search(str(error))
    return match[1] if match else ""


def is_temporary(error: BaseException) -> bool:
    """Return whether the server refused only temporarily, or because of a limit."""
    return response_code(error) in _TOO_MUCH | _NOT_NOW or isinstance(error.__context__, imaplib.IMAP4.abort)


def _connection_error(host: str, error: BaseException) -> SourceUnavailable | RateLimited:
    text, code = str(error), response_code(error)
    if code in _TOO_MUCH or _BACK_OFF.search(text):
        return RateLimited(host, _backoff_seconds(text))
    if isinstance(error, TimeoutError):
        return SourceUnavailable(
            f"{host}: no response within the time limit; the next sync continues from the last checkpoint"
        )
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        remedy = "set security to starttls, or to none for a server on this machine, or correct port"
        return SourceUnavailable(f"{host}: the port does not speak TLS; {remedy}")
    return SourceUnavailable(f"{host}: cannot connect ({_network_problem(error)}); check host, port and network")


def _network_problem(error: BaseException) -> str:
    match error:
        case ConnectionRefusedError():
            return "connection refused"
        case socket.gaierror():
            return "host name not found"
        case OSError():
            return type(error).__name__
    return "connection lost"


def _backoff_seconds(text: str) -> float | None:
    match = _BACK_OFF.search(text)
    return int(match[1]) / 1000 if match else None
