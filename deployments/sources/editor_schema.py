"""The JSON schema of `sources.yaml`, with which editors complete and check it: a file beside it, which its first line names.

Made from the classes that read the file. They accept a little more, such as a number in quotes.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from pydantic.json_schema import models_json_schema

from catchment.runtime import atomic_files
from catchment.runtime.home import Home
from connectors import connector_class, kinds
from deployments.sources.prefect_file import FileFormat
from deployments.sources.sources_file import SCHEMA, entrypoint
from deployments.sources.sources_version import KEY, VERSION


def write(home: Home) -> None:
    """Write the schema of this version into the home. A full disk is ignored: the editor then knows no keys, or older ones."""
    with suppress(OSError):
        atomic_files.write(home.path / SCHEMA, json.dumps(schema(), indent=1).encode())


def schema() -> dict[str, Any]:
    """Return the schema: the format of prefect.yaml, with the version, and with the settings of each kind of source."""
    models = {kind: connector_class(kind).settings for kind in kinds()}
    every = [(model, "validation") for model in (FileFormat, *models.values())]
    references, made = models_json_schema(every, ref_template="#/$defs/{model}")  # type: ignore[arg-type]
    definitions = made["$defs"]
    file, deployment = definitions.pop(FileFormat.__name__), definitions["Deployment"]
    file["properties"][KEY] = {"const": VERSION, "description": "The version of the format"}
    definitions["Schedule"]["properties"]["interval"] = {"type": ["number", "string", "null"], "description": "Seconds"}
    fields = deployment["properties"]
    fields["entrypoint"] = {"enum": [entrypoint(kind) for kind in models], "description": "The kind of the source"}
    fields["parameters"] = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "settings": {"type": "object"}, "deep": {"type": "boolean"}},
        "required": ["name"],
        "additionalProperties": False,
    }
    deployment["allOf"] = [
        {
            "if": {"properties": {"entrypoint": {"const": entrypoint(kind)}}},
            "then": {"properties": {"parameters": {"properties": {"settings": references[model, "validation"]}}}},
        }
        for kind, model in models.items()
    ]
    return {"$schema": "http://json-schema.org/draft-07/schema#", **file, "$defs": definitions}
