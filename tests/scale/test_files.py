"""The files of `deployments/scale`: their versions, settings and commands agree with each other and with one machine's."""

from __future__ import annotations

import re

import typer
import yaml

from console.main import application
from deployments.server.environment import SETTINGS
from tests.scale.stack import FILES, PROJECT, compose, settings

_UNITS = sorted((FILES / "systemd").glob("*.service"))
_REPLACED = {"PREFECT_SERVER_API_HOST", "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE"}
"""Settings that another machine must reach, or that Redis holds for all servers."""


def _locked(package: str) -> str:
    lock = (PROJECT / "requirements.lock").read_text()
    found = re.search(rf"^{package}==(\S+)", lock, re.MULTILINE)
    assert found, f"{package} is not in requirements.lock"
    return found[1]


def test_image_of_the_servers_has_the_tested_versions() -> None:
    image = compose()["x-prefect"]["build"]["dockerfile_inline"]
    assert f"prefect:{_locked('prefect')}-python3.11\n" in image
    assert f"whenever=={_locked('whenever')} prefect-redis=={_locked('prefect-redis')}\n" in image


def test_servers_have_the_settings_of_a_single_machine() -> None:
    ours = {name: value for name, value in SETTINGS.items() if name.startswith("PREFECT_SERVER_")}
    theirs = settings("prefect.env")
    assert {name for name, value in ours.items() if theirs.get(name) != value} == _REPLACED


def test_each_setting_is_known_to_prefect_or_its_redis_package() -> None:
    from prefect.settings import Settings
    from prefect.settings.legacy import _get_valid_setting_names
    from prefect_redis.cleanup_queue import RedisWorkerCleanupQueueSettings
    from prefect_redis.client import RedisMessagingSettings
    from prefect_redis.messaging import RedisMessagingPublisherSettings

    redis = {
        f"{model.model_config['env_prefix']}{name}".upper()
        for model in (RedisMessagingSettings, RedisMessagingPublisherSettings, RedisWorkerCleanupQueueSettings)
        for name in model.model_fields
    }
    used = {name for name in settings("prefect.env", "addresses.env.example") if name.startswith("PREFECT_")}
    assert used - _get_valid_setting_names(Settings) - redis == {"PREFECT_PASSWORD"}


def test_units_and_containers_run_the_same_commands() -> None:
    units = {file.stem.removeprefix("prefect-"): file.read_text() for file in _UNITS}
    services = {
        name: service for name, service in compose()["services"].items() if "prefect.env" in service.get("env_file", ())
    }
    assert units.keys() == services.keys()
    for name, unit in units.items():
        [command] = re.findall(r"^ExecStart=/opt/catchment/bin/(.*)$", unit, re.MULTILINE)
        assert command.partition(" --host")[0] == " ".join(services[name]["command"]).partition(" --host")[0]
        assert re.findall(r"^Environment=PREFECT_SERVER_(.*)=", unit, re.MULTILINE) == [
            key.removeprefix("PREFECT_SERVER_") for key in services[name].get("environment", {})
        ]


def test_only_postgres_and_nginx_are_reachable_from_outside() -> None:
    services = compose()["services"]
    assert {name: service["ports"] for name, service in services.items() if "ports" in service} == {
        "postgres": ["5432:5432"],
        "nginx": ["443:443"],
    }
    rules = (FILES / "pg_hba.conf").read_text().splitlines()
    assert [rule.split()[0] for rule in rules if not rule.startswith("#")] == ["local", "hostssl", "hostssl"]


def test_pods_run_the_image_and_join_by_its_command() -> None:
    manifest = yaml.safe_load((FILES / "kubernetes.yaml").read_text())
    pod = manifest["spec"]["template"]
    assert manifest["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"]
    [container] = pod["spec"]["containers"]
    image = (PROJECT / "Dockerfile").read_text()
    assert f"USER {pod['spec']['securityContext']['runAsUser']}\n" in image
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert f"VOLUME {mounts['home']}\n" in image
    provided = {volume["name"] for volume in pod["spec"]["volumes"]}
    assert mounts.keys() == provided | {claim["metadata"]["name"] for claim in manifest["spec"]["volumeClaimTemplates"]}
    [script] = container["args"]
    options = set(re.findall(r"--[a-z]+", script))
    known = {
        option
        for parameter in typer.main.get_command(application()).commands["join"].params
        for option in parameter.opts
    }
    assert options <= known
    probe = container["livenessProbe"]["exec"]["command"]
    assert ":4210/live" in probe[-1]
    compile(probe[-1], "probe", "exec")
    variables = set(re.findall(r"\$(\w+)|env:(\w+)", script))
    assert {first or second for first, second in variables} == {each["name"] for each in container["env"]}
