"""The admission profile of a run, from its connector, its job variables and its source's settings. The last has precedence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from catchment.model import Priority
from catchment.settings import ResourceChanges, Resources, SourceSettings
from connectors import connector_class, kinds

_SYNC = "sync-"
_EMBED = "embed"


@dataclass(frozen=True, slots=True)
class Profile:
    """The kind of a run, the limit of concurrent runs of that kind (None: unlimited), and its priority."""

    kind: str
    at_once: int | None = None
    priority: Priority = Priority.NORMAL
    is_background: bool = False
    """Whether the run needs no run slot, because its work is in a process of low priority."""


def profile(flow: str, parameters: Mapping[str, Any], variables: Mapping[str, Any]) -> Profile:
    """Return the profile of a run of this flow. The source's settings have precedence over the job variables."""
    if flow == _EMBED:
        return Profile(flow, 1, Priority.LOW, is_background=True)
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
    """Return the job variables of a source's deployment: the given ones, and its effective resources."""
    of_source = settings.resources.model_dump() if settings.resources else None
    return {**given, **_resources(kind, given, of_source).model_dump()}


def _resources(kind: str, variables: Mapping[str, Any], of_source: object) -> Resources:
    return _changes(of_source).on(_changes(variables).on(connector_class(kind).policy.resources))


def _changes(given: object) -> ResourceChanges:
    """Return the resource changes among the values; none if they are invalid."""
    if not isinstance(given, Mapping):
        return ResourceChanges()
    try:
        return ResourceChanges.model_validate({name: given.get(name) for name in ResourceChanges.model_fields})
    except ValidationError:
        # The run validates its parameters, and the server validates the variables; they report the error.
        return ResourceChanges()
