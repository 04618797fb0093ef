"""Verified TLS: the certificate authorities to trust, and the reason why a certificate was rejected."""

from __future__ import annotations

import ssl
from functools import lru_cache


@lru_cache(maxsize=1)
def authorities() -> ssl.SSLContext:
    """Return a TLS context with the system's authorities (including private ones) and httpx's. Loading takes 30 ms."""
    # Not for mail, which imports this module, too.
    import httpx

    context = httpx.create_ssl_context()
    context.load_default_certs()
    return tolerant(context)


def tolerant(context: ssl.SSLContext) -> ssl.SSLContext:
    """Let a context accept authorities that do not follow RFC 5280 strictly, as few self-made ones do.

    Python 3.13 refuses them, 3.11 and 3.12 do not.
    """
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def certificate_error(error: BaseException) -> str | None:
    """Return why the certificate of a host was rejected, or None if the error has another cause."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
        cause = cause.__cause__ or cause.__context__
    return None if cause is None else cause.verify_message
