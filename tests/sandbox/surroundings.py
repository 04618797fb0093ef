"""What the tests of the sandbox look at: its processes and descriptors, apart from those of other tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from catchment.sandbox import Sandbox


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


_others: set[psutil.Process] = set()
"""What this process had started before the test: servers that other tests share."""


def set_others_apart() -> None:
    """Take what runs now as the others."""
    _others.clear()
    _others.update(psutil.Process().children())


def processes() -> list[psutil.Process]:
    """What descends from this process since the test began: the sandbox's server and its workers."""
    own = [child for child in psutil.Process().children() if child not in _others]
    return own + [below for child in own for below in child.children(recursive=True)]


@contextmanager
def leaving_nothing_behind() -> Iterator[Sandbox]:
    """A sandbox of two workers; once it is closed, no process and no descriptor of it is left."""
    before = descriptors()
    with Sandbox(2) as sandbox:
        yield sandbox
    assert processes() == []
    assert descriptors() == before
