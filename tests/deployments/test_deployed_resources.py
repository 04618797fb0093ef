"""What a run of a source may take of the machine, as its deployment on the server shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from catchment.settings import Home, ResourceChanges
from connectors import connector_class
from connectors.obsidian import ObsidianSettings
from deployments.server.client import api
from deployments.server.running import Running
from deployments.sources.deploy import deploy, undeploy
from deployments.sources.sources_file import SourceEntry, SourcesFile

pytestmark = pytest.mark.server

_NAME = "shows-resources"


def _put(home: Home, settings: ObsidianSettings) -> None:
    file = SourcesFile.load(home.sources_file)
    if any(entry.name == _NAME for entry in file.entries):
        file.remove(_NAME)
    file.add(SourceEntry(_NAME, "obsidian", settings, paused=True))
    file.save()


def _deployed(server: Running) -> dict[str, Any]:
    with api(server) as client:
        found: dict[str, Any] = client.get(f"/deployments/name/sync-obsidian/{_NAME}").raise_for_status().json()
        return found


def test_a_deployment_shows_what_its_runs_may_take_and_keeps_up_with_the_settings(
    server_home: Home, server: Running, tmp_path: Path
) -> None:
    default = connector_class("obsidian").policy.resources
    try:
        _put(server_home, ObsidianSettings(root=tmp_path, resources=ResourceChanges(memory_mb=900)))
        deploy(server_home, server, [_NAME])
        first = _deployed(server)
        _put(server_home, ObsidianSettings(root=tmp_path, resources=ResourceChanges(at_once=1)))
        deploy(server_home, server, [_NAME])
        second = _deployed(server)
    finally:
        undeploy(server_home, server, _NAME)
        file = SourcesFile.load(server_home.sources_file)
        file.remove(_NAME)
        file.save()

    assert first["job_variables"] == default.model_dump() | {"memory_mb": 900}
    assert second["job_variables"] == default.model_dump() | {"at_once": 1}
    assert second["parameters"]["settings"]["resources"] == {"at_once": 1}
    assert second["paused"]
    assert second["concurrency_options"]["collision_strategy"] == "ENQUEUE"
