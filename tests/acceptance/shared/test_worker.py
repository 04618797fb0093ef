"""The worker under load: fewer concurrent runs on a busy machine. Also, Prefect's process worker as a replacement."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from catchment.runtime.home import Home
from catchment.runtime.worker_status import WorkerStatus
from deployments.runs.admission import HOT_CPU
from deployments.server.client import api
from tests.acceptance import document
from tests.acceptance.person import COMMAND, PROJECT, Person
from tests.waiting import until

pytestmark = pytest.mark.acceptance

_FILE = """\
pull: []
deployments:
  - name: by-stock
    entrypoint: flows.local_files.sync_local_files
    work_pool: {{name: stock, job_variables: {{at_once: 4}}}}
    parameters: {{name: by-stock, settings: {{root: {root}}}}}
    concurrency_limit: {{limit: 1, collision_strategy: ENQUEUE}}
"""


@contextmanager
def _busy_machine() -> Iterator[None]:
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def test_busy_machine_limits_concurrent_runs_and_completes_them(person: Person, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "note.md").write_text("# A willow")
    person("add", "local_files", folder, "--name", "beside").ok()

    with _busy_machine():
        # The limit may have been reduced earlier; this test checks that the reduction is visible and reported.
        until(
            lambda: WorkerStatus.read(Home(person.home)),
            lambda said: said is not None and said.cpu > HOT_CPU and 1 <= said.limit < said.cap,
        )
        done = person.sync("beside")

    assert done["succeeded"] == 1
    assert "Runs at once: " in (person.home / "logs" / "worker.log").read_text()


@pytest.mark.long
def test_prefect_process_worker_syncs_a_source(person: Person, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "note.md").write_text("# Alder\n\nThe stockworkerword is in here.\n")
    (tmp_path / "prefect.yaml").write_text(_FILE.format(root=folder))
    prefect = _Prefect(person, tmp_path)

    prefect("work-pool", "create", "stock", "--type", "process")
    prefect("--no-prompt", "deploy", "--all")
    prefect("deployment", "run", "sync-local_files/by-stock")
    prefect("worker", "start", "--pool", "stock", "--type", "process", "--run-once")

    [run] = person.runs_of("by-stock")
    assert run["state"]["name"] == "Completed"
    [found] = person.hits("stockworkerword")
    assert found["source"] == "by-stock"
    with api(person.running) as client:
        workers: list[dict[str, Any]] = client.post("/work_pools/stock/workers/filter", json={}).json()
    assert len(workers) == 1


def test_worker_commands_of_the_internals_page_work(person: Person, tmp_path: Path) -> None:
    shutil.copytree(PROJECT / "examples" / "vault", tmp_path / "Vault")
    path = os.pathsep.join([str(COMMAND.parent), os.environ["PATH"]])
    environment = _Prefect(person, tmp_path).environment | {"HOME": str(tmp_path), "PATH": path}

    assert document.carry_out(PROJECT / "docs" / "internals.md", environment, tmp_path) == 5


class _Prefect:
    """Prefect's command in an environment that sets only the server address."""

    def __init__(self, person: Person, folder: Path) -> None:
        running = person.running
        self._folder = folder
        self.environment = person.environment | {
            "PREFECT_API_URL": running.api_url,
            "PREFECT_API_AUTH_STRING": running.login,
            "TMPDIR": str(folder),
        }

    def __call__(self, *words: str) -> None:
        done = subprocess.run(
            [str(COMMAND.with_name("prefect")), *words],
            env=self.environment,
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
