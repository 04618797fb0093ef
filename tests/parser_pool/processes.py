"""The processes and descriptors of the parser pool, separated from those of other tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from pathlib import Path

import psutil

from catchment.parser_pool import ParserPool


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


_others: set[psutil.Process] = set()
"""Processes that this one had started before the test, such as servers that tests share."""


def set_others_apart() -> None:
    """Ignore the processes that exist now, among them multiprocessing's resource tracker, which lives as long as this one."""
    resource_tracker.ensure_running()
    _others.clear()
    _others.update(psutil.Process().children())


def processes() -> list[psutil.Process]:
    """The descendants of this process since the test began: the fork server and the parser processes."""
    own = [child for child in psutil.Process().children() if child not in _others]
    return own + [below for child in own for below in child.children(recursive=True)]


@contextmanager
def leaving_nothing_behind() -> Iterator[ParserPool]:
    """A pool of two processes; once it is closed, none of its processes and descriptors is left."""
    set_others_apart()
    before = descriptors()
    with ParserPool(2) as pool:
        yield pool
    assert processes() == []
    assert descriptors() == before


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE  # its new parent has not reaped it yet
    except psutil.NoSuchProcess:
        return True
