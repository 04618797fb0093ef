"""Names of the runs that Prefect's server creates: `notes: planned, every 15 min`. It gives them random ones.

A run is named by its flow when it starts. A planned run starts later, and a run that another one covers never starts.
"""

from __future__ import annotations

from typing import Any

from catchment.model import in_words


def name_runs() -> None:
    """Name planned runs after their deployment and schedule, and those of automations after their automation."""
    from prefect.server.models import deployments, flow_runs

    generate: Any = deployments._generate_scheduled_flow_runs
    create: Any = flow_runs.create_flow_run
    read: Any = deployments.read_deployment_schedules

    async def create_with_name(session: Any, flow_run: Any, *given: Any, **named: Any) -> Any:
        if flow_run.created_by is not None:
            flow_run.name = flow_run.created_by.display_value or flow_run.name
        return await create(session, flow_run, *given, **named)

    async def generate_with_names(db: Any, session: Any, deployment_id: Any, **given: Any) -> Any:
        runs = await generate(db, session=session, deployment_id=deployment_id, **given)
        if runs:
            deployment = await session.get(db.Deployment, deployment_id)
            schedules = await read(session=session, deployment_id=deployment_id)
            names = {one.id: f"{deployment.name}: planned, {_timing(one.schedule)}" for one in schedules}
            for run in runs:
                run["name"] = names[run["created_by"]["id"]]
        return runs

    vars(deployments)["_generate_scheduled_flow_runs"] = generate_with_names
    vars(flow_runs)["create_flow_run"] = create_with_name


def _timing(schedule: Any) -> str:
    """Return one of Prefect's schedules as the sources file has it."""
    if hasattr(schedule, "interval"):
        return f"every {in_words(schedule.interval.total_seconds(), exact=True)}"
    if hasattr(schedule, "cron"):
        return f"cron {schedule.cron}"
    # Prefect stores the start of a rule in a line before it.
    return f"rrule {schedule.rrule.splitlines()[-1].removeprefix('RRULE:')}"
