"""The admission profile of a run, from job variables and settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from catchment.model import Priority
from catchment.settings import ResourceChanges
from connectors import connector_class, kinds
from connectors.obsidian import ObsidianSettings
from deployments.runs.work_pool import base_job_template
from deployments.sources.profile import Profile, job_variables, profile
from deployments.worker.worker import WarmWorker

_DEFAULT = connector_class("obsidian").policy.at_once


def _of_vault(settings: dict[str, Any], variables: dict[str, Any] | None = None) -> int | None:
    return profile("sync-obsidian", {"name": "notes", "settings": settings}, variables or {}).at_once


@pytest.mark.parametrize("kind", kinds())
def test_every_kind_has_its_own_limit(kind: str) -> None:
    found = profile(f"sync-{kind}", {"name": "x", "settings": {}}, {})

    assert found.kind == kind
    assert found.at_once is not None


def test_settings_override_job_variables_and_those_the_connector() -> None:
    assert _of_vault({}) == _DEFAULT
    assert _of_vault({}, {"at_once": 3, "env": {}}) == 3
    assert _of_vault({"resources": {"at_once": 2}}, {"memory_mb": 900, "at_once": 1}) == 2


def test_invalid_resources_are_ignored_for_admission() -> None:
    assert _of_vault({"resources": {"memory": 3}}) == _of_vault({})
    assert _of_vault({"resources": "much"}) == _of_vault({})
    with pytest.raises(ValidationError):
        ObsidianSettings.model_validate({"root": "/x", "resources": {"memory": 3}})


def test_priority_is_taken_from_the_source() -> None:
    assert profile("sync-obsidian", {"settings": {"priority": "high"}}, {}).priority is Priority.HIGH
    assert profile("sync-obsidian", {"settings": {"priority": "urgent"}}, {}).priority is Priority.NORMAL


def test_other_flows_use_the_limit_of_their_job_variables() -> None:
    other = profile("report", {}, {"at_once": 2})

    assert (other.kind, other.at_once) == ("report", 2)


def test_embeddings_are_made_in_the_background() -> None:
    assert profile("embed", {}, {}) == Profile("embed", 1, Priority.LOW, is_background=True)


def test_job_variables_show_the_resources_of_a_source() -> None:
    settings = ObsidianSettings(root=Path("/vault"), resources=ResourceChanges(at_once=2))

    assert job_variables("obsidian", settings, {"env": {"A": "1"}, "at_once": 1}) == {"env": {"A": "1"}, "at_once": 2}
    plain = ObsidianSettings(root=Path("/vault"))
    assert job_variables("obsidian", plain, {"at_once": 1}) == {"at_once": 1}
    assert job_variables("obsidian", plain, {}) == {"at_once": _DEFAULT}


def test_pool_declares_the_resources_of_a_run() -> None:
    template = base_job_template()

    assert template == WarmWorker.get_default_base_job_template()
    assert set(template["variables"]["properties"]) == set(ResourceChanges.model_fields)
