"""Select the few inputs that together extend the coverage of the ordinary run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType
from typing import Any

_ROOT = Path(__file__).parents[2]
_FOLDERS = tuple(f"{_ROOT / name}/" for name in ("catchment", "connectors", "console", "deployments"))

Steps = frozenset[tuple[str, int, int]]
"""Transitions between lines, by file."""


def steps(check: Callable[[bytes], None], data: bytes) -> Steps:
    """Return the transitions in our code that an input causes. Raises the errors of the check."""
    found: set[tuple[str, int, int]] = set()

    def called(frame: FrameType, _event: str, _value: Any) -> Callable[..., Any] | None:
        name = frame.f_code.co_filename
        if not name.startswith(_FOLDERS):
            return None
        last = 0

        def went(frame: FrameType, event: str, _value: Any) -> Callable[..., Any]:
            nonlocal last
            if event == "line":
                found.add((name, last, frame.f_lineno))
                last = frame.f_lineno
            return went

        return went

    before = sys.gettrace()
    sys.settrace(called)
    try:
        check(data)
    finally:
        sys.settrace(before)
    return frozenset(found)


def chosen(check: Callable[[bytes], None], known: Iterable[bytes], inputs: Iterable[bytes], most: int) -> list[bytes]:
    """Select at most `most` inputs greedily by new coverage; of equal ones, the shortest."""
    reached = set().union(*(steps(check, data) for data in known))
    new = {data: set(steps(check, data)) for data in sorted(set(inputs), key=lambda data: (len(data), data))}
    found: list[bytes] = []
    while len(found) < most:
        best = max(new, key=lambda data: len(new[data] - reached), default=b"")
        if best not in new or new[best] <= reached:
            break
        found.append(best)
        reached |= new[best]
    return found
