"""What a server's refusals mean, and a library's errors: the one place where their words are looked at."""

from __future__ import annotations

import imaplib
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from catchment.errors import FetchFailed, RateLimited, SourceUnavailable, Vanished
from connectors.imap.bounds import TooMuch

_CODE = re.compile(r"\[([A-Z-]+)")
_BACK_OFF = re.compile(r"back-?off time: ?(\d{1,12}) milliseconds", re.IGNORECASE)
_TOO_MUCH = frozenset({"LIMIT", "OVERQUOTA", "THROTTLED"})
_NOT_THERE = frozenset({"NONEXISTENT", "TRYCREATE"})
# Dovecot and others say it without the code of RFC 5530.
_IS_NOT_THERE = re.compile(r"(?:n't|not|no longer) exist|no such mailbox|unknown mailbox", re.IGNORECASE)
_NOT_YET, _EXPIRED = 9, 10
_REMEDIES = {
    _NOT_YET: "set the clock of this machine",
    _EXPIRED: "whoever runs the server has to renew it; until then nothing is read, and no password is sent",
}
"""By what OpenSSL says of a certificate (X509_V_ERR_…)."""
_NOT_NOW = frozenset({"UNAVAILABLE", "INUSE"})


class ResponseTooLarge(FetchFailed):
    """An answer exceeds a bound; the connection is unusable from then on."""


@contextmanager
def told(host: str, folder: str | None = None) -> Iterator[None]:
    """Within this block what the library raises is what it means; `folder`: the block is about this one.

    Raises SourceUnavailable, RateLimited, Vanished where the folder is not there, AnswerTooLarge and FetchFailed.
    """
    try:
        yield
    except ssl.SSLCertVerificationError as error:
        remedy = _REMEDIES.get(
            error.verify_code, "correct host, or give ca_file if the server has an authority of its own"
        )
        raise SourceUnavailable(f"the certificate of {host} is not valid ({error.verify_message}); {remedy}") from None
    except TooMuch as error:
        remedy = "raise limits.max_mb if the messages are that large, or exclude the folder"
        raise ResponseTooLarge(f"{host}: an answer is too large ({error}); {remedy}") from None
    except (imaplib.IMAP4.abort, OSError, EOFError) as error:
        raise _lost(host, error) from error
    except imaplib.IMAP4.error as error:
        text, code = str(error), code_of(error)
        if code in _TOO_MUCH or _BACK_OFF.search(text):
            raise RateLimited(host, _seconds(text)) from None
        if code in _NOT_NOW:
            raise SourceUnavailable(f"{host} cannot answer now ({code}); it is asked again by the next sync") from None
        if folder and (code in _NOT_THERE or _IS_NOT_THERE.search(text)):
            raise Vanished("its folder is not there any more; the next sync decides what that means") from None
        what = "the folder" if folder else "it"
        raise FetchFailed(f"{host} declined {what}{f' ({code})' if code else ''}; it is asked again") from None
    except (ValueError, TypeError, LookupError, AttributeError, AssertionError, OverflowError, RecursionError) as error:
        # The library takes answers apart as they come and stumbles over odd ones in as many ways.
        raise FetchFailed(f"{host} answered what cannot be read; it is asked again in another way") from error


def code_of(error: BaseException) -> str:
    """The response code (RFC 5530) in what a server answered; "" where there is none."""
    found = _CODE.search(str(error))
    return found[1] if found else ""


def is_for_now(error: BaseException) -> bool:
    """Whether a server declines only for now, or for a limit of its own."""
    return code_of(error) in _TOO_MUCH | _NOT_NOW or isinstance(error.__context__, imaplib.IMAP4.abort)


def _lost(host: str, error: BaseException) -> SourceUnavailable | RateLimited:
    text, code = str(error), code_of(error)
    if code in _TOO_MUCH or _BACK_OFF.search(text):
        return RateLimited(host, _seconds(text))
    if isinstance(error, TimeoutError):
        return SourceUnavailable(f"{host} did not answer in time; the next sync goes on where this one was")
    what = type(error).__name__ if isinstance(error, OSError) else "connection lost"
    remedy = "check host, port and the network; the next sync goes on where this one was"
    return SourceUnavailable(f"{host} cannot be reached ({what}); {remedy}")


def _seconds(text: str) -> float | None:
    found = _BACK_OFF.search(text)
    return int(found[1]) / 1000 if found else None
