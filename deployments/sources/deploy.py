"""Bring the server's deployments in line with a file, through Prefect's API, and keep the changes that were made in the UI."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from catchment.errors import ConfigError, NotFound, Refused
from catchment.runtime import atomic_files
from catchment.runtime.membership import ANY, Membership, shipped_name
from catchment.settings import Home
from deployments.server.client import Client, Response, api, deployment_named, everything
from deployments.server.running import Running
from deployments.sources import prefect_file
from deployments.sources.definition import DeploymentDefinition, definition
from deployments.sources.placement import host_of, of_another, other_host_of, tag_of
from deployments.sources.profile import job_variables
from deployments.sources.sources_file import SourcesFile
from tasks.artifacts import OF_SOURCE, artifact_key

_OF_SOURCES = ".sync_"
_REFUSALS = {400, 404, 409, 422}

Record = dict[str, dict[str, Any]]
"""The last deploy of each deployment, by `flow/name`: the digest of its definition, and its schedules by slug.

`on`: whether a command paused or resumed it since, while the server did not run.
"""


def deploy(
    home: Home,
    running: Running,
    names: Collection[str] | None = None,
    *,
    file: Path | None = None,
    takes_over: bool = False,
) -> dict[str, str]:
    """Deploy the named sources, or all; or those of another file in the format of prefect.yaml. May be called again.

    Skips deployments with the same definition as at the last deploy. Without names, the deployments of sources
    that left the file are deleted. An older sources file is migrated first. Concurrent calls wait for each other.

    A joined host deletes only its own deployments, and leaves those of other hosts as they are, unless it `takes_over` the
    named ones. Without names, sources that another host has deployed leave the file. Returns the host of each of them.

    A deployment stays paused or resumed as it is on the server. A schedule that was deleted or changed there stays so until
    the file changes that schedule.

    Raises ConfigError or NotFound before anything is changed, or if the server refuses a deployment; Refused for a named
    source of another host; TryAgain if the server does not respond.
    """
    membership = Membership.of(home)
    path = file or home.sources_file
    with _exclusive(home) as record, api(running) as client:
        definitions = _of_file(path) if file else _of_sources(path)
        for name in names or ():
            if name not in definitions:
                raise NotFound(f"{path.name} has no deployment {name}; it has {', '.join(definitions) or 'none'}")
        chosen = [definition for name, definition in definitions.items() if names is None or name in names]
        if membership:
            chosen = [_of_host(home, definition, membership) for definition in chosen]
        flows = {flow: _flow(client, flow) for flow in {definition.flow for definition in chosen}}
        rows = _present(client, None if names is None else [definition.name for definition in chosen])
        moved: dict[str, str] = {}
        if membership and not takes_over:
            alike = [row for row in rows if (_OF_SOURCES in (row["entrypoint"] or "")) == (file is None)]
            moved = _of_others(alike, chosen, membership)
            chosen = [definition for definition in chosen if definition.name not in moved]
        present = {(row["flow_id"], row["name"]): row for row in rows}
        if file is None and names is None:
            keys = {(flows[definition.flow], definition.name) for definition in chosen}
            left = [row for key, row in present.items() if key not in keys and "source" in row["tags"]]
            own = membership.name if membership else None
            _delete(client, [row for row in left if own in (None, host_of(row))], record)
            _take_out(path, moved)
        elif file is None:
            for name, host in moved.items():
                raise Refused(of_another(name, host))
        for definition in chosen:
            flow = flows[definition.flow]
            _Deploy(client, definition, flow, path.name).bring_up_to_date(present.get((flow, definition.name)), record)
        return moved


def switch_later(home: Home, kind: str, name: str, *, on: bool) -> None:
    """Let the next deploy pause or resume a source's deployment, because the server does not run now."""
    with _exclusive(home) as record:
        record.setdefault(f"sync-{kind}/{name}", {})["on"] = on


def undeploy(
    home: Home, running: Running, name: str, entrypoint: str = _OF_SOURCES, *, takes_over: bool = False
) -> None:
    """Delete the deployment of a source or a sink with its schedules and artifacts; its past runs stay. May be called again.

    `entrypoint`: a part of its flow's. Raises Refused for a source of another host, unless it `takes_over`.
    """
    membership = Membership.of(home)
    with _exclusive(home) as record, api(running) as client:
        rows = _present(client, [name])
        for row in rows if entrypoint == _OF_SOURCES and not takes_over else ():
            if host := other_host_of(row, membership):
                raise Refused(of_another(name, host))
        _delete(client, rows, record, entrypoint)


def _of_host(home: Home, chosen: DeploymentDefinition, membership: Membership) -> DeploymentDefinition:
    """The definition with the tag and the queue of a host. A deployment with its flow's name is one of each host."""
    name = shipped_name(home, chosen.name) if chosen.name == chosen.flow else chosen.name
    queue = ANY if chosen.fields["work_queue_name"] == ANY else membership.queue
    tags = [*chosen.fields["tags"], tag_of(membership.name)]
    return replace(chosen, name=name, fields={**chosen.fields, "tags": tags, "work_queue_name": queue})


def _of_others(
    rows: Collection[Mapping[str, Any]], chosen: Collection[DeploymentDefinition], membership: Membership
) -> dict[str, str]:
    """The host of each deployment that another host has deployed. The name of a source is unique among all kinds."""
    names = {definition.name for definition in chosen}
    hosts = {row["name"]: other_host_of(row, membership) for row in rows if row["name"] in names}
    return {name: host for name, host in hosts.items() if host}


def _take_out(path: Path, names: Collection[str]) -> None:
    if names:
        with SourcesFile.changing(path) as sources:
            for name in names:
                sources.remove(name)


def is_deployed(running: Running, flow: str, name: str) -> bool:
    """Whether the server has a deployment of this flow and name."""
    with api(running) as client:
        return deployment_named(client, flow, name) is not None


def _present(client: Client, names: Collection[str] | None) -> list[dict[str, Any]]:
    """Return the deployments on the server: all, or those with these names."""
    query = {} if names is None else {"deployments": {"name": {"any_": list(names)}}}
    return everything(client, "deployments", query)


@contextlib.contextmanager
def _exclusive(home: Home) -> Iterator[Record]:
    """Hold the lock of all deploys of a home; the changed record is saved at the end, also after a failure."""
    path = home.run / "deployed"
    with atomic_files.explained(), atomic_files.alone(home.run):
        record: Record = {}
        # An earlier version stored a digest here.
        with contextlib.suppress(FileNotFoundError, ValueError):
            record = json.loads(path.read_text(encoding="utf-8"))
        before = json.dumps(record)
        try:
            yield record
        finally:
            if (after := json.dumps(record)) != before:
                atomic_files.write(path, after.encode())


def _of_file(path: Path) -> dict[str, DeploymentDefinition]:
    file = prefect_file.read(path)
    return {deployment.name: definition(file, index, path.parent) for index, deployment in enumerate(file.deployments)}


def _of_sources(path: Path) -> dict[str, DeploymentDefinition]:
    """The definitions of all sources. Their job variables show the effective resources of a run."""
    sources = _migrated(path)
    definitions = {}
    for index, entry in enumerate(sources.entries):
        chosen = definition(sources.file, index, path.parent)
        variables = job_variables(entry.kind, entry.settings, chosen.fields["job_variables"])
        definitions[entry.name] = replace(chosen, fields={**chosen.fields, "job_variables": variables})
    return definitions


def _migrated(path: Path) -> SourcesFile:
    sources = SourcesFile.load(path)
    if sources.is_older:
        with SourcesFile.changing(path) as sources:
            pass
    return sources


def _flow(client: Client, name: str) -> str:
    flow: dict[str, Any] = client.post("/flows/", json={"name": name}).raise_for_status().json()
    return str(flow["id"])


def _delete(
    client: Client, deployments: Collection[Mapping[str, Any]], record: Record, entrypoint: str = _OF_SOURCES
) -> None:
    """Delete the deployments with this part of an entrypoint; others belong to the user."""
    for row in deployments:
        if entrypoint in (row["entrypoint"] or ""):
            for key in [key for key in record if key.endswith(f"/{row['name']}")]:
                del record[key]
            client.delete(f"/deployments/{row['id']}").raise_unless_missing()
            keys = [artifact_key(row["name"], content) for content in OF_SOURCE]
            for artifact in everything(client, "artifacts", {"artifacts": {"key": {"any_": keys}}}):
                client.delete(f"/artifacts/{artifact['id']}")


@dataclass(frozen=True, slots=True)
class _Deploy:
    """The deploy of one deployment."""

    client: Client
    chosen: DeploymentDefinition
    flow: str
    file: str

    def bring_up_to_date(self, present: Mapping[str, Any] | None, record: Record) -> None:
        """Create or update the deployment unless the last deploy was of the same definition, and record it."""
        key = f"{self.chosen.flow}/{self.chosen.name}"
        last = record.get(key, {})
        if present is not None and "on" in last:
            action = "resume_deployment" if last["on"] else "pause_deployment"
            self.client.post(f"/deployments/{present['id']}/{action}").raise_for_status()
            del last["on"]
        if present is not None and last.get("digest") == self.chosen.digest:
            return
        record.pop(key, None)
        updated = None if present is None else self._update(present, last.get("schedules", {}))
        self._replace_automations(updated or self._create())
        record[key] = {"digest": self.chosen.digest, "schedules": self.chosen.schedules}

    def _create(self) -> str:
        body = {
            **self.chosen.fields,
            "flow_id": self.flow,
            "name": self.chosen.name,
            "paused": self.chosen.paused,
            "schedules": list(self.chosen.schedules.values()),
        }
        created = self._accepted(self.client.post("/deployments/", json=body)).json()
        return str(created["id"])

    def _update(self, present: Mapping[str, Any], last: Mapping[str, Any]) -> str | None:
        """Update the deployment except its pause. Returns its ID, or None if it was deleted meanwhile."""
        address = f"/deployments/{present['id']}"
        response = self.client.patch(address, json=dict(self.chosen.fields))
        if response.is_missing:
            return None
        self._accepted(response)
        schedules = {row["slug"]: row["id"] for row in present["schedules"] if row["slug"] is not None}
        for slug, schedule in self.chosen.schedules.items():
            there = schedules.pop(slug, None) or schedules.pop(schedule.get("replaces"), None)
            if schedule == last.get(slug):
                continue
            if there is None:
                self._accepted(self.client.post(f"{address}/schedules", json=[schedule]))
            else:
                self._accepted(self.client.patch(f"{address}/schedules/{there}", json=schedule))
        for there in schedules.values():
            self.client.delete(f"{address}/schedules/{there}").raise_for_status()
        return str(present["id"])

    def _replace_automations(self, identifier: str) -> None:
        owner = f"prefect.deployment.{identifier}"
        self.client.delete(f"/automations/owned-by/{owner}").raise_for_status()
        for automation in self.chosen.automations:
            actions = [{**action, "deployment_id": identifier} for action in automation["actions"]]
            body = {**automation, "actions": actions, "owner_resource": owner}
            self._accepted(self.client.post("/automations/", json=body))

    def _accepted(self, response: Response) -> Response:
        """Return a successful response. Raises ConfigError with the server's reason if it refused the content."""
        if response.status_code in _REFUSALS:
            raise ConfigError(f"{self.file}: {self.chosen.name} was refused by the Prefect server: {_reason(response)}")
        return response.raise_for_status()


def _reason(response: Response) -> str:
    """The server's reason as one line."""
    body = response.json()
    details = body.get("detail") or body.get("exception_detail") or body.get("exception_message")
    if isinstance(details, list):
        first = details[0]
        more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
        details = f"{'.'.join(map(str, first['loc'][1:]))}: {first['msg']}{more}"
    return " ".join(str(details).split())[:500]
