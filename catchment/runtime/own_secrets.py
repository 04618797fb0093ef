"""Secrets that this home's processes share: created once, each in a file that only its owner can read."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path

from catchment.errors import ConfigError
from catchment.runtime import atomic_files

KEY_SECONDS = 300
"""Time in which a one-time key must be used."""


def stored(path: Path) -> str | None:
    """Return the secret in a file; None without a secret. A full disk may have left the file empty."""
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


def digest(secret: str) -> str:
    """Return a digest of a random secret, from which the secret cannot be derived."""
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def one_time_key(folder: Path) -> str:
    """Return a random key that `use_key` accepts once, within `KEY_SECONDS`.

    `folder`, which only its owner can enter, keeps an empty file named after the key's digest. Raises OSError.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    for file in folder.iterdir():
        if not _is_recent(file):
            file.unlink(missing_ok=True)
    key = secrets.token_urlsafe(32)
    atomic_files.write(folder / digest(key), b"")
    return key


def use_key(folder: Path, key: str) -> bool:
    """Return whether a key is valid, and invalidate it. Of several processes, one gets True."""
    file = folder / digest(key)
    try:
        is_recent = _is_recent(file)
        file.unlink()
    except FileNotFoundError:
        return False
    return is_recent


def _is_recent(file: Path) -> bool:
    # The clock may be set back.
    return abs(time.time() - file.stat().st_mtime) < KEY_SECONDS
