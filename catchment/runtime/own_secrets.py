"""Secrets that this home's processes share: created once, each in a file that only its owner can read."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import suppress
from hmac import compare_digest
from pathlib import Path

from catchment.errors import ConfigError
from catchment.runtime import atomic_files


def stored(path: Path) -> str | None:
    """Return the secret in a file; None if there is none. A full disk may have left the file empty."""
    with suppress(FileNotFoundError):
        return path.read_bytes().decode(errors="replace").strip() or None
    return None


def obtain(path: Path, create: Callable[[], str], is_valid: Callable[[str], bool], form: str) -> str:
    """Return the secret in a file, created at the first call. `form` describes a valid one.

    Raises ConfigError if the file has another content.
    """
    if secret := stored(path):
        if is_valid(secret):
            return secret
        raise ConfigError(f"{path.name} is not {form}; correct it, or delete it to get a new one")
    secret = create()
    atomic_files.write(path, f"{secret}\n".encode())
    return secret


def token(path: Path) -> str:
    """Return the random token in a file, created at the first call. Raises ConfigError if the file has another content."""
    return obtain(path, lambda: secrets.token_urlsafe(32), str.isascii, "in ASCII")


def is_bearer(authorization: bytes, expected: str) -> bool:
    """Return whether the value of an `Authorization` header is this token, in constant time."""
    scheme, _, secret = authorization.partition(b" ")
    return scheme.lower() == b"bearer" and compare_digest(secret, expected.encode())
