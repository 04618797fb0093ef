from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prefect.cli.deploy import _models as prefect_models
from prefect.settings.models.root import Settings
from pydantic import BaseModel

from catchment.errors import ConfigError
from deployments.server.environment import SETTINGS
from deployments.sources import prefect_file
from deployments.sources.flow_check import check_flows

_PROJECT = Path(__file__).parents[2]

_GOOD = """\
definitions:
  pool: &pool {name: catchment}
pull: []
deployments:
  - name: one
    entrypoint: tests.deployments.standin_flow.sync_standin
    work_pool: *pool
    parameters: {name: one, settings: {seconds: 1}}
    schedules:
      - {slug: main, interval: 3600, timezone: UTC, parameters: {deep: true}}
"""


@pytest.fixture(autouse=True)
def _in_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PWD", str(_PROJECT))


def test_the_prefect_yaml_that_ships_is_right_and_its_flows_take_what_it_gives() -> None:
    file = prefect_file.read(_PROJECT / "prefect.yaml")
    check_flows(file)
    assert [deployment.name for deployment in file.deployments] == ["upkeep", "example"]


def test_the_folders_that_prefect_yaml_names_are_there() -> None:
    deployments = prefect_file.read(_PROJECT / "prefect.yaml").deployments
    roots = [one.parameters["settings"]["root"] for one in deployments if "settings" in one.parameters]
    assert roots
    assert all(Path(root.replace("{{ $PWD }}", str(_PROJECT))).is_dir() for root in roots)


def test_parameters_are_checked_against_the_flow() -> None:
    check_flows(prefect_file.checked(prefect_file.outline(_GOOD, "prefect.yaml")))


@pytest.mark.parametrize(
    ("right", "wrong", "line", "remedy"),
    [
        ("settings: {seconds: 1}", "settings: {seconds: 1}, depth: 2", 8, "does not take depth"),
        ("{name: one, settings", "{settings", 8, "needs name"),
        ("{seconds: 1}", "{seconds: soon}", 8, "refuses settings"),
        ("{seconds: 1}", "{second: 1}", 8, "refuses settings"),
        ("{deep: true}", "{deeper: true}", 10, "does not take deeper"),
        ("tests.deployments.standin_flow.sync_standin", "tests.deployments.standin_flow.sync_other", 6, "no flow"),
        ("tests.deployments.standin_flow.sync_standin", "no_such_module.sync", 6, "no flow"),
        ("slug: main, ", "", 10, "slug is missing"),
        (", timezone: UTC", "", 10, "timezone is missing"),
        ("pull: []", "pulls: []", 3, "did you mean pull"),
        ("work_pool: *pool", "work_pool: *pool\n    concurency_limit: 1", 8, "did you mean concurrency_limit"),
        ("{name: catchment}", "{name: catchment, work_queue: x}", 2, "did you mean work_queue_name"),
        ("deployments:", "deployment:", 4, "did you mean deployments"),
    ],
)
def test_a_mistake_is_told_with_its_line(right: str, wrong: str, line: int, remedy: str) -> None:
    assert right in _GOOD
    with pytest.raises(ConfigError) as caught:
        check_flows(prefect_file.checked(prefect_file.outline(_GOOD.replace(right, wrong, 1), "prefect.yaml")))
    assert str(caught.value).startswith(f"prefect.yaml line {line}: "), str(caught.value)
    assert remedy in str(caught.value)


@pytest.mark.parametrize(
    ("ours", "prefects", "refused"),
    [
        (prefect_file.Deployment, prefect_models.DeploymentConfig, {"schedule", "flow_name", "sla"}),
        (prefect_file.Schedule, prefect_models.RawScheduleConfig, set()),
        (prefect_file.WorkPool, prefect_models.WorkPoolConfig, set()),
        (prefect_file.ConcurrencyLimit, prefect_models.ConcurrencyLimitSpec, set()),
        (prefect_file._File, prefect_models.PrefectYamlModel, set()),
    ],
)
def test_the_keys_are_those_that_prefect_reads(
    ours: type[BaseModel], prefects: type[BaseModel], refused: set[str]
) -> None:
    assert set(ours.model_fields) - {"definitions"} == set(prefects.model_fields) - refused


def test_prefect_toml_says_the_same_as_the_environment_of_our_processes() -> None:
    written = dict(_flat(tomllib.loads((_PROJECT / "prefect.toml").read_text())))
    assert {key: str(value).lower() for key, value in written.items()} == {
        key: value.lower() for key, value in SETTINGS.items()
    }


def test_every_setting_is_one_that_prefect_knows() -> None:
    known = {key for key, _ in _flat_model(Settings)}
    assert set(SETTINGS) <= known


def _flat(table: dict[str, Any], prefix: str = "PREFECT") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        name = f"{prefix}_{key.upper()}"
        if isinstance(value, dict):
            yield from _flat(value, name)
        else:
            yield name, value


def _flat_model(model: type[BaseModel], prefix: str = "PREFECT") -> Iterator[tuple[str, Any]]:
    for key, field in model.model_fields.items():
        name = f"{prefix}_{key.upper()}"
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _flat_model(field.annotation, name)
        else:
            yield name, field
