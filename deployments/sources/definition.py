"""The API fields of a deployment that a file in the format of prefect.yaml describes.

The fields equal those of `prefect deploy`. Prefect computes some of them by importing the flow, which takes a second. Here
those of a source are made from its connector, and those of other flows are read from the file beside the flow's module
(`flows/upkeep.json`). `python -m tests.golden.flows` writes these files.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from deployments.sources.prefect_file import ConcurrencyLimit, Deployment, Location, PrefectFile, Schedule
from deployments.sources.sources_file import kind_of
from flows.flow_form import flow_form

_PLACEHOLDER = re.compile(r"\{\{\s*([\w.\-\[\]$]+)\s*\}\}")
_STEPS = ("build", "push", "pull")
_OF_AUTOMATION = ("name", "description", "enabled")
_OF_ACTION = ("parameters", "job_variables", "schedule_after")


@dataclass(frozen=True, slots=True)
class DeploymentDefinition:
    """A deployment as the Prefect API takes it.

    `fields` has neither `paused` nor the schedules, which are by slug. `automations` are complete but for the deployment's ID.
    """

    flow: str
    name: str
    fields: Mapping[str, Any]
    schedules: Mapping[str, dict[str, Any]]
    automations: tuple[Mapping[str, Any], ...]
    paused: bool

    @property
    def digest(self) -> str:
        """The digest of everything that a deploy sends to the server."""
        parts = [self.fields, self.schedules, self.automations, self.paused]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def definition(file: PrefectFile, index: int, folder: Path) -> DeploymentDefinition:
    """The definition of the deployment at an index of a file in `folder`. Raises ConfigError with the line and the remedy."""
    _refuse_steps(file, index)
    deployment = _filled_in(file, index, folder)
    flow = _interface(deployment.entrypoint)
    if flow is None:
        raise file.error(
            ("deployments", index, "entrypoint"),
            f"unknown flow {deployment.entrypoint}; check the name, or use `prefect deploy` for flows outside Catchment",
        )
    pool, limit = deployment.work_pool, deployment.concurrency_limit
    options = None
    if isinstance(limit, ConcurrencyLimit):
        options = limit.model_dump(exclude={"limit"}, exclude_none=True)
        limit = limit.limit
    fields = {
        "version": deployment.version or flow["version"],
        "description": deployment.description or flow["description"],
        "tags": deployment.tags,
        "parameters": deployment.parameters,
        "parameter_openapi_schema": flow["parameter_schema"],
        "enforce_parameter_schema": deployment.enforce_parameter_schema is not False,
        "entrypoint": deployment.entrypoint,
        "pull_steps": [],
        "path": None,
        "work_pool_name": pool.name,
        "work_queue_name": pool.work_queue_name,
        "job_variables": pool.job_variables or {},
        "concurrency_limit": limit,
        "concurrency_options": options,
    }
    return DeploymentDefinition(
        flow["name"],
        deployment.name,
        to_jsonable_python(fields),
        {schedule.slug: _schedule(schedule) for schedule in deployment.schedules},
        tuple(_automation(deployment.name, n, spec) for n, spec in enumerate(deployment.triggers or (), 1)),
        bool(deployment.paused),
    )


def _interface(entrypoint: str) -> dict[str, Any] | None:
    """The name, description, version and parameter schema of a flow; None if no such flow is installed."""
    if kind := kind_of(entrypoint):
        return flow_form(kind)
    module, _, function = entrypoint.rpartition(".")
    with suppress(ModuleNotFoundError, FileNotFoundError, KeyError):
        if (spec := find_spec(module)) and spec.origin:
            source = Path(spec.origin)
            recorded = json.loads(source.with_suffix(".json").read_text(encoding="utf-8"))[function]
            # Prefect's version of a flow that states none.
            return {**recorded, "version": hashlib.md5(source.read_bytes(), usedforsecurity=False).hexdigest()}
    return None


def _refuse_steps(file: PrefectFile, index: int) -> None:
    for key in _STEPS:
        steps = getattr(file.deployments[index], key)
        location: Location = (key,) if steps is None else ("deployments", index, key)
        if file.data.get(key) if steps is None else steps:
            raise file.error(
                location, f"{key} steps are not executed, because the flows are installed; write `{key}: []`"
            )


def _filled_in(file: PrefectFile, index: int, folder: Path) -> Deployment:
    """The deployment with `{{ $NAME }}` replaced from the environment, as by `prefect deploy` in the folder of the file."""
    variables = {**os.environ, "PWD": str(folder)}

    def replace(match: re.Match[str]) -> str:
        name = match[1]
        if not name.startswith("$"):
            raise file.error(
                ("deployments", index), f"{match[0]} is not supported; write the value, or {{{{ $NAME }}}}"
            )
        if name[1:] not in variables:
            raise file.error(("deployments", index), f"the environment variable {name[1:]} is not set; set it")
        return variables[name[1:]]

    def fill(value: Any) -> Any:
        if isinstance(value, str):
            return _PLACEHOLDER.sub(replace, value)
        if isinstance(value, dict):
            return {key: fill(inner) for key, inner in value.items()}
        return [fill(inner) for inner in value] if isinstance(value, list | tuple) else value

    written = file.deployments[index]
    # An automation fills in its own placeholders when it runs.
    return Deployment.model_validate({**fill(written.model_dump(exclude={"triggers"})), "triggers": written.triggers})


def _schedule(schedule: Schedule) -> dict[str, Any]:
    timing = schedule.model_dump(include={"cron", "day_or", "rrule", "timezone", "anchor_date"}, exclude_none=True)
    if schedule.interval is not None:
        timing["interval"] = schedule.interval.total_seconds()
    around = schedule.model_dump(include={"active", "parameters", "slug", "replaces"}, exclude_none=True)
    made: dict[str, Any] = to_jsonable_python({**around, "schedule": timing})
    return made


def _automation(deployment: str, number: int, spec: Mapping[str, Any]) -> dict[str, Any]:
    """The automation of a trigger. The file has the keys of the automation, of its action and of the trigger side by side."""
    trigger = {key: value for key, value in spec.items() if key not in (*_OF_AUTOMATION, *_OF_ACTION)}
    action = {key: spec[key] for key in _OF_ACTION if key in spec}
    made: dict[str, Any] = to_jsonable_python(
        {
            "name": f"{deployment}__automation_{number}",
            **{key: spec[key] for key in _OF_AUTOMATION if key in spec},
            "trigger": _trigger(trigger),
            "actions": [{**action, "type": "run-deployment", "source": "selected"}],
        }
    )
    return made


def _trigger(trigger: Mapping[str, Any]) -> dict[str, Any]:
    """The trigger with the defaults of Prefect's client, which the server does not have."""
    if "triggers" in trigger:
        kind = "compound" if "require" in trigger else "sequence"
        return {"type": kind, **trigger, "triggers": [_trigger(inner) for inner in trigger["triggers"]]}
    return {"type": "event", "posture": "Reactive", **trigger}
