"""The flow of each kind of source as Prefect shows it: its name, description and version, and the form of its parameters.

Does not import Prefect, which takes two seconds.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic import BaseModel, Field, create_model

from catchment.contracts import Watchable
from catchment.settings import BackfillNumber, PlanId, SourceName
from connectors import connector_class, version


def parameters(kind: str) -> dict[str, tuple[Any, Any, str]]:
    """Return the parameters of a flow by name, in their order: type, default (`...` if it is required) and description."""
    connector = connector_class(kind)
    hint = (bool, False, "Check only the paths that the watcher reported.")
    return {
        "deep": (bool, False, connector.manifest.deep),
        "plan": (PlanId | None, None, "ID of a saved plan; only its changes are applied."),
        "backfill": (BackfillNumber | None, None, "Number of a started backfill; only its work is done."),
        **({"changed_only": hint} if issubclass(connector, Watchable) else {}),
        "name": (SourceName, ..., "Name of the source. Another name is refused."),
        "settings": (connector.settings, ..., f"Settings for this run. {connector.manifest.fixed}"),
    }


@cache
def flow_form(kind: str) -> dict[str, Any]:
    """Return the name, description, version and parameter schema of a flow, equal to those that Prefect computes."""
    by_name = parameters(kind)
    fields: dict[str, Any] = {
        name: (type_, Field(default, title=name, description=text, json_schema_extra={"position": position}))
        for position, (name, (type_, default, text)) in enumerate(by_name.items())
    }
    model: type[BaseModel] = create_model("Parameters", **fields)
    schema = model.model_json_schema(ref_template="#/definitions/{model}")
    lines = [f"    {name}: {text}" for name, (_, _, text) in by_name.items()]
    title = f"Sync {connector_class(kind).manifest.content} to the library."
    return {
        "name": f"sync-{kind}",
        "description": "\n".join([title, "", "Args:", *lines]),
        "parameter_schema": {"definitions": schema.pop("$defs"), **schema},
        "version": version(kind),
    }
