"""Names and tags of the runs that Prefect's server creates: `notes: planned, every 15 min`. It gives them random names.

A run is named by its flow when it starts. A planned run starts later, and a run that another one covers never starts.

A run does not take over the state tag of its deployment, which describes earlier syncs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from catchment.model import in_words

STATE_TAGS = ("held", "failing", "paused")
"""Tags that a deployment has while its source is in such a state; `deployments/runs/state_tags.py` sets them."""


def name_runs() -> None:
    """Name planned runs after their deployment and schedule, those of automations after their automation; drop state tags."""
    from prefect.server.models import deployments, flow_runs

    generate: Any = deployments._generate_scheduled_flow_runs
    create: Any = flow_runs.create_flow_run
    read: Any = deployments.read_deployment_schedules

    async def create_with_name(session: Any, flow_run: Any, *arguments: Any, **named: Any) -> Any:
        if flow_run.created_by is not None:
            flow_run.name = flow_run.created_by.display_value or flow_run.name
        if flow_run.deployment_id is not None:
            flow_run.tags = _lasting(flow_run.tags)
        return await create(session, flow_run, *arguments, **named)

    async def generate_with_names(db: Any, session: Any, deployment_id: Any, **arguments: Any) -> Any:
        runs = await generate(db, session=session, deployment_id=deployment_id, **arguments)
        if runs:
            deployment = await session.get(db.Deployment, deployment_id)
            schedules = await read(session=session, deployment_id=deployment_id)
            names = {schedule.id: f"{deployment.name}: planned, {_timing(schedule.schedule)}" for schedule in schedules}
            for run in runs:
                run["name"], run["tags"] = names[run["created_by"]["id"]], _lasting(run["tags"])
        return runs

    vars(deployments)["_generate_scheduled_flow_runs"] = generate_with_names
    vars(flow_runs)["create_flow_run"] = create_with_name


def _lasting(tags: Iterable[str]) -> list[str]:
    return [tag for tag in tags if tag not in STATE_TAGS]


def _timing(schedule: Any) -> str:
    """Return one of Prefect's schedules as the sources file has it."""
    if hasattr(schedule, "interval"):
        return f"every {in_words(schedule.interval.total_seconds(), exact=True)}"
    if hasattr(schedule, "cron"):
        return f"cron {schedule.cron}"
    # Prefect stores the start of a rule in a line before it.
    return f"rrule {schedule.rrule.splitlines()[-1].removeprefix('RRULE:')}"
