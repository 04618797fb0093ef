"""What an answer of the API means that is no answer to the question: the one place where status, headers and words are read."""

from __future__ import annotations

import ssl
from collections.abc import Mapping

import httpx
import orjson

from catchment.errors import AccessDenied, CatchmentError, LoginFailed, RateLimited, SourceUnavailable, Vanished
from catchment.pacing import RateReport

UNSTATED_WAIT_SECONDS = 900.0
"""Wait where the host says "too fast" and not for how long: GitHub asks for a minute at least, and longer if it repeats."""
_NOT_THERE = frozenset({404, 451})


class LostError(SourceUnavailable):
    """The connection was lost in the middle; asking again, over a new one, may help at once."""


class AnswerTooLarge(SourceUnavailable):
    """An answer exceeds what is read of one."""


class SwitchedOff(Vanished):
    """There is no such thing any more, or the repository does without such things."""


def meaning(host: str, status: int, said: RateReport, body: bytes) -> CatchmentError | None:
    """The error that a status other than 200 and 304 stands for; None for those.

    A limit is told from a missing right by the headers (none left in this hour, or when to come back), and by the words only
    where a secondary limit comes without them.
    """
    if status == 401:
        return LoginFailed(f"{host} does not accept the token; make a new one, or log in again: catchment login github")
    if status in (403, 429):
        return _limit(host, status, said, body) or AccessDenied(
            f"{host} does not allow the token to see this; give it read access, or leave this part out of include"
        )
    if status == 410:
        return SwitchedOff(
            "it was deleted, or is switched off in this repository; the next sync decides what that means"
        )
    if status in _NOT_THERE:
        return Vanished("it is not there any more, or may not be seen; the next sync decides what that means")
    if status not in (200, 304):
        return SourceUnavailable(f"{host} answered with status {status}; the next sync goes on where this one was")
    return None


def unreadable(host: str) -> SourceUnavailable:
    """An answer that is not what the API says."""
    remedy = "see whether a proxy or a login page stands between; the next sync goes on where this one was"
    return SourceUnavailable(f"{host} answered what is no answer of its API; {remedy}")


def lost(host: str, error: httpx.HTTPError) -> SourceUnavailable:
    """What the library's error means."""
    if (verification := _verification(error)) is not None:
        return SourceUnavailable(
            f"the certificate of {host} is not valid ({verification.verify_message}); correct address, or see SSL_CERT_FILE"
        )
    if isinstance(error, httpx.TimeoutException):
        return SourceUnavailable(f"{host} did not answer in time; the next sync goes on where this one was")
    if isinstance(error, httpx.DecodingError):
        return unreadable(host)
    remedy = "check address and the network; the next sync goes on where this one was"
    return LostError(f"{host} cannot be reached ({type(error).__name__}); {remedy}")


def _limit(host: str, status: int, said: RateReport, body: bytes) -> RateLimited | None:
    if said.retry_after is not None:
        return RateLimited(host, said.retry_after)
    if said.remaining == 0:
        return RateLimited(host, said.resets_in)
    if status == 429 or "rate limit" in _message(body).lower():
        return RateLimited(host, UNSTATED_WAIT_SECONDS)
    return None


def _message(body: bytes) -> str:
    try:
        said = orjson.loads(body)
    except orjson.JSONDecodeError:
        return ""
    return str(said.get("message", "")) if isinstance(said, Mapping) else ""


def _verification(error: BaseException) -> ssl.SSLCertVerificationError | None:
    found: BaseException | None = error
    while found is not None and not isinstance(found, ssl.SSLCertVerificationError):
        found = found.__cause__ or found.__context__
    return found
