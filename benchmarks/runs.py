"""An empty run with the warm worker and with Prefect's process worker, on the same server, in turn."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from catchment.settings import Home
from deployments.server.client import Client, api
from deployments.server.environment import POOL, child_environment
from deployments.server.running import Running

_STOCK = "stock"
_REST = 1.2


def compare_workers(home: Home, server: Running, runs: int) -> dict[str, list[float]]:
    """Return the seconds from creation to completion, by the server's clock, of runs of an empty flow."""
    with api(server) as client:
        client.post("/work_pools/", json={"name": _STOCK, "type": "process"}).raise_for_status()
        with _stock_worker(home, server, client):
            deployments = {
                "executed by the runner": _deploy(client, POOL),
                "by Prefect's process worker": _deploy(client, _STOCK),
            }
            for deployment in deployments.values():
                _run(client, deployment)
            taken: dict[str, list[float]] = {name: [] for name in deployments}
            for _ in range(runs):
                for name, deployment in deployments.items():
                    taken[name].append(_run(client, deployment))
    return taken


@contextmanager
def _stock_worker(home: Home, server: Running, client: Client) -> Iterator[None]:
    """Prefect's own worker, with Prefect's default polling interval."""
    environment = child_environment(home, port=server.port, auth=server.login)
    del environment["PREFECT_WORKER_QUERY_SECONDS"]
    command = [sys.executable, "-P", "-m", "prefect", "worker", "start", "--pool", _STOCK, "--type", "process"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as worker:
        online = {"workers": {"status": {"any_": ["ONLINE"]}}}
        try:
            while not client.post(f"/work_pools/{_STOCK}/workers/filter", json=online).raise_for_status().json():
                time.sleep(0.2)
            yield
        finally:
            # It may not react to SIGTERM, and has no more work.
            worker.kill()


def _deploy(client: Client, pool: str) -> str:
    flow = client.post("/flows/", json={"name": "nothing"}).raise_for_status().json()["id"]
    deployment = {"name": pool, "flow_id": flow, "entrypoint": "benchmarks.nothing.nothing", "work_pool_name": pool}
    return str(client.post("/deployments/", json=deployment).raise_for_status().json()["id"])


def _run(client: Client, deployment: str) -> float:
    run: dict[str, Any] = client.post(f"/deployments/{deployment}/create_flow_run", json={}).raise_for_status().json()
    while not run["end_time"]:
        # Rarely, because requests slow down the server while it is busy with the run.
        time.sleep(_REST)
        run = client.get(f"/flow_runs/{run['id']}").raise_for_status().json()
    return (datetime.fromisoformat(run["end_time"]) - datetime.fromisoformat(run["created"])).total_seconds()
