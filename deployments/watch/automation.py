"""The automations that start a sync when a source changes: one per watched source, written by the watcher."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from catchment.runtime.membership import Membership
from connectors.local_files import FolderSettings
from deployments.server.client import Client, api, deployment_named, everything
from deployments.server.running import Running
from deployments.sources.placement import other_host_of, tag_of
from deployments.sources.sources_file import SourceEntry
from tasks.source_events import resource

EVENT = "catchment.source.changed"
_TAG = "catchment-watch"


def title(name: str) -> str:
    """The name of a source's automation in the UI."""
    return f"Sync {name} when it changes"


def ensure(running: Running, entries: Collection[SourceEntry], membership: Membership | None = None) -> dict[str, str]:
    """Make the server's automations match these sources. Returns the ID of each source's deployment, by source name.

    A source that is not deployed yet, or by another host, gets no automation; those of other hosts stay. Idempotent. An
    automation that was disabled in the UI stays disabled.
    Raises TryAgain if the server does not answer.
    """
    with api(running) as client:
        deployments = {
            entry.name: deployment for entry in entries if (deployment := _deployment(client, entry, membership))
        }
        tags = [_TAG, *([tag_of(membership.name)] if membership else [])]
        automations = {
            title(entry.name): _automation(entry, deployments[entry.name], tags)
            for entry in entries
            if entry.name in deployments
        }
        for existing in _ours(client):
            written = automations.pop(existing["name"], None)
            if written is None and not set(tags) <= set(existing["tags"]):
                continue
            if written is None:
                client.delete(f"/automations/{existing['id']}").raise_unless_missing()
            elif not _matches(existing, written):
                body = written | {"enabled": existing["enabled"]}
                client.put(f"/automations/{existing['id']}", json=body).raise_for_status()
        for written in automations.values():
            client.post("/automations/", json=written).raise_for_status()
    return deployments


def _deployment(client: Client, entry: SourceEntry, membership: Membership | None) -> str | None:
    row = deployment_named(client, f"sync-{entry.kind}", entry.name)
    return None if row is None or other_host_of(row, membership) else str(row["id"])


def _ours(client: Client) -> list[dict[str, Any]]:
    return everything(client, "automations", {"automations": {"tags": {"all_": [_TAG]}}})


def _automation(entry: SourceEntry, deployment: str, tags: list[str]) -> dict[str, Any]:
    action: dict[str, Any] = {"type": "run-deployment", "source": "selected", "deployment_id": deployment}
    if isinstance(entry.settings, FolderSettings):
        action["parameters"] = {"changed_only": True}
    return {
        "name": title(entry.name),
        "description": f"Trigger: the watcher saw a change in {entry.name}, event {EVENT}. Action: sync it.",
        "tags": tags,
        "enabled": True,
        "trigger": {
            "type": "event",
            "posture": "Reactive",
            "expect": [EVENT],
            "match": resource(entry.name),
            "threshold": 1,
            "within": 0,
        },
        "actions": [action],
    }


def _matches(existing: Any, written: Any) -> bool:
    """Whether the server's automation has all written values. The server adds defaults and IDs to them."""
    if isinstance(written, dict):
        return isinstance(existing, dict) and all(
            key in existing and _matches(existing[key], value) for key, value in written.items() if key != "enabled"
        )
    if isinstance(written, list):
        return isinstance(existing, list) and len(existing) == len(written) and all(map(_matches, existing, written))
    return bool(existing == written)
