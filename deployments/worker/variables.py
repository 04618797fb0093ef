"""What a work pool of type `warm`, a deployment or a run may set. Imports no Prefect: the supervisor makes the pool too."""

from __future__ import annotations

from typing import Any

from catchment.settings import ResourceChanges


def base_job_template() -> dict[str, Any]:
    """The template of a pool of type `warm`. Its variables are a run's resources, which only the worker reads."""
    schema = ResourceChanges.model_json_schema()
    # The server refuses an empty job configuration.
    return {
        "job_configuration": {"labels": {}},
        "variables": {"type": "object", "properties": schema["properties"]},
    }
