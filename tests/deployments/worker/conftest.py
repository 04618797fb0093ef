"""A work pool of type `warm`, its worker, and the deployments of the stand-in flows."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

from catchment.settings import Home
from deployments.server.client import Client, api
from deployments.server.environment import child_environment
from deployments.server.running import Running
from tests.waiting import PATIENCE, until

_FINAL = frozenset({"COMPLETED", "FAILED", "CRASHED", "CANCELLED"})
_PREFECT = str(Path(sys.executable).with_name("prefect"))
T = TypeVar("T")
_WORKER = """
import asyncio, logging, signal, sys
from catchment.runtime.home import Home
from deployments.watch.thread import WatcherThread
from deployments.worker.worker import WarmWorker

async def work():
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, signal.raise_signal, signal.SIGINT)
    worker = WarmWorker(work_pool_name=sys.argv[1], name=sys.argv[1])
    worker.home = Home.default()
    if len(sys.argv) > 2:
        worker.watcher = WatcherThread(worker.home, logging.getLogger("watcher"))
    for path in sys.argv[3:]:
        worker.watcher.changes.add(sys.argv[2], path)
    await worker.start()

asyncio.run(work())
"""


@dataclass
class Pool:
    """A work pool with a worker. `flows` is the module of its runs, which a test may edit."""

    name: str
    client: Client
    environment: dict[str, str]
    flows: Path
    home: Home
    """The home for the worker's report; the server's home belongs to another worker."""
    worker: subprocess.Popen[bytes] | None = None
    _deployments: dict[str, str] = field(default_factory=dict)

    def prefect(self, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([_PREFECT, *words], env=self.environment, cwd=self.flows.parent, start_new_session=True)

    def start_worker(self) -> None:
        """Start the worker of the home as `deployments.worker` does, without a watcher."""
        self._start_worker()
        online = {"workers": {"status": {"any_": ["ONLINE"]}}}
        until(lambda: self._post(f"/work_pools/{self.name}/workers/filter", online))

    def start_watching_worker(self, source: str, *paths: str) -> None:
        """Start a worker like `deployments.worker`, with a watcher that has recorded these paths."""
        self._start_worker(source, *paths)

    def _start_worker(self, *watched: str) -> None:
        command = [sys.executable, "-c", _WORKER, self.name, *watched]
        self.worker = subprocess.Popen(command, env=self.environment, cwd=self.flows.parent, start_new_session=True)

    def stop_worker(self) -> None:
        if self.worker is not None and self.worker.poll() is None:
            self.worker.send_signal(signal.SIGTERM)
            self.worker.wait(PATIENCE)

    def run(self, flow: str, /, **parameters: object) -> str:
        return self._run(flow, {"parameters": parameters})

    def run_later(self, flow: str, when: str, /) -> str:
        return self._run(flow, {"state": {"type": "SCHEDULED", "state_details": {"scheduled_time": when}}})

    def run_with(self, flow: str, job_variables: dict[str, Any], /, **parameters: object) -> str:
        return self._run(flow, {"job_variables": job_variables, "parameters": parameters})

    def _run(self, flow: str, wanted: dict[str, Any]) -> str:
        if flow not in self._deployments:
            known = self._post("/flows/", {"name": flow})["id"]
            deployment = {"name": self.name, "flow_id": known, "entrypoint": f"worker_flows.{flow}"}
            pool = {"work_pool_name": self.name, "enforce_parameter_schema": False}
            self._deployments[flow] = self._post("/deployments/", deployment | pool)["id"]
        address = f"/deployments/{self._deployments[flow]}/create_flow_run"
        return str(self._post(address, wanted)["id"])

    def read(self, run: str) -> dict[str, Any]:
        answer: dict[str, Any] = self.client.get(f"/flow_runs/{run}").raise_for_status().json()
        return answer

    def states(self, run: str) -> list[str]:
        """Return the names of all states of the run, in order."""
        found = self.client.get("/flow_run_states/", params={"flow_run_id": run}).raise_for_status().json()
        return [state["name"] for state in sorted(found, key=lambda state: str(state["timestamp"]))]

    def await_state(self, run: str, *types: str) -> dict[str, Any]:
        # Prefect's engine reports a cancelled task as a crash; the worker corrects that a moment later.
        wrong = _FINAL - set(types) - ({"CRASHED"} if "CANCELLED" in types else set())

        def there() -> dict[str, Any] | None:
            found = self.read(run)
            assert found["state_type"] not in wrong, found["state"]
            return found if found["state_type"] in types else None

        return until(there)

    def cancel(self, run: str) -> None:
        self._post(f"/flow_runs/{run}/set_state", {"state": {"type": "CANCELLING", "name": "Cancelling"}})

    def limit(self, runs: int | None) -> None:
        self.client.patch(f"/work_pools/{self.name}", json={"concurrency_limit": runs}).raise_for_status()

    def _post(self, address: str, content: dict[str, Any]) -> Any:
        return self.client.post(address, json=content).raise_for_status().json()


@contextlib.contextmanager
def _pool(name: str, server: Running, home: Home, folders: pytest.TempPathFactory) -> Iterator[Pool]:
    folder = folders.mktemp("flows")
    flows = Path(shutil.copy(Path(__file__).with_name("worker_flows.py"), folder))
    own_home = Home(folders.mktemp("home"))
    environment = child_environment(home, port=server.port, auth=server.login) | {
        "CATCHMENT_HOME": str(own_home.path),
        "PYTHONPATH": str(folder),
        "CATCHMENT_PRELOAD": "worker_flows",
        # Prefect's process worker uses a folder here that belongs to the first user of the machine.
        "TMPDIR": str(folder),
        # Polling is slow, so that no test passes because of a poll instead of an event.
        "PREFECT_WORKER_QUERY_SECONDS": "60",
    }
    with api(server) as client:
        pool = Pool(name, client, environment, flows, own_home)
        try:
            yield pool
        finally:
            pool.stop_worker()


@pytest.fixture(scope="session")
def pool(server: Running, server_home: Home, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    """The pool of the whole session, created with Prefect's own command."""
    with _pool("warm-tests", server, server_home, tmp_path_factory) as pool:
        assert pool.prefect("work-pool", "create", pool.name, "--type", "warm").wait(PATIENCE) == 0
        pool.start_worker()
        yield pool


@pytest.fixture
def idle_pool(server: Running, server_home: Home, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    """A pool for one test, without a worker."""
    with _pool(f"warm-{time.time_ns()}", server, server_home, tmp_path_factory) as pool:
        pool._post("/work_pools/", {"name": pool.name, "type": "warm"})
        yield pool


@pytest.fixture
def other_pool(idle_pool: Pool) -> Pool:
    """A pool for one test, which may stop its worker."""
    idle_pool.start_worker()
    return idle_pool
