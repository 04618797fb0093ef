"""Every kind of source, and that of another package, with Prefect's own `deploy`, server and worker."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from connectors import kinds
from tests.acceptance.person import COMMAND, Person
from tests.outside_packages import install
from tests.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.long]

_OF_HOSTS = {
    "program": {"command": ["/bin/true"]},
    "imap": {"host": "127.0.0.1", "user": "ada", "password": "env:NO_PASSWORD", "security": "none"},
    "remote": {"remote": "box:"},
    "web": {"addresses": ["http://127.0.0.1:9/feed.xml"]},
}
"""The settings of sources at hosts, which need consent."""


def _settings(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the settings of a source of each kind, with one document each."""
    for name in ("vault", "papers", "clone", "home/pushed/clips"):
        (folder / name).mkdir(parents=True)
        (folder / name / "note.md").write_text("# Alder\n")
    (folder / "vault" / ".obsidian").mkdir()
    (folder / "books.txt").write_text("Walden\n")
    git = ["git", "-c", "user.name=ada", "-c", "user.email=ada@example.org", "-C", str(folder / "clone")]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True)
    return {
        "local_files": {"root": str(folder / "papers")},
        "obsidian": {"root": str(folder / "vault")},
        "github": {"clone": str(folder / "clone")},
        "pushed": {"folder": "clips"},
        "shelf": {"file": str(folder / "books.txt")},
        **_OF_HOSTS,
    }


def _answers(port: str) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(f"http://127.0.0.1:{port}/api/health", trust_env=False).is_success
    return False


def test_stock_deploy_server_and_worker_run_every_kind(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    install(site)
    settings = _settings(tmp_path)
    assert settings.keys() == {*kinds(), "shelf"}
    deployments = [
        {
            "name": "clips",
            "entrypoint": f"flows.{kind}.sync_{kind}",
            "work_pool": {"name": "stock"},
            "parameters": {"name": "clips" if kind == "pushed" else kind.replace("_", "-"), "settings": settings[kind]},
        }
        for kind in settings
    ]
    project = tmp_path / "project"
    project.mkdir()
    (project / "prefect.yaml").write_text(yaml.safe_dump({"pull": [], "deployments": deployments}))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    variables = {
        "HOME": str(tmp_path),
        "PATH": os.pathsep.join([str(COMMAND.parent), os.environ["PATH"]]),
        "PYTHONPATH": str(site),
        "PREFECT_HOME": str(tmp_path / "prefect"),
        "PREFECT_SERVER_API_PORT": port,
        "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
    }
    environment = Person(tmp_path / "home", variables=variables).environment

    def prefect(*words: str) -> str:
        done = subprocess.run(
            ["prefect", *words], env=environment, cwd=project, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    # Not with --background: what that server logs goes to a closed pipe, which ends it.
    with (
        (tmp_path / "server.log").open("wb") as log,
        subprocess.Popen(["prefect", "server", "start"], env=environment, stdout=log, stderr=log) as server,
    ):
        try:
            until(lambda: _answers(port), seconds=60)
            prefect("work-pool", "create", "stock", "--type", "process")
            prefect("--no-prompt", "deploy", "--all")
            for kind in settings:
                # One after the other: seven processes at once are too much for this server on a busy machine.
                prefect("deployment", "run", f"sync-{kind}/clips")
                prefect("worker", "start", "--pool", "stock", "--run-once")
            runs = httpx.post(f"http://127.0.0.1:{port}/api/flow_runs/filter", json={}, trust_env=False).json()
        finally:
            server.terminate()
    states = {run["name"]: run["state_name"] for run in runs if " slice " not in run["name"]}
    synced = ("local-files", "obsidian", "github", "clips", "shelf")
    assert states == {
        **{f"{name}: 1 added or updated": "Completed" for name in synced},
        **{f"{kind}: skipped, no consent": "Skipped" for kind in _OF_HOSTS},
    }
