"""Secrets by reference: the locations that a setting may name, and how to read them. Secrets are never stored, logged or shown.

A secret is resolved on use, in the process that needs it. Reading Prefect blocks requires Prefect; `read_blocks_with` registers
a reader for them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from catchment.errors import LoginFailed
from catchment.runtime import atomic_files
from catchment.runtime.home import expanded

_LONGEST = 64 * 1024


def resolve(reference: str) -> str:
    """Return the secret. Raises LoginFailed, with a remedy, if it cannot be read or is empty."""
    scheme, _, place = reference.partition(":")
    secret = _READERS[scheme](place)
    if not secret:
        raise LoginFailed(f"secret {scheme}:…: empty; store it where the reference points")
    return secret


def replace(reference: str, secret: str) -> bool:
    """Store a new secret at the reference. Return False if it could not be stored; `env:` and `block:` are read-only.

    A file is replaced atomically.
    """
    scheme, _, place = reference.partition(":")
    if scheme == "file":
        return _replace_file(expanded(Path(place)).resolve(), secret)
    return scheme == "keyring" and _replace_in_keyring(place, secret)


@contextmanager
def alone(reference: str) -> Iterator[None]:
    """Hold an advisory lock for replacing this secret, on this machine. Raises LoginFailed if the secret cannot be read."""
    resolve(reference)
    scheme, _, place = reference.partition(":")
    with atomic_files.alone(expanded(Path(place)).resolve().parent if scheme == "file" else Path.home()):
        yield


def read_blocks_with(read: Callable[[str], str]) -> None:
    """Register the function that reads `block:NAME`."""
    _READERS["block"] = read


def _variable(name: str) -> str:
    try:
        return os.environ[name]
    except KeyError:
        remedy = "set it before `catchment up`, so that every sync has it"
        raise LoginFailed(f"secret env:{name}: variable not set; {remedy}") from None


def _file(place: str) -> str:
    path = expanded(Path(place))
    try:
        # Without O_NONBLOCK, opening a pipe would wait for its writer.
        with open(path, encoding="utf-8", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise LoginFailed(f"the file {path.name} of the secret is no regular file; correct its path")
            if os.fstat(file.fileno()).st_mode & 0o077:
                raise LoginFailed(f"the file {path.name} of the secret is readable by others; chmod 600 {path.name}")
            return file.read(_LONGEST).strip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise LoginFailed(f"the file {path.name} of the secret is not readable; correct its path or mode") from error


def _replace_file(path: Path, secret: str) -> bool:
    with suppress(OSError):
        atomic_files.write(path, secret.encode())
        return True
    return False


def _library() -> Any:
    try:
        return import_module("keyring")
    except ModuleNotFoundError:
        raise LoginFailed("keyring: package not installed; pip install keyring, or use env: or file:") from None


def _replace_in_keyring(place: str, secret: str) -> bool:
    service, _, user = place.partition("/")
    keyring = _library()
    try:
        keyring.set_password(service, user, secret)
    except keyring.errors.KeyringError:
        return False
    return True


def _keyring(place: str) -> str:
    service, _, user = place.partition("/")
    keyring = _library()
    try:
        password: str | None = keyring.get_password(service, user)
    except keyring.errors.KeyringError as error:
        raise LoginFailed("keyring: cannot be opened; unlock it, or use env: or file:") from error
    if password is None:
        raise LoginFailed("keyring: no such entry; keyring set SERVICE USER")
    return password


def _block(_place: str) -> str:
    raise LoginFailed("block: only available while Catchment runs; start it with `catchment up --detach`")


_READERS: dict[str, Callable[[str], str]] = {"env": _variable, "file": _file, "keyring": _keyring, "block": _block}
