"""Translate failed API responses into errors.

No other module interprets status codes, rate-limit headers or messages.
"""

from __future__ import annotations

from collections.abc import Mapping

import httpx

from catchment.content.foreign_json import read_json
from catchment.errors import AccessDenied, CatchmentError, LoginFailed, RateLimited, SourceUnavailable, Vanished
from catchment.pacing import RateReport
from connectors.tls import certificate_error

UNSTATED_WAIT_SECONDS = 900.0
"""Wait after a secondary limit without a stated time. GitHub requires at least a minute, and longer after repeated limits."""
_NOT_THERE = frozenset({404, 451})


class ConnectionLost(SourceUnavailable):
    """The connection was lost; a retry over a new one may succeed at once."""


class OversizedResponse(SourceUnavailable):
    """A response exceeds the size limit."""


class FeatureDisabled(Vanished):
    """The entry was deleted, or its feature is disabled in the repository."""


def error_of_status(host: str, status: int, report: RateReport, body: bytes) -> CatchmentError | None:
    """Return the error for a status; None for 200 and 304.

    Rate limits are distinguished from missing permissions by the headers (no requests remaining, or a retry time). The
    message is only used for secondary limits without such headers.
    """
    if status == 401:
        return LoginFailed(f"{host}: token rejected; create a new one, or log in again: catchment login github")
    if status in (403, 429):
        return _limit(host, status, report, body) or AccessDenied(
            f"{host}: token lacks permission; grant read access, or remove this part from include"
        )
    if status == 410:
        return FeatureDisabled("deleted or disabled in this repository; the next sync checks which")
    if status in _NOT_THERE:
        return Vanished("deleted or not accessible; the next sync checks whether it was moved")
    if status not in (200, 304):
        return SourceUnavailable(f"{host}: HTTP status {status}; the next sync continues from the last checkpoint")
    return None


def malformed_response(host: str) -> SourceUnavailable:
    """Return the error for a malformed response."""
    remedy = "check for a proxy or login page in between"
    return SourceUnavailable(f"{host}: not a response of the GitHub API; {remedy}")


def connection_error(host: str, error: httpx.HTTPError) -> SourceUnavailable:
    """Translate an error of httpx."""
    if certificate := certificate_error(error):
        return SourceUnavailable(f"{host}: invalid certificate ({certificate}); correct address, or set SSL_CERT_FILE")
    if isinstance(error, httpx.TimeoutException):
        return SourceUnavailable(
            f"{host}: no response within the time limit; the next sync continues from the last checkpoint"
        )
    if isinstance(error, httpx.DecodingError):
        return malformed_response(host)
    return ConnectionLost(f"{host}: cannot connect ({type(error).__name__}); check address and network")


def _limit(host: str, status: int, report: RateReport, body: bytes) -> RateLimited | None:
    if report.retry_after is not None:
        return RateLimited(host, report.retry_after)
    if report.remaining == 0:
        return RateLimited(host, report.resets_in)
    if status == 429 or "rate limit" in _message(body).lower():
        return RateLimited(host, UNSTATED_WAIT_SECONDS)
    return None


def _message(body: bytes) -> str:
    try:
        content = read_json(body)
    except ValueError:
        return ""
    return str(content.get("message", "")) if isinstance(content, Mapping) else ""
