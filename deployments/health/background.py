"""The work that belongs to no source: whether its last run succeeded, and the progress of embeddings and recognition.

Separate from `checks`, because both halves of `catchment check` report it.
"""

from __future__ import annotations

from catchment.ledger import Ledger
from catchment.runtime.home import Home
from catchment.search.meaning.meaning_status import MeaningStatus
from catchment.telemetry.incidents import Condition
from catchment.views import health
from catchment.views.work.recognition import RecognitionStatus
from deployments.server.client import Client, api
from deployments.server.environment import POOL
from deployments.server.planned import own_queues
from deployments.server.running import Running

_STARTED = ("RUNNING", "COMPLETED", "FAILED", "CANCELLED", "CRASHED")


def examine(home: Home, state: Running | None = None) -> list[Condition]:
    """Check embeddings, recognition, sinks and, if the server runs, the last runs of their flows. Raises TryAgain."""
    embed = recognize = upkeep = ""
    if state is not None:
        with api(state) as client:
            embed, recognize, upkeep = (_failure(client, home, tag) for tag in ("embed", "recognize", "upkeep"))
    findings = [health.upkeep(upkeep)] if upkeep else []

    def of_ledger(ledger: Ledger) -> list[Condition]:
        sinks = [health.sink(sink, ledger.now()) for sink in ledger.outbox.all()]
        pages = health.recognition(RecognitionStatus.read(ledger), recognize)
        return [health.embeddings(MeaningStatus.read(home, ledger), embed), pages, *sinks]

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
