"""The automations that turn "a source changed" into a sync: one per watched source, kept on the server as code."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from connectors.local_files import FolderSettings
from deployments.server.client import Client, api, everything
from deployments.server.running import Running
from deployments.sources.sources_file import SourceEntry

EVENT = "catchment.source.changed"
_TAG = "catchment-watch"


def resource(name: str) -> str:
    """What the event of a source is about."""
    return f"catchment.source.{name}"


def title(name: str) -> str:
    """What the automation of a source is called in the UI."""
    return f"Sync {name} when it changes"


def ensure(running: Running, entries: Collection[SourceEntry]) -> dict[str, str]:
    """Make the server's automations those of these sources, and no others; the deployment of each, by source name.

    A source that is not deployed gets none yet. May be called again: what is right already is not touched, and one that was
    switched off in the UI stays off. Raises TryAgain when the server does not answer.
    """
    with api(running) as client:
        deployments = {entry.name: found for entry in entries if (found := _deployment(client, entry))}
        wanted = {
            title(entry.name): _automation(entry, deployments[entry.name])
            for entry in entries
            if entry.name in deployments
        }
        for there in _ours(client):
            written = wanted.pop(there["name"], None)
            if written is None:
                client.delete(f"/automations/{there['id']}").raise_for_status()
            elif not _says(there, written):
                body = written | {"enabled": there["enabled"]}
                client.put(f"/automations/{there['id']}", json=body).raise_for_status()
        for written in wanted.values():
            client.post("/automations/", json=written).raise_for_status()
    return deployments


def _deployment(client: Client, entry: SourceEntry) -> str | None:
    answer = client.get(f"/deployments/name/sync-{entry.kind}/{entry.name}")
    return None if answer.is_missing else str(answer.raise_for_status().json()["id"])


def _ours(client: Client) -> list[dict[str, Any]]:
    return everything(client, "automations", {"automations": {"tags": {"all_": [_TAG]}}})


def _automation(entry: SourceEntry, deployment: str) -> dict[str, Any]:
    action: dict[str, Any] = {"type": "run-deployment", "source": "selected", "deployment_id": deployment}
    if isinstance(entry.settings, FolderSettings):
        action["parameters"] = {"changed_only": True}
    return {
        "name": title(entry.name),
        "description": f"Starts a sync when the watcher reports a change in {entry.name}.",
        "tags": [_TAG],
        "enabled": True,
        "trigger": {
            "type": "event",
            "posture": "Reactive",
            "expect": [EVENT],
            "match": {"prefect.resource.id": resource(entry.name)},
            "threshold": 1,
            "within": 0,
        },
        "actions": [action],
    }


def _says(there: Any, written: Any) -> bool:
    """Whether what is on the server says all that is written; it adds defaults and ids of its own."""
    if isinstance(written, dict):
        return isinstance(there, dict) and all(
            key in there and _says(there[key], value) for key, value in written.items() if key != "enabled"
        )
    if isinstance(written, list):
        return isinstance(there, list) and len(there) == len(written) and all(map(_says, there, written))
    return bool(there == written)
