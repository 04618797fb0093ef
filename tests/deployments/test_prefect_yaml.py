from __future__ import annotations

import os
import subprocess
import sys
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
from deployments.sources.definition import DeploymentDefinition, definition

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


def _definitions(file: prefect_file.PrefectFile) -> list[DeploymentDefinition]:
    return [definition(file, index, _PROJECT) for index in range(len(file.deployments))]


def _read(text: str) -> prefect_file.PrefectFile:
    return prefect_file.checked(prefect_file.outline(text, "prefect.yaml"))


def test_shipped_prefect_yaml_defines_its_deployments() -> None:
    defined = _definitions(prefect_file.read(_PROJECT / "prefect.yaml"))
    assert [(one.flow, one.name) for one in defined] == [
        ("upkeep", "upkeep"),
        ("embed", "embed"),
        ("recognize", "recognize"),
        ("sync-obsidian", "example"),
    ]


def test_folders_named_in_prefect_yaml_exist() -> None:
    deployments = prefect_file.read(_PROJECT / "prefect.yaml").deployments
    roots = [one.parameters["settings"]["root"] for one in deployments if "settings" in one.parameters]
    assert roots
    assert all(Path(root.replace("{{ $PWD }}", str(_PROJECT))).is_dir() for root in roots)


def test_deploy_does_not_import_prefect(tmp_path: Path) -> None:
    """Commands and the supervisor deploy; importing Prefect would take a second in each."""
    (tmp_path / "prefect.py").write_text("raise AssertionError('prefect was imported')")
    program = "import sys; from pathlib import Path; from deployments.sources import definition, deploy, prefect_file\n"
    program += "file = prefect_file.read(Path('prefect.yaml'))\n"
    program += "print([definition.definition(file, index, Path.cwd()).flow for index in range(len(file.deployments))])"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", program]
    result = subprocess.run(command, cwd=_PROJECT, env=environment, capture_output=True, text=True, check=False)
    assert result.stdout == "['upkeep', 'embed', 'recognize', 'sync-obsidian']\n", result.stderr


def test_environment_variables_are_filled_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIR", "river")
    text = _GOOD.replace("{seconds: 1}", '{at: ["{{ $PWD }}/a", "{{$WEIR}}"], seconds: 1}')
    [defined] = _definitions(_read(text))
    assert defined.fields["parameters"]["settings"] == {"at": [f"{_PROJECT}/a", "river"], "seconds": 1}


def test_placeholders_of_an_automation_are_kept() -> None:
    trigger = "{expect: [weir.rose], parameters: {name: '{{ event.id }}'}}"
    [defined] = _definitions(_read(f"{_GOOD}    triggers: [{trigger}]\n"))
    assert defined.automations[0]["actions"][0]["parameters"] == {"name": "{{ event.id }}"}


@pytest.mark.parametrize(
    ("right", "wrong", "line", "remedy"),
    [
        ("{seconds: 1}", "{at: '{{ $NO_SUCH }}'}", 5, "NO_SUCH is not set"),
        ("{seconds: 1}", "{at: '{{ prefect.variables.x }}'}", 5, "not supported"),
        ("pull: []", "pull: [{a.step: {}}]", 3, "pull steps are not executed"),
        ("work_pool: *pool", "work_pool: *pool\n    build: [{a.step: {}}]", 8, "build steps are not executed"),
        ("tests.deployments.standin_flow.sync_standin", "tests.deployments.standin_flow.sync_other", 6, "unknown flow"),
        ("tests.deployments.standin_flow.sync_standin", "no_such_module.sync", 6, "unknown flow"),
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
        _definitions(_read(_GOOD.replace(right, wrong, 1)))
    assert str(caught.value).startswith(f"prefect.yaml line {line}: "), str(caught.value)
    assert remedy in str(caught.value)


@pytest.mark.parametrize(
    ("ours", "prefects", "refused"),
    [
        (prefect_file.Deployment, prefect_models.DeploymentConfig, {"schedule", "flow_name", "sla", "version_type"}),
        (prefect_file.Schedule, prefect_models.RawScheduleConfig, set()),
        (prefect_file.WorkPool, prefect_models.WorkPoolConfig, set()),
        (prefect_file.ConcurrencyLimit, prefect_models.ConcurrencyLimitSpec, set()),
        (prefect_file.FileFormat, prefect_models.PrefectYamlModel, set()),
    ],
)
def test_accepted_keys_equal_those_of_prefect(
    ours: type[BaseModel], prefects: type[BaseModel], refused: set[str]
) -> None:
    assert set(ours.model_fields) - {"definitions"} == set(prefects.model_fields) - refused


def test_prefect_toml_equals_our_environment_settings() -> None:
    written = dict(_flat(tomllib.loads((_PROJECT / "prefect.toml").read_text())))
    assert {key: str(value).lower() for key, value in written.items()} == {
        key: value.lower() for key, value in SETTINGS.items()
    }


def test_every_setting_is_known_to_prefect() -> None:
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
