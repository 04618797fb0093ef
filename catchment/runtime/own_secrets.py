"""Secrets that this home's processes share: created once, each in a file that only its owner can read."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
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
