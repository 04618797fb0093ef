"""The sync that a flow run works on. Tasks name it by its number, so that no object and nothing private is a parameter."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from catchment.pipeline import SourceSync, open_sync
from catchment.secrets import read_blocks_with
from catchment.settings import Home, SourceSettings
from connectors import connector_class
from tasks.blocks import read_block

__all__ = ["SourceSync", "current", "session"]

_open: dict[int, SourceSync] = {}


@contextmanager
def session(kind: str, name: str, settings: SourceSettings, run: str | None) -> Iterator[SourceSync]:
    """Begin a sync of the source and make it known to the tasks of this process until it ends."""
    read_blocks_with(read_block)
    connector = connector_class(kind)
    policy = settings.policy(connector.policy)
    with open_sync(Home.default(), connector(settings), name, policy, settings.priority, run=run) as sync:
        _open[sync.sync.id] = sync
        try:
            yield sync
        finally:
            del _open[sync.sync.id]


def current(sync: int) -> SourceSync:
    """The open sync of that number."""
    return _open[sync]
