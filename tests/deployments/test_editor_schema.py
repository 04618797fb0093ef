"""The schema of sources.yaml for editors accepts the files that Catchment accepts, and finds the same mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from catchment.errors import ConfigError
from catchment.settings import Home
from connectors import kinds
from deployments.sources import editor_schema
from deployments.sources.sources_file import SourcesFile, entrypoint
from deployments.sources.sources_version import VERSION

SETTINGS: dict[str, dict[str, Any]] = {
    "github": {"repositories": ["me/*"], "since": "2025-01-01", "limits": {"max_mb": 1}},
    "imap": {"host": "example.org", "user": "me", "password": "env:PASSWORD"},
    "local_files": {"root": "/srv/papers", "retry": {"attempts": 3}, "resources": {"at_once": 1}},
    "obsidian": {"root": "/srv/vault", "keep_raw": None},
    "program": {"command": ["/usr/bin/tap"], "config": {"size": 1}, "fields": {"a": {"title": "b"}}},
    "pushed": {"folder": "mine"},
    "remote": {"remote": "drive:Papers", "run": {"hours": 1}},
    "web": {"addresses": ["https://example.org/feed"]},
}


def file(kind: str, change: dict[str, Any] | None = None, **settings: Any) -> dict[str, Any]:
    return {
        "version": VERSION,
        "pull": [],
        "deployments": [
            {
                "name": "mine",
                "entrypoint": entrypoint(kind),
                "tags": ["source", kind, "watch:2s"],
                "parameters": {"name": "mine", "settings": {**SETTINGS[kind], **settings}},
                "schedules": [{"interval": 900, "timezone": "UTC", "slug": "main"}],
                "concurrency_limit": {"limit": 1, "collision_strategy": "ENQUEUE"},
                "work_pool": {"name": "catchment"},
                **(change or {}),
            }
        ],
    }


def is_accepted(written: dict[str, Any]) -> bool:
    try:
        return bool(SourcesFile(Path("sources.yaml"), yaml.safe_dump(written)).entries)
    except ConfigError:
        return False


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft7Validator:
    jsonschema.Draft7Validator.check_schema(made := editor_schema.schema())
    return jsonschema.Draft7Validator(made)


@pytest.mark.parametrize("kind", kinds())
def test_schema_agrees_with_the_program(kind: str, validator: jsonschema.Draft7Validator) -> None:
    assert is_accepted(file(kind))
    for written in (
        file(kind),
        file(kind, {"triggers": []}),
        file(kind, rot="/srv"),
        file(kind, priority="urgent"),
        file(kind, {"entrypoint": "flows.nothing.sync"}),
        file(kind, {"schedule": []}),
        file(kind, {"parameters": {"name": "mine", "setings": {}}}),
        {**file(kind), "version": 99},
    ):
        assert validator.is_valid(written) is is_accepted(written), written


def test_new_file_names_the_schema_beside_it(home: Home) -> None:
    with SourcesFile.changing(home.sources_file) as sources:
        sources.save()
    first = home.sources_file.read_text().splitlines()[0]
    editor_schema.write(home)
    written = json.loads((home.path / first.removeprefix("# yaml-language-server: $schema=")).read_text())
    assert written == editor_schema.schema()
