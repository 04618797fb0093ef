"""Makes the server's deployments what a file says, by `prefect deploy`; what was switched off in the UI stays off."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from catchment.errors import ConfigError, NotFound
from catchment.runtime import atomic_files
from catchment.settings import Home
from deployments.server.client import api, everything
from deployments.server.running import Running
from deployments.sources import deploy_command, prefect_file
from deployments.sources.sources_file import SourceEntry, SourcesFile
from deployments.worker.profile import job_variables


def deploy(home: Home, running: Running, names: Collection[str] | None = None, *, file: Path | None = None) -> None:
    """Deploy the sources of these names, or all; or those of another file in the format of prefect.yaml.

    Raises ConfigError or NotFound before anything is changed, and TryAgain when the server does not answer. May be called
    again. A file of the sources that is of an older version is led forward first. All sources: those that the file has no
    more leave the server too, and an unchanged file is not deployed twice.
    """
    path = file or home.sources_file
    written = _slugs(prefect_file.read(file).deployments if file else _led_forward(path).entries)
    for name in names or ():
        if name not in written:
            raise NotFound(f"{path.name} has no deployment {name}; it has {', '.join(written) or 'none'}")
    before = _deployed(running)
    everything = file is None and names is None
    if everything:
        for name in [name for name, there in before.items() if "source" in there["tags"] and name not in written]:
            undeploy(home, running, name)
        if _in_force(home, path) and set(written) <= {name for name, there in before.items() if _is_sync(there)}:
            return
    wanted = {name: slugs for name, slugs in written.items() if names is None or name in names}
    if wanted:
        _run_prefect(home, running, path, () if names is None else wanted)
        _correct(running, before, wanted)
        if file is None:
            _show_resources(running, [one for one in SourcesFile.load(path).entries if one.name in wanted])
    if everything and path.exists():
        atomic_files.write(_mark(home), _digest(path).encode())


def undeploy(home: Home, running: Running, name: str) -> None:
    """Take a source's deployment with its schedules off the server; its past runs stay. May be called again."""
    _mark(home).unlink(missing_ok=True)
    there = _deployed(running).get(name)
    if there is not None and _is_sync(there):
        with api(running) as client:
            client.delete(f"/deployments/{there['id']}").raise_for_status()


def is_deployed(running: Running, name: str) -> bool:
    """Whether the server has a deployment of this name."""
    return name in _deployed(running)


def _led_forward(path: Path) -> SourcesFile:
    sources = SourcesFile.load(path)
    if sources.is_older:
        with atomic_files.explained(), SourcesFile.changing(path) as sources:
            pass
    return sources


def _slugs(found: Iterable[prefect_file.Deployment] | Iterable[SourceEntry]) -> dict[str, set[str]]:
    """The deployments of a file, each with the slugs of its schedules."""
    return {one.name: {schedule.slug for schedule in one.schedules} for one in found}


def _deployed(running: Running) -> dict[str, dict[str, Any]]:
    """The deployments on the server, by name; ours, where a person has another one of that name."""
    with api(running) as client:
        there = everything(client, "deployments", {})
    return {deployment["name"]: deployment for deployment in sorted(there, key=_is_sync)}


def _is_sync(deployment: Mapping[str, Any]) -> bool:
    """Whether it is one of a source; others a person has made."""
    return ".sync_" in (deployment["entrypoint"] or "")


def _run_prefect(home: Home, running: Running, path: Path, names: Collection[str]) -> None:
    done = deploy_command.run(home, running, path, names)
    if done.returncode != 0:
        raise ConfigError(f"{path.name} could not be deployed: {_last_line(done.stderr) or _last_line(done.stdout)}")


def _correct(running: Running, before: dict[str, dict[str, Any]], wanted: dict[str, set[str]]) -> None:
    """Mend what Prefect passes over: it skips a deployment with exit code 0, ends a pause, keeps a schedule taken out."""
    after = _deployed(running)
    with api(running) as client:
        for name, slugs in wanted.items():
            if name not in after:
                raise ConfigError(f"Prefect did not deploy {name} and gave no reason; try `catchment config validate`")
            address = f"/deployments/{after[name]['id']}"
            if before.get(name, {}).get("paused") and not after[name]["paused"]:
                client.post(f"{address}/pause_deployment").raise_for_status()
            for schedule in after[name]["schedules"]:
                if schedule["slug"] is not None and schedule["slug"] not in slugs:
                    client.delete(f"{address}/schedules/{schedule['id']}").raise_for_status()


def _show_resources(running: Running, entries: Iterable[SourceEntry]) -> None:
    """Have each deployment show, as job variables, what a run of its source may take of the machine."""
    there = _deployed(running)
    with api(running) as client:
        for entry in entries:
            shown = there[entry.name]
            variables = job_variables(entry.kind, entry.settings, shown["job_variables"])
            client.patch(f"/deployments/{shown['id']}", json={"job_variables": variables}).raise_for_status()


def _in_force(home: Home, path: Path) -> bool:
    mark = _mark(home)
    return mark.exists() and path.exists() and mark.read_text() == _digest(path)


def _mark(home: Home) -> Path:
    return home.run / "deployed"


def _digest(path: Path) -> str:
    """Of all that decides what a deploy makes: the file, and the programs that read it."""
    programs = f"catchment {version('catchment')} prefect {version('prefect')}"
    return hashlib.sha256(programs.encode() + b"\0" + path.read_bytes()).hexdigest()


def _last_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip(" │╭╰─╮╯")]
    return lines[-1] if lines else ""
