"""The deployments of the sinks, by which the flow `deliver` is started. Does not import Prefect."""

from __future__ import annotations

from contextlib import closing, suppress

import orjson

from catchment.errors import NotFound
from catchment.ledger import Ledger
from catchment.runtime import atomic_files
from catchment.runtime.home import Home
from deployments.runs.runs import request_run
from deployments.server.client import api, deployment_named
from deployments.server.running import running

_FLOW = "deliver"
_ENTRYPOINT = "flows.deliver.deliver"


def start_delivery(home: Home, name: str) -> None:
    """Deploy a sink and request a delivery, if Catchment runs; otherwise, its next start does."""
    if server := running(home):
        deploy_sinks(home)
        with api(server) as client:
            if deployment := deployment_named(client, _FLOW, name):
                request_run(client, deployment["id"], f"{name}: waiting")


def deploy_sinks(home: Home) -> None:
    """Give each sink a deployment with its name, unless another host did. No effect if Catchment does not run."""
    from deployments.sources.deploy import deploy

    names = list[str]()
    with suppress(NotFound), closing(Ledger.inspect(home)) as ledger:
        names = [sink.name for sink in ledger.outbox.all()]
    if names and (server := running(home)):
        file = home.run / "sinks.yaml"
        atomic_files.write(file, orjson.dumps({"pull": [], "deployments": [_deployment(name) for name in names]}))
        deploy(home, server, file=file)


def undeploy_sink(home: Home, name: str) -> None:
    """Delete the deployment of a sink. No effect if Catchment does not run."""
    if server := running(home):
        from deployments.sources.deploy import undeploy

        undeploy(home, server, name, _ENTRYPOINT)


def _deployment(name: str) -> dict[str, object]:
    return {
        "name": name,
        "description": "Copies documents to a sink after each change. Pause it with `catchment sinks pause`.",
        "entrypoint": _ENTRYPOINT,
        "tags": ["sink"],
        "parameters": {"name": name},
        "concurrency_limit": {"limit": 1, "collision_strategy": "ENQUEUE"},
        "work_pool": {"name": "catchment"},
    }
