"""Our work pool on the Prefect server: creates and updates it, and checks that a worker serves it."""

from __future__ import annotations

from typing import Any

from deployments.server.client import api
from deployments.server.environment import POOL
from deployments.server.running import Running


def ensure_pool(state: Running) -> None:
    """Create or update the work pool. Idempotent."""
    template = base_job_template()
    with api(state) as client:
        found = client.get(f"/work_pools/{POOL}")
        if found.is_missing:
            # No limit here: the worker adapts its own limit, and sees waiting runs only if the server does not withhold them.
            pool = {"name": POOL, "type": "warm", "base_job_template": template}
            client.post("/work_pools/", json=pool).raise_for_status()
        elif found.raise_for_status().json()["base_job_template"] != template:
            client.patch(f"/work_pools/{POOL}", json={"base_job_template": template}).raise_for_status()


def worker_online(state: Running) -> bool:
    """Whether a worker has polled our pool since this start. The server's own status lags by a minute."""
    with api(state) as client:
        since = {"workers": {"last_heartbeat_time": {"after_": state.started.isoformat()}}}
        answer = client.post(f"/work_pools/{POOL}/workers/filter", json=since).raise_for_status()
        return bool(answer.json())


def base_job_template() -> dict[str, Any]:
    """The template of a pool of type `warm`. Its variables are a run's resources, which only the worker reads."""
    # Imported here: the description of resources loads heavy modules, which the supervisor needs once.
    from catchment.settings import ResourceChanges

    schema = ResourceChanges.model_json_schema()
    # The server rejects an empty job configuration.
    return {
        "job_configuration": {"labels": {}},
        "variables": {"type": "object", "properties": schema["properties"]},
    }
