"""A PostgreSQL server that is restarted or away in the middle of the work."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import closing
from threading import Timer

import pytest

from catchment.errors import LedgerUnavailable
from catchment.ledger import Ledger
from tests.ledger.world import Clock, World, notes
from tests.postgres_server import PostgresServer

pytestmark = pytest.mark.postgres


def test_sync_waits_for_a_restarted_server_and_loses_nothing(new_postgres: Callable[[], PostgresServer]) -> None:
    server = new_postgres()
    server.start()
    with closing(Ledger.open(server.url, patience=60)) as ledger:
        world = World(server.url, Clock(), ledger)
        world.ingest(*notes(3))
        world.see(*notes(3, start=3))
        batch = world.claim()
        with pytest.raises(LedgerUnavailable, match="no connection"), ledger._store.write() as writing:
            writing.ids("token")
            server.stop(signal.SIGQUIT)
            writing.copy("links", [])
        with pytest.raises(LedgerUnavailable, match="start it"):
            Ledger.inspect(server.url)
        # Meanwhile the sync delivers its batch.
        starting = Timer(1, server.start)
        starting.start()
        assert len(world.deliver(batch).succeeded) == 3
        starting.join()
        world.settle()
        assert ledger.check(deep=True) == []
        assert len(world.found("says")) == 6
