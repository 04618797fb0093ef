"""The admission profile of a run: by its connector, its job variables and its source's settings, the last one first."""

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
    """The kind of a run, how many of the kind may run at once (None: any number), and its priority."""

    kind: str
    at_once: int | None = None
    priority: Priority = Priority.NORMAL


def profile(flow: str, parameters: Mapping[str, Any], variables: Mapping[str, Any]) -> Profile:
    """The profile of a run of this flow. What its source's settings say counts more than its job variables."""
    kind = flow.removeprefix(_SYNC)
    if not flow.startswith(_SYNC) or kind not in kinds():
        return Profile(flow, _changes(variables).at_once)
    settings = parameters.get("settings")
    settings = settings if isinstance(settings, Mapping) else {}
    resources = _resources(kind, variables, settings.get("resources"))
    priority = settings.get("priority")
    return Profile(
        kind,
        resources.at_once,
        Priority(priority) if priority in list(Priority) else Priority.NORMAL,
    )


def job_variables(kind: str, settings: SourceSettings, given: Mapping[str, Any]) -> dict[str, Any]:
    """The job variables of a source's deployment: those that were given, and its resources as they are in force."""
    of_source = settings.resources.model_dump() if settings.resources else None
    return {**given, **_resources(kind, given, of_source).model_dump()}


def _resources(kind: str, variables: Mapping[str, Any], of_source: object) -> Resources:
    return _changes(of_source).on(_changes(variables).on(connector_class(kind).policy.resources))


def _changes(given: object) -> ResourceChanges:
    """The changes among other values."""
    if not isinstance(given, Mapping):
        return ResourceChanges()
    try:
        return ResourceChanges.model_validate({name: given.get(name) for name in ResourceChanges.model_fields})
    except ValidationError:
        # A run checks its own parameters, and the server a deployment's variables; they tell the reason.
        return ResourceChanges()
