"""Deploys to a real server: the deployments of a file, and which changes made on the server are kept."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from catchment.errors import ConfigError, NotFound, TryAgain
from catchment.settings import Home, ResourceChanges
from connectors import connector_class
from connectors.local_files import LocalFilesSettings
from connectors.obsidian import ObsidianSettings
from deployments.runs import runs
from deployments.server.client import Client, api, everything
from deployments.server.environment import child_environment
from deployments.server.running import Running
from deployments.sources.deploy import deploy, is_deployed, switch_later, undeploy
from deployments.sources.sources_file import SourceEntry, SourcesFile, schedule_of
from deployments.supervisor.supervisor import up
from tests.deployments.conftest import STANDIN
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.server

_PROJECT = Path(__file__).parents[2]
_OF_THIS_DEPLOY = {"id", "created", "updated", "deployment_id", "concurrency_limit_id", "last_polled", "status"}
"""Keys that differ between two deploys of the same file, or change while the worker polls."""

_ANCHOR = "2026-01-01T"
_SOURCES = """\
version: 2
pull: []
deployments:
  - name: same-notes
    entrypoint: flows.obsidian.sync_obsidian
    description: The notes.
    tags: [source, obsidian, "watch:5s"]
    parameters: {name: same-notes, settings: {root: /srv/notes, exclude: ["*.tmp"], limits: {max_mb: 3}}, deep: true}
    schedules:
      - {slug: main, interval: 900, timezone: Europe/Berlin, anchor_date: "2026-01-01T00:00:00+00:00"}
      - {slug: night, cron: "0 7 * * *", timezone: UTC, day_or: false, active: false, parameters: {deep: true}}
      - {slug: weekly, rrule: "FREQ=WEEKLY;BYDAY=MO", timezone: UTC}
    concurrency_limit: {limit: 1, collision_strategy: CANCEL_NEW, grace_period_seconds: 70}
    paused: true
    work_pool: {name: catchment, work_queue_name: same, job_variables: {at_once: 2}}
    triggers:
      - {name: rose, enabled: false, expect: [weir.rose], match: {prefect.resource.id: "weir.*"}, parameters: {deep: false}}
      - type: compound
        require: all
        within: 60
        schedule_after: 30
        triggers: [{expect: [weir.rose]}, {posture: Proactive, expect: [weir.fell], within: 20}]
  - name: same-papers
    entrypoint: flows.local_files.sync_local_files
    parameters: {name: same-papers, settings: {root: /srv/papers}}
    enforce_parameter_schema: false
    version: "7"
    concurrency_limit: 3
    work_pool: {name: catchment}
  - name: same-mail
    entrypoint: flows.imap.sync_imap
    tags: [source, imap]
    parameters: {name: same-mail, settings: {host: imap.example.org, user: "{{ $MAIL_USER }}", password: "env:MAIL"}}
    concurrency_limit: {limit: 1, collision_strategy: ENQUEUE}
    work_pool: {name: catchment}
  - name: same-code
    entrypoint: flows.github.sync_github
    tags: [source, github]
    parameters: {name: same-code, settings: {repositories: [ada/weir]}}
    schedules: [{slug: main, interval: 86400, timezone: UTC}]
    work_pool: {name: catchment}
"""
_HOURLY = "[{slug: main, interval: 3600, timezone: UTC}]"


@pytest.fixture
def client(server: Running) -> Iterator[Client]:
    with api(server) as client:
        yield client


@pytest.fixture
def sources_file(server_home: Home, server: Running) -> Iterator[Path]:
    """The path of the server's sources file, absent at first. Its deployments are deleted at the end."""
    path = server_home.sources_file
    path.unlink(missing_ok=True)
    yield path
    path.unlink(missing_ok=True)
    deploy(server_home, server)


def test_sources_file_gives_the_deployments_of_prefect_deploy(
    server_home: Home, server: Running, sources_file: Path, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAIL_USER", "ada")
    # An update must revert nearly all values of the first file.
    plain = f"""{_SOURCES.partition("    description")[0]}\
    parameters: {{name: same-notes, settings: {{root: /srv/other}}}}
    work_pool: {{name: catchment}}
"""
    made: dict[str, list[dict[str, Any]]] = {"prefect": [], "ours": []}
    for way, found in made.items():
        for text in (_SOURCES, plain, _SOURCES):
            sources_file.write_text(text)
            if way == "prefect":
                _prefect_deploy(server_home, server, sources_file)
            else:
                deploy(server_home, server)
            found.append(_comparable(client, _names(text)))
        for name in _names(_SOURCES):
            undeploy(server_home, server, name)
    (first, update, again), (our_first, our_update, our_again) = made["prefect"], made["ours"]
    # Prefect does not know the resources of a source.
    assert our_first["same-notes"].pop("job_variables") == {"at_once": 2}
    assert first["same-notes"].pop("job_variables") == {"at_once": 2}
    assert _without(our_first, "job_variables") == _without(first, "job_variables")
    # Prefect resumes a paused deployment, and keeps schedules that left the file.
    assert (our_update["same-notes"]["paused"], our_update["same-notes"]["schedules"]) == (True, [])
    assert (update["same-notes"]["paused"], len(update["same-notes"]["schedules"])) == (False, 3)
    corrected = ("job_variables", "paused", "schedules")
    assert _without(our_update, *corrected) == _without(update, *corrected)
    assert _without(our_again, "job_variables") == _without(again, "job_variables")


def test_prefect_yaml_gives_the_deployments_of_prefect_deploy(
    server_home: Home, server: Running, tmp_path: Path, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In a checkout Prefect would use the commit as the version.
    file = tmp_path / "prefect.yaml"
    file.write_text((_PROJECT / "prefect.yaml").read_text())
    names = ["upkeep", "embed", "example"]
    _prefect_deploy(server_home, server, file)
    with_prefect = _comparable(client, names)
    for row in _named(client, names):
        client.delete(f"/deployments/{row['id']}").raise_for_status()
    deploy(server_home, server, file=file)
    assert _comparable(client, names) == with_prefect
    undeploy(server_home, server, "example")


def test_artifacts_of_a_source_are_deleted_with_it(
    server_home: Home, server: Running, client: Client, deploy_standin: Callable[..., None]
) -> None:
    deploy_standin("leaving")
    kept, deleted = ["leaving-notes", "staying-summary"], ["leaving-progress", "leaving-quarantine", "leaving-summary"]
    for key in [*kept, *deleted, *deleted]:
        client.post("/artifacts/", json={"key": key, "type": "markdown", "data": "text"}).raise_for_status()
    undeploy(server_home, server, "leaving")
    query = {"artifacts": {"key": {"any_": [*kept, *deleted]}}}
    assert sorted(row["key"] for row in everything(client, "artifacts/latest", query)) == kept
    assert sorted(row["key"] for row in everything(client, "artifacts", query)) == kept


def test_pause_and_inactive_schedule_survive_a_changed_file(
    server: Running, deploy_standin: Callable[..., None]
) -> None:
    deploy_standin("steady", schedules=_HOURLY)
    runs.switch(server, "standin", "steady", on=False)
    schedule = _deployment(server, "steady")["schedules"][0]
    with api(server) as client:
        address = f"/deployments/{_deployment(server, 'steady')['id']}/schedules/{schedule['id']}"
        client.patch(address, json={"active": False}).raise_for_status()
    deploy_standin("steady", schedules=_HOURLY.replace("3600", "7200"))
    after = _deployment(server, "steady")
    assert after["paused"] is True
    assert [(s["slug"], s["active"], s["schedule"]["interval"]) for s in after["schedules"]] == [("main", False, 7200)]
    runs.switch(server, "standin", "steady", on=True)
    assert _deployment(server, "steady")["paused"] is False


def test_schedule_that_left_the_file_is_deleted(server: Running, deploy_standin: Callable[..., None]) -> None:
    deploy_standin("once", schedules=_HOURLY)
    assert len(_deployment(server, "once")["schedules"]) == 1
    deploy_standin("once")
    assert _deployment(server, "once")["schedules"] == []


def test_deployment_of_the_operator_with_the_same_name_stays(
    server_home: Home, server: Running, deploy_standin: Callable[..., None]
) -> None:
    with api(server) as client:
        flow = client.post("/flows/", json={"name": "of-a-person"}).raise_for_status().json()["id"]
        mine = {"name": "shared", "flow_id": flow, "entrypoint": "mine.py:report", "tags": ["source"]}
        client.post("/deployments/", json=mine).raise_for_status()
        deploy_standin("shared")
        for _ in range(2):
            undeploy(server_home, server, "shared")
            assert client.get("/deployments/name/sync-standin/shared").is_missing
            assert client.get("/deployments/name/of-a-person/shared").is_success
        client.delete(f"/flows/{flow}").raise_for_status()


def test_sources_file_is_deployed_and_removed_sources_are_deleted(
    server_home: Home, server: Running, tmp_path: Path
) -> None:
    (tmp_path / "vault" / ".obsidian").mkdir(parents=True)
    file = SourcesFile.load(server_home.sources_file)
    settings = ObsidianSettings(root=tmp_path / "vault", exclude=("*.tmp",))
    file.add(SourceEntry("my-notes", "obsidian", settings, schedule_of(every="2h"), watch=True))
    file.save()
    deploy(server_home, server)
    with api(server) as client:
        found = client.get("/deployments/name/sync-obsidian/my-notes").json()
        assert found["parameters"] == {
            "name": "my-notes",
            "settings": {"root": str(settings.root), "exclude": ["*.tmp"]},
        }
        assert found["entrypoint"] == "flows.obsidian.sync_obsidian"
        assert found["tags"] == ["source", "obsidian", "watch"]
        assert found["concurrency_options"]["collision_strategy"] == "ENQUEUE"
        assert {"name", "settings", "deep", "plan", "backfill", "changed_only"} == set(
            found["parameter_openapi_schema"]["properties"]
        )
        deploy(server_home, server)
        again = client.get("/deployments/name/sync-obsidian/my-notes").json()
        assert again["updated"] == found["updated"], "an unchanged file was deployed again"
        older = server_home.sources_file.read_text().replace("version: 2\n", "")
        server_home.sources_file.write_text(older)
        deploy(server_home, server)
        assert client.get("/deployments/name/sync-obsidian/my-notes").is_success
        assert server_home.sources_file.read_text() == f"{older}version: 2\n"
        assert server_home.sources_file.with_name("sources.yaml.version-0").read_text() == older
        file.remove("my-notes")
        file.save()
        deploy(server_home, server)
        assert client.get("/deployments/name/sync-obsidian/my-notes").is_missing


def test_up_deploys_the_edited_file_of_a_running_system(
    server_home: Home, server: Running, sources_file: Path, client: Client
) -> None:
    announced: list[str] = []
    with SourcesFile.changing(sources_file) as file:
        file.add(SourceEntry("edited-by-hand", "obsidian", ObsidianSettings(root=Path("/srv")), paused=True))
    assert up(server_home, announce=announced.append) == 0
    assert len(_named(client, ["edited-by-hand"])) == 1
    sources_file.write_text("deployments: 3\n")
    assert up(server_home, announce=announced.append) == 0
    ready = f"Catchment is already running: {server.url}"
    assert announced[0] == announced[2] == ready
    assert announced[1].startswith("sources not deployed: sources.yaml line 1: deployments: ")
    assert len(_named(client, ["edited-by-hand"])) == 1


def test_deployment_shows_the_resources_of_its_settings(server_home: Home, server: Running, sources_file: Path) -> None:
    shown = []
    for resources in (ResourceChanges(), ResourceChanges(at_once=1)):
        sources_file.unlink(missing_ok=True)
        with SourcesFile.changing(sources_file) as file:
            settings = ObsidianSettings(root=Path("/srv"), resources=resources)
            file.add(SourceEntry("shows-resources", "obsidian", settings, paused=True))
        deploy(server_home, server, ["shows-resources"])
        shown.append(_deployment(server, "shows-resources", "sync-obsidian")["job_variables"])
    assert shown == [{"at_once": connector_class("obsidian").policy.at_once}, {"at_once": 1}]


def test_refused_file_is_reported_in_one_line(server_home: Home, server: Running, tmp_path: Path) -> None:
    file = tmp_path / "prefect.yaml"
    right = STANDIN.format(name="wrong", seconds=0, schedules="[]")
    for wrong, reason in (
        (right.replace("standin_flow.", "no_flow_here."), "line 4: unknown flow .*no_flow_here.*"),
        (
            right.replace("{seconds: 0}", "{seconds: soon}"),
            ": wrong was refused by the Prefect server: .*soon.*number.*",
        ),
        (right.replace("{name: catchment}", "{name: no-pool}"), ".*no-pool.* not found.*"),
        (f"{right}    triggers: [{{threshold: many}}]\n", ": wrong was refused by the Prefect server: .*threshold.*"),
    ):
        file.write_text(wrong)
        with pytest.raises(ConfigError, match=rf"^prefect\.yaml ?{reason}$") as caught:
            deploy(server_home, server, file=file)
        assert "\n" not in str(caught.value)
    undeploy(server_home, server, "wrong")
    with pytest.raises(NotFound, match="has no deployment other"):
        deploy(server_home, server, ["other"], file=file)


def test_schedule_that_the_operator_deleted_stays_deleted(server: Running, deploy_standin: Callable[..., None]) -> None:
    deploy_standin("pruned", schedules=_HOURLY)
    found = _deployment(server, "pruned")
    with api(server) as client:
        client.delete(f"/deployments/{found['id']}/schedules/{found['schedules'][0]['id']}").raise_for_status()
    deploy_standin("pruned", seconds=1, schedules=_HOURLY)
    assert _deployment(server, "pruned")["parameters"]["settings"] == {"seconds": 1}
    assert _deployment(server, "pruned")["schedules"] == []
    # The file has another time now, so the schedule is created again.
    deploy_standin("pruned", seconds=1, schedules=_HOURLY.replace("3600", "7200"))
    assert [schedule["schedule"]["interval"] for schedule in _deployment(server, "pruned")["schedules"]] == [7200]


def test_schedule_of_the_operator_stays(server: Running, deploy_standin: Callable[..., None]) -> None:
    deploy_standin("extended", schedules=_HOURLY)
    with api(server) as client:
        address = f"/deployments/{_deployment(server, 'extended')['id']}/schedules"
        client.post(address, json=[{"schedule": {"cron": "0 7 * * *"}}]).raise_for_status()
    deploy_standin("extended", seconds=1, schedules=_HOURLY)
    assert {schedule["slug"] for schedule in _deployment(server, "extended")["schedules"]} == {"main", None}


def test_deployment_that_the_operator_deleted_is_deployed_again(
    server: Running, deploy_standin: Callable[..., None]
) -> None:
    deploy_standin("deleted", schedules=_HOURLY)
    with api(server) as client:
        client.delete(f"/deployments/{_deployment(server, 'deleted')['id']}").raise_for_status()
    deploy_standin("deleted", schedules=_HOURLY)
    assert len(_deployment(server, "deleted")["schedules"]) == 1


def test_changes_of_the_operator_stay_while_the_file_is_unchanged(
    server: Running, deploy_standin: Callable[..., None]
) -> None:
    deploy_standin("edited")
    with api(server) as client:
        client.patch(f"/deployments/{_deployment(server, 'edited')['id']}", json={"tags": ["mine"]}).raise_for_status()
    deploy_standin("edited")
    assert _deployment(server, "edited")["tags"] == ["mine"]


def test_pause_and_resume_of_a_stopped_system_reach_the_server_later(
    server_home: Home, server: Running, deploy_standin: Callable[..., None]
) -> None:
    deploy_standin("switched")
    for on in (False, True):
        runs.switch(server, "standin", "switched", on=not on)
        switch_later(server_home, "standin", "switched", on=on)
        deploy_standin("switched")
        assert _deployment(server, "switched")["paused"] is not on
        # The next deploy leaves the switch as the operator sets it.
        runs.switch(server, "standin", "switched", on=not on)
        deploy_standin("switched")
        assert _deployment(server, "switched")["paused"] is on


def test_deploy_that_loses_the_server_is_completed_by_the_next(
    server_home: Home, server: Running, tmp_path: Path
) -> None:
    file = tmp_path / "prefect.yaml"
    trigger = "    triggers: [{name: rose, expect: [weir.rose]}]\n"
    for requests in itertools.count():
        # Each round has another deployment to create and to update.
        name = f"cut-{requests}"
        first = STANDIN.format(name=name, seconds=1, schedules=_HOURLY) + trigger
        second = STANDIN.format(name=name, seconds=2, schedules=_HOURLY.replace("main", "other"))
        left = iter(range(requests))
        with _proxy(server, lambda _, left=left: next(left, None) is not None) as failing:
            for text in (first, second):
                file.write_text(text)
                with contextlib.suppress(TryAgain):
                    deploy(server_home, failing, file=file)
        file.write_text(first)
        deploy(server_home, server, file=file)
        with api(server) as client:
            found = _comparable(client, [name])[name]
        undeploy(server_home, server, name)
        assert found["parameters"]["settings"] == {"seconds": 1}
        assert [schedule["slug"] for schedule in found["schedules"]] == ["main"]
        assert [automation["name"] for automation in found["automations"]] == ["rose"]
        if next(left, None) is not None:
            break
    assert requests > 10


def test_concurrent_deploys_delete_no_new_source(
    server_home: Home, server: Running, sources_file: Path, client: Client
) -> None:
    added: list[Future[None]] = []

    def add() -> None:
        with SourcesFile.changing(sources_file) as file:
            file.add(SourceEntry("meanwhile", "local_files", LocalFilesSettings(root=Path("/srv")), paused=True))
        deploy(server_home, server, ["meanwhile"])

    def listed(path: str) -> bool:
        """Add a source after the deploy has read the file and before it reads the server."""
        if path.endswith("/deployments/filter") and not added:
            added.append(pool.submit(add))
            wait(added, timeout=1)
        return True

    with ThreadPoolExecutor(1) as pool, _proxy(server, listed) as behind:
        deploy(server_home, behind)
    added[0].result()
    assert len(_named(client, ["meanwhile"])) == 1


def test_run_outlives_its_removed_deployment(
    server_home: Home, server: Running, deploy_standin: Callable[..., None]
) -> None:
    deploy_standin("outlived", seconds=2)
    run = runs.start_sync(server, "standin", "outlived")
    until(lambda: runs.view(server, run).state_type == "RUNNING")
    undeploy(server_home, server, "outlived")
    assert not is_deployed(server, "sync-standin", "outlived")
    assert runs.wait(server, run, timeout=PATIENCE).state_type == "COMPLETED"


def test_source_of_another_kind_replaces_the_deployment(
    server_home: Home, server: Running, sources_file: Path, client: Client
) -> None:
    for kind, settings in (("obsidian", ObsidianSettings), ("local_files", LocalFilesSettings)):
        sources_file.unlink(missing_ok=True)
        with SourcesFile.changing(sources_file) as file:
            file.add(SourceEntry("turned", kind, settings(root=Path("/srv")), paused=True))
        deploy(server_home, server)
        assert [row["tags"] for row in _named(client, ["turned"])] == [["source", kind]]


def _prefect_deploy(home: Home, server: Running, file: Path) -> None:
    environment = {
        **child_environment(home, port=server.port, auth=server.login),
        "PWD": str(file.parent),
        "PYTHONPATH": str(_PROJECT),
    }
    command = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all", "--prefect-file", str(file)]
    done = subprocess.run(command, env=environment, cwd=file.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout


def _names(text: str) -> list[str]:
    return [line.split()[-1] for line in text.splitlines() if line.startswith("  - name: ")]


@contextlib.contextmanager
def _proxy(server: Running, passes: Callable[[str], bool]) -> Iterator[Running]:
    """A proxy of the server that closes the connection for every path that `passes` rejects."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one_request(self) -> None:
            self.raw_requestline = self.rfile.readline()
            if not self.raw_requestline or not self.parse_request() or not passes(self.path):
                self.close_connection = True
                return
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port)) as target:
                target.request(self.command, self.path, body, dict(self.headers))
                response = target.getresponse()
                content = response.read()
            self.send_response_only(response.status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as proxy:
        threading.Thread(target=proxy.serve_forever, args=(0.01,)).start()
        yield replace(server, port=proxy.server_port)
        proxy.shutdown()


def _named(client: Client, names: list[str]) -> list[dict[str, Any]]:
    return everything(client, "deployments", {"deployments": {"name": {"any_": names}}})


def _comparable(client: Client, names: list[str]) -> dict[str, Any]:
    """Return the deployments with their automations, without the keys that differ between two deploys of the same file."""
    found = {}
    for row in _named(client, names):
        related = client.get(f"/automations/related-to/prefect.deployment.{row['id']}").raise_for_status().json()
        of_file = [automation for automation in related if "catchment-watch" not in automation["tags"]]
        if limit := row["global_concurrency_limit"]:
            assert limit.pop("name") == f"deployment:{row['id']}"
        row |= {
            "automations": sorted(of_file, key=lambda automation: str(automation["name"])),
            "schedules": sorted(row["schedules"], key=lambda schedule: str(schedule["slug"])),
        }
        found[row["name"]] = _without_deploy(row)
    assert found.keys() == set(names)
    return found


def _without(rows: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {name: {key: value for key, value in row.items() if key not in keys} for name, row in rows.items()}


def _without_deploy(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: inner for key, inner in value.items() if key not in _OF_THIS_DEPLOY}
        if not str(kept.get("anchor_date")).startswith(_ANCHOR):
            # An interval without an anchor starts at the deploy.
            kept.pop("anchor_date", None)
        return {key: _without_deploy(inner) for key, inner in kept.items()}
    return [_without_deploy(inner) for inner in value] if isinstance(value, list) else value


def _deployment(server: Running, name: str, flow: str = "sync-standin") -> dict[str, Any]:
    with api(server) as client:
        found: dict[str, Any] = client.get(f"/deployments/name/{flow}/{name}").raise_for_status().json()
        return found


def test_planned_runs_are_named_after_source_and_schedule(client: Client, deploy_standin: Callable[..., None]) -> None:
    def planned() -> set[str]:
        return {run["name"] for run in everything(client, "flow_runs", query)}

    query = {"deployments": {"name": {"any_": ["standin"]}}}
    rule = "FREQ=WEEKLY;BYDAY=SU;BYHOUR=3;BYMINUTE=0;BYSECOND=0"
    timings = ("interval: 5400", 'cron: "0 7 * * 1-5"', f'rrule: "{rule}"')
    schedules = ", ".join(f"{{slug: s{n}, timezone: UTC, {timing}}}" for n, timing in enumerate(timings))
    deploy_standin("standin", schedules=f"[{schedules}]")
    wanted = {f"standin: planned, {timing}" for timing in ("every 90 min", "cron 0 7 * * 1-5", f"rrule {rule}")}
    assert until(planned, lambda names: len(names) >= len(wanted)) == wanted
