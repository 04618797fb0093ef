"""Where a source runs when hosts share a library: the queue of its host, or the queue `any`.

Each source is in the sources file of one host, which deploys it with the tag `host:NAME`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from catchment.errors import BadInput, ConfigError, Refused
from catchment.runtime.membership import ANY, Membership
from catchment.settings import SourceSettings
from deployments.server.client import api, everything
from deployments.server.run_names import STATE_TAGS
from deployments.server.running import Running
from deployments.sources.profile import job_variables
from deployments.sources.sources_file import SourceEntry, SourcesFile, kind_of

_TAG = "host:"
_TIMING = ("interval", "cron", "rrule", "timezone", "anchor_date", "day_or")
_AROUND = ("active", "parameters", "slug")


def tag_of(host: str) -> str:
    """The tag of the deployments that a host deploys."""
    return f"{_TAG}{host}"


def host_of(row: Mapping[str, Any]) -> str:
    """The host that deployed a deployment of the server; empty for other deployments."""
    return next((tag.removeprefix(_TAG) for tag in row["tags"] if tag.startswith(_TAG)), "")


def other_host_of(row: Mapping[str, Any], membership: Membership | None) -> str:
    """The other host that deployed a deployment; empty for those of this host, and without one."""
    if membership is None or (host := host_of(row)) == membership.name:
        return ""
    return host


def of_another(name: str, host: str) -> str:
    """The refusal to change a source that another host defines."""
    return (
        f"{name}: host {host} defines this source; run the command there, or `catchment sources move {name}` here first"
    )


def bound_by(settings: SourceSettings) -> str:
    """Return the name of the setting that binds a source to one machine, by a path or a secret; empty without one."""
    for row in settings.rows():
        texts = row.value if isinstance(row.value, tuple) else (row.value,)
        if any(isinstance(text, Path) or (row.key == "addresses" and str(text).startswith("/")) for text in texts):
            return row.key
        if row.is_secret and row.value is not None and not row.value.startswith("block:"):
            return row.key
    return ""


def queue_of(entry: SourceEntry, on: str, membership: Membership, *, is_any_taken: bool) -> str:
    """The queue of a source that is to run `on` a host or `any`; on this host by default if it must, else anywhere.

    Raises BadInput for a source that exists on one machine only, Refused for another host.
    """
    bound = bound_by(entry.settings)
    on = on or (ANY if is_any_taken and not bound else membership.name)
    if on == ANY and bound:
        raise BadInput(
            f"{entry.name}: {bound} is on one machine only; let {membership.name} run it, or use a secret block:NAME"
        )
    if on not in (ANY, membership.name):
        raise Refused(f"{entry.name}: runs on {on} only if it is added there; run the command on {on}")
    return ANY if on == ANY else membership.queue


def source_rows(running: Running, name: str | None = None) -> list[dict[str, Any]]:
    """Return the server's deployments of sources, or of one."""
    named = {"name": {"any_": [name]}} if name else {}
    with api(running) as client:
        return everything(client, "deployments", {"deployments": {**named, "tags": {"all_": ["source"]}}})


def elsewhere(running: Running, membership: Membership) -> dict[str, SourceEntry]:
    """Return the sources of other hosts, by name. Raises TryAgain if the server does not answer."""
    entries = {}
    for row in source_rows(running):
        if other_host_of(row, membership):
            # Another version of Catchment may have settings that this one does not know.
            with suppress(ConfigError):
                text = json.dumps({"version": 1, "pull": [], "deployments": [written(row)]})
                (entries[row["name"]],) = SourcesFile(Path(row["name"]), text).entries
    return entries


def written(row: Mapping[str, Any], queue: str | None = None) -> dict[str, Any]:
    """Return a source's deployment on the server as an entry of the sources file, in another queue if given."""
    from connectors import connector_class

    kind = kind_of(row["entrypoint"]) or ""
    settings = connector_class(kind).settings.model_validate(row["parameters"].get("settings", {}))
    usual = job_variables(kind, settings, {})
    variables = {key: value for key, value in row["job_variables"].items() if usual.get(key) != value}
    options = row["concurrency_options"] or {}
    limit = row["global_concurrency_limit"]
    pool = {"name": row["work_pool_name"], "work_queue_name": queue or row["work_queue_name"]}
    return {
        "name": row["name"],
        "entrypoint": row["entrypoint"],
        "tags": [tag for tag in row["tags"] if tag not in STATE_TAGS and not tag.startswith(_TAG)],
        "parameters": row["parameters"],
        **({"schedules": [_schedule(schedule) for schedule in row["schedules"]]} if row["schedules"] else {}),
        **({"paused": True} if row["paused"] else {}),
        **({"concurrency_limit": {"limit": limit["limit"], **_given(options)}} if limit else {}),
        "work_pool": {**pool, "job_variables": variables} if variables else pool,
    }


def _schedule(row: Mapping[str, Any]) -> dict[str, Any]:
    timing = row["schedule"]
    return _given({**{key: timing.get(key) for key in _TIMING}, **{key: row.get(key) or None for key in _AROUND}}) | (
        {} if row["active"] else {"active": False}
    )


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
