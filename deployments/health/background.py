"""The work that belongs to no source: whether its last run succeeded, and the progress of the embeddings.

Separate from `checks`, because both halves of `catchment check` report it.
"""

from __future__ import annotations

from catchment.ledger import Ledger
from catchment.runtime.home import Home
from catchment.search.meaning.meaning_status import MeaningStatus
from catchment.telemetry.incidents import Condition
from catchment.views import health
from deployments.server.client import Client, api
from deployments.server.environment import POOL
from deployments.server.planned import own_queues
from deployments.server.running import Running

_STARTED = ("RUNNING", "COMPLETED", "FAILED", "CANCELLED", "CRASHED")


def examine(home: Home, state: Running | None = None) -> list[Condition]:
    """Check the embeddings, the sinks and, if the server runs, the last runs of `embed` and `upkeep`. Raises TryAgain."""
    embed = upkeep = ""
    if state is not None:
        with api(state) as client:
            embed, upkeep = _failure(client, home, "embed"), _failure(client, home, "upkeep")
    findings = [health.upkeep(upkeep)] if upkeep else []

    def of_ledger(ledger: Ledger) -> list[Condition]:
        sinks = [health.sink(sink, ledger.now()) for sink in ledger.outbox.all()]
        return [health.embeddings(MeaningStatus.read(home, ledger), embed), *sinks]

    return findings + Ledger.ask(home, of_ledger, list[Condition]())


def _failure(client: Client, home: Home, tag: str) -> str:
    """Return why the last run of a deployment failed; empty if it did not, or works."""
    query = {
        "flow_runs": {"state": {"type": {"any_": _STARTED}}},
        "deployments": {"tags": {"all_": [tag]}},
        "work_pools": {"name": {"any_": [POOL]}},
        **own_queues(home),
        "sort": "START_TIME_DESC",
        "limit": 1,
    }
    runs = client.post("/flow_runs/filter", json=query).raise_for_status().json()
    if not runs or runs[0]["state_type"] not in ("FAILED", "CRASHED"):
        return ""
    return str(runs[0]["state"]["message"] or runs[0]["state_name"])
