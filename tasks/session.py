"""The sync that a flow run works on. Tasks name it by its number, so that no object and nothing private is a parameter."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from catchment.contracts import Mirrored
from catchment.runtime.fingerprints import circumstances
from catchment.runtime.secret_references import read_blocks_with
from catchment.settings import Home, SourceSettings
from catchment.sync.plan import Followed, kept
from catchment.sync.session import SourceSync, open_sync
from connectors import connector_class
from tasks.blocks import read_block
from tasks.shell import run_in_flow

__all__ = ["SourceSync", "current", "session"]

_open: dict[int, SourceSync] = {}


@contextmanager
def session(
    kind: str, name: str, settings: SourceSettings, run: str | None, plan: str | None = None
) -> Iterator[SourceSync]:
    """Begin a sync of the source, by a plan if one is named, and make it known to the tasks of this process until it ends.

    Raises NotFound when the plan is not kept any more.
    """
    read_blocks_with(read_block)
    followed = None if plan is None else kept(Home.default(), plan, name)
    connector = connector_class(kind)(settings)
    if isinstance(connector, Mirrored):
        connector.shell = run_in_flow
    policy = settings.policy(connector.policy)
    now = circumstances(settings)
    with open_sync(Home.default(), connector, name, policy, settings.priority, run=run, now=now) as sync:
        if followed is not None:
            sync.discovery.through = Followed(followed, sync.progress)
        _open[sync.sync.id] = sync
        try:
            yield sync
        finally:
            del _open[sync.sync.id]


def current(sync: int) -> SourceSync:
    """The open sync of that number."""
    return _open[sync]
