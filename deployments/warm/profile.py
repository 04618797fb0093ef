"""What a run may take of the machine: by its connector, changed by its job variables and by its source's settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from catchment.model import Priority
from catchment.settings import ResourceChanges, Resources, SourceSettings
from connectors import connector_class, kinds

_SYNC = "sync-"


@dataclass(frozen=True, slots=True)
class Profile:
    """One run's weight and bounds; `memory_mb` and `at_once` are None where there is no bound, as for a flow not of ours."""

    kind: str
    cores: float = 0.0
    memory_mb: int | None = None
    at_once: int | None = None
    priority: Priority = Priority.NORMAL


def profile(flow: str, parameters: Mapping[str, Any], variables: Mapping[str, Any]) -> Profile:
    """The profile of a run of this flow. What its source's settings say counts more than its job variables."""
    kind = flow.removeprefix(_SYNC)
    asked = _changes({name: variables[name] for name in ResourceChanges.model_fields if name in variables})
    if not flow.startswith(_SYNC) or kind not in kinds():
        return Profile(flow, asked.cores or 0.0, asked.memory_mb, asked.at_once)
    settings = parameters.get("settings")
    settings = settings if isinstance(settings, Mapping) else {}
    resources = _changes(settings.get("resources")).on(asked.on(connector_class(kind).policy.resources))
    priority = settings.get("priority")
    return Profile(
        kind,
        resources.cores,
        resources.memory_mb,
        resources.at_once,
        Priority(priority) if priority in list(Priority) else Priority.NORMAL,
    )


def job_variables(kind: str, settings: SourceSettings) -> dict[str, Any]:
    """The resources of a source as its deployment shows them."""
    resources: Resources = settings.policy(connector_class(kind).policy).resources
    return resources.model_dump()


def _changes(given: object) -> ResourceChanges:
    try:
        return ResourceChanges.model_validate(given or {})
    except ValidationError:
        # A run checks its own parameters, and the server a deployment's variables; they tell the reason.
        return ResourceChanges()
