"""Identify the failure of an input and minimize the input with the same failure."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

_ROOT = Path(__file__).parents[2]
_SECONDS = 60
_TRIES = 3_000

Check = Callable[[bytes], None]


class Slow(Exception):
    """The check took more than a minute."""


def failure(check: Check, data: bytes) -> str | None:
    """Return the error type and the line of our code that raised it; None if the input passes."""
    try:
        with _within(_SECONDS):
            check(data)
    except Slow as error:
        return type(error).__name__
    except Exception as error:  # noqa: BLE001 - any error of a parser is a result
        ours = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_ours(frame.filename)]
        return f"{type(error).__name__} at {ours[-1].filename}:{ours[-1].lineno}"
    return None


def smaller(check: Check, data: bytes) -> bytes:
    """Minimize a failing input: remove pieces while the failure stays the same."""
    why, tries = failure(check, data), 0
    length = max(1, len(data) // 2)
    while length and tries < _TRIES:
        place, took = 0, False
        while place < len(data) and tries < _TRIES:
            less = data[:place] + data[place + length :]
            tries += 1
            if failure(check, less) == why:
                data, took = less, True
            else:
                place += length
        if not took or length > len(data):
            length //= 2
    return data


def _is_ours(name: str) -> bool:
    return Path(name).is_relative_to(_ROOT) and ".venv" not in name


@contextmanager
def _within(seconds: int) -> Iterator[None]:
    def late(_number: int, _frame: FrameType | None) -> None:
        raise Slow

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
