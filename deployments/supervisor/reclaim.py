"""Hands back what dead processes hold in the ledger: a short process of its own, for the supervisor never loads the ledger."""

from __future__ import annotations

import sys
from contextlib import closing

from catchment.errors import CatchmentError, NotFound
from catchment.ledger import Ledger
from catchment.runtime.home import Home
from catchment.runtime.process import alive
from connectors import connector_class, kinds
from deployments.server.child_process import become_child
from deployments.sources.sources_file import SourcesFile


def main() -> None:
    """Reclaim once. What goes wrong is said in one line: the next sync of each source does the same."""
    become_child("reclaim")
    try:
        reclaim(Home.default())
    except NotFound:
        # Nothing was ever brought in.
        return
    except CatchmentError as error:
        sys.exit(str(error))


def reclaim(home: Home) -> int:
    """Close the syncs whose process is gone and let their jobs wait again, whatever boot they are of; how many jobs.

    What a living process works on is left alone. May be called at any time, and again. Raises LedgerError, NotFound.
    """
    attempts = _attempts(home)
    with closing(Ledger.inspect(home.database_url)) as ledger:
        jobs = 0
        for source in ledger.sources.all():
            last = ledger.syncs.last(source.id)
            if last is not None and last.outcome is None and alive(last.owner):
                continue
            most = attempts.get(source.name) or connector_class(source.kind).policy.retry.attempts
            recovered = ledger.queue.recover(source.id, alive, most)
            jobs += recovered.released + recovered.quarantined
        ledger.syncs.close_dead(alive)
        return jobs


def _attempts(home: Home) -> dict[str, int]:
    """How often a job of each source may be tried, by the source's own policy; a file that is wrong says nothing."""
    try:
        entries = SourcesFile.load(home.sources_file).entries
    except CatchmentError:
        return {}
    policies = {kind: connector_class(kind).policy for kind in kinds()}
    return {entry.name: entry.settings.policy(policies[entry.kind]).retry.attempts for entry in entries}


if __name__ == "__main__":
    main()
