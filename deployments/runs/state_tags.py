"""The tags that show the state of a source in Prefect's list of deployments: `held`, `failing` or `paused`.

The sources file does not have them. A deploy by any program removes them; its event restores them at once.
The tag is the first one: the list shows only one or two.
"""

from __future__ import annotations

from collections.abc import Set

from catchment.ledger import Ledger, Source
from catchment.runtime.home import Home
from catchment.runtime.membership import Membership
from catchment.runtime.server_report import ServerReport
from catchment.views.sources import shown_state
from catchment.views.waits import state_of
from deployments.server.client import api, everything
from deployments.server.run_names import STATE_TAGS
from deployments.server.running import Running
from deployments.sources.placement import other_host_of


def mark(home: Home, ledger: Ledger, running: Running, report: ServerReport) -> Set[str]:
    """Give the deployments of sources the tags of their states. Returns the sources with a tag. Idempotent.

    A joined host marks the deployments that it has made. Raises LedgerError, TryAgain if the server does not respond.
    """
    marks = {source.name: its_tag for source in ledger.sources.all() if (its_tag := tag_of(ledger, source, report))}
    marked = {"operator": "or_", "name": {"any_": [*marks]}, "tags": {"any_": [*STATE_TAGS]}}
    membership = Membership.of(home)
    with api(running) as client:
        for row in everything(client, "deployments", {"deployments": marked}):
            own = [tag for tag in row["tags"] if tag not in STATE_TAGS]
            tags = [marks[row["name"]], *own] if row["name"] in marks else own
            if "source" in own and tags != row["tags"] and not other_host_of(row, membership):
                client.patch(f"/deployments/{row['id']}", json={"tags": tags}).raise_unless_missing()
    return marks.keys()


def tag_of(ledger: Ledger, source: Source, report: ServerReport) -> str:
    """Return the tag of a source; empty for a good one."""
    state, _ = state_of(source.name, source, report)
    tag = shown_state(ledger, source.id, state)
    return "" if tag == "active" else tag
