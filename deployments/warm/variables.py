"""What a work pool of type `warm`, a deployment or a run may set. Imports no Prefect: the supervisor makes the pool too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from catchment.settings import ResourceChanges


class Variables(ResourceChanges):
    """The same as for Prefect's process worker, and what a run may take of the machine."""

    command: str | None = Field(None, description="What a run executes; Prefect's own engine when left empty")
    env: dict[str, str | None] = Field(
        default_factory=dict, title="Environment Variables", description="Environment variables of a run"
    )
    working_dir: Path | None = Field(
        None, title="Working Directory", description="Where a run begins; a temporary folder when left empty"
    )
    stream_output: bool = Field(True, description="Whether the output of a run appears in the worker's own output")


def base_job_template() -> dict[str, Any]:
    """The template of a pool of type `warm`: every variable, and where it goes; resources go to the worker alone."""
    schema = Variables.model_json_schema()
    of_a_run = [name for name in Variables.model_fields if name not in ResourceChanges.model_fields]
    return {
        "job_configuration": {name: f"{{{{ {name} }}}}" for name in of_a_run},
        "variables": {"type": "object", "properties": schema["properties"]},
    }
