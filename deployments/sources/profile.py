"""The admission profile of a run, from its connector, its job variables and its source's settings. The last has precedence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from catchment.model import Priority
from catchment.settings import ResourceChanges, SourceSettings
from connectors import connector_class, kinds

_SYNC = "sync-"
_BACKGROUND = ("embed", "recognize")


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
    if flow in _BACKGROUND:
        return Profile(flow, 1, Priority.LOW, is_background=True)
    kind = flow.removeprefix(_SYNC)
    if not flow.startswith(_SYNC) or kind not in kinds():
        return Profile(flow, _at_once(variables))
    settings = parameters.get("settings")
    settings = settings if isinstance(settings, Mapping) else {}
    priority = settings.get("priority")
    return Profile(
        kind,
        _at_once(settings.get("resources")) or _at_once(variables) or connector_class(kind).policy.at_once,
        Priority(priority) if priority in list(Priority) else Priority.NORMAL,
    )


def job_variables(kind: str, settings: SourceSettings, variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the job variables of a source's deployment: the given ones, and how many syncs of its kind may run at once."""
    expected = profile(f"{_SYNC}{kind}", {"settings": settings.model_dump(mode="json")}, variables)
    return {**variables, "at_once": expected.at_once or connector_class(kind).policy.at_once}


def _at_once(variables: object) -> int | None:
    """Return the setting among the values; None if it is missing or invalid."""
    number = variables.get("at_once") if isinstance(variables, Mapping) else None
    try:
        return ResourceChanges.model_validate({"at_once": number}).at_once
    except ValidationError:
        # The run validates its parameters, and the server validates the variables; they report the error.
        return None
