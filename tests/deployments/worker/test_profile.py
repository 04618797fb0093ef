"""What a run may take of the machine, and the variables by which a pool or a deployment says it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deployments.warm.job import WarmJobConfiguration
from pydantic import ValidationError

from catchment.model import Priority
from catchment.settings import ResourceChanges
from connectors import connector_class, kinds
from connectors.obsidian import ObsidianSettings
from deployments.worker.profile import job_variables, profile
from deployments.worker.variables import Variables, base_job_template
from deployments.worker.worker import WarmWorker

_DEFAULT = connector_class("obsidian").policy.resources


def _of_vault(
    settings: dict[str, Any], variables: dict[str, Any] | None = None
) -> tuple[float, int | None, int | None]:
    found = profile("sync-obsidian", {"name": "notes", "settings": settings}, variables or {})
    return found.cores, found.memory_mb, found.at_once


@pytest.mark.parametrize("kind", kinds())
def test_every_kind_of_source_says_what_a_sync_takes(kind: str) -> None:
    found = profile(f"sync-{kind}", {"name": "x", "settings": {}}, {})

    assert found.kind == kind
    assert 0 < found.cores <= 1
    assert found.memory_mb is not None
    assert found.at_once is not None


def test_the_settings_of_a_source_count_more_than_job_variables_and_these_more_than_the_connector() -> None:
    assert _of_vault({}) == (_DEFAULT.cores, _DEFAULT.memory_mb, _DEFAULT.at_once)
    assert _of_vault({}, {"memory_mb": 900, "env": {}}) == (_DEFAULT.cores, 900, _DEFAULT.at_once)
    assert _of_vault({"resources": {"memory_mb": 800}}, {"memory_mb": 900, "at_once": 1}) == (_DEFAULT.cores, 800, 1)


def test_resources_that_are_wrong_are_left_to_the_run_to_refuse() -> None:
    assert _of_vault({"resources": {"memory": 3}}) == _of_vault({})
    assert _of_vault({"resources": "much"}) == _of_vault({})
    with pytest.raises(ValidationError):
        ObsidianSettings.model_validate({"root": "/x", "resources": {"memory": 3}})


def test_the_priority_is_that_of_the_source() -> None:
    assert profile("sync-obsidian", {"settings": {"priority": "high"}}, {}).priority is Priority.HIGH
    assert profile("sync-obsidian", {"settings": {"priority": "urgent"}}, {}).priority is Priority.NORMAL


def test_a_flow_that_is_no_sync_has_the_bounds_of_its_job_variables_only() -> None:
    other = profile("report", {}, {"at_once": 2})

    assert (other.kind, other.cores, other.memory_mb, other.at_once) == ("report", 0.0, None, 2)


def test_a_deployment_shows_the_resources_of_its_source() -> None:
    settings = ObsidianSettings(root=Path("/vault"), resources=ResourceChanges(memory_mb=1_024))

    variables = job_variables("obsidian", settings, {"env": {"A": "1"}, "memory_mb": 700, "at_once": 1})

    assert variables == {"env": {"A": "1"}, "cores": _DEFAULT.cores, "memory_mb": 1_024, "at_once": 1}


def test_a_pool_declares_every_variable_and_a_run_takes_what_is_not_for_the_worker() -> None:
    template = base_job_template()

    assert template == WarmWorker.get_default_base_job_template()
    assert set(template["variables"]["properties"]) == set(Variables.model_fields)
    for_the_worker = set(ResourceChanges.model_fields)
    assert set(template["job_configuration"]) == set(Variables.model_fields) - for_the_worker
    assert set(template["job_configuration"]) <= set(WarmJobConfiguration.model_fields)
