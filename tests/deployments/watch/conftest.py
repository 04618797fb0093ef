"""A watcher on real folders, and a small stand-in for the server's API that records the requests."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from catchment.runtime.home import Home
from catchment.runtime.watch_status import WatchState, read
from connectors.local_files import LocalFilesSettings
from deployments.server.running import Running, record, supervisor_lock
from deployments.sources.prefect_file import Schedule
from deployments.sources.sources_file import SourceEntry, SourcesFile
from deployments.watch import debounce
from deployments.watch.changes import ChangedPaths
from deployments.watch.watcher import Watcher
from tests.waiting import PATIENCE


@dataclass
class StandinServer:
    """A stand-in for the server. Its runs take the changes, and start and end at once, or on command."""

    immediate: bool = True
    forgets: bool = False
    on_event: Callable[[], object] = list
    events: list[str] = field(default_factory=list)
    runs: list[dict[str, str]] = field(default_factory=list)
    automations: dict[str, dict[str, Any]] = field(default_factory=dict)
    changes: ChangedPaths = field(default_factory=ChangedPaths)
    looks: int = 0
    port: int = 0

    def answer(self, path: str, body: Any) -> tuple[int, Any]:
        if path.startswith("/api/deployments/name/"):
            self.looks += 1
            return 200, {"id": path.rpartition("/")[2], "paused": False}
        if path == "/api/events":
            self._take(body)
            return 204, None
        if path == "/api/flow_runs/filter":
            deployment = body["deployments"]["id"]["any_"][0]
            return 200, [run for run in reversed(self.runs) if run["deployment"] == deployment][: body["limit"]]
        if path == "/api/automations/filter":
            return 200, [{"id": key, **value} for key, value in self.automations.items()]
        if path == "/api/automations/":
            self.automations[str(len(self.automations))] = body
            return 201, body
        self.automations.pop(path.rpartition("/")[2])
        return 204, None

    def turn(self, state: str) -> None:
        """Set the state of the newest run."""
        self.runs[-1]["state_type"] = state
        if state == "RUNNING":
            self.changes.take(self.runs[-1]["deployment"])

    def _take(self, events: list[dict[str, Any]]) -> None:
        for event in events:
            name = event["resource"]["prefect.resource.name"]
            self.events.append(name)
            self.on_event()
            if self.forgets:
                continue
            if self.immediate:
                self.changes.take(name)
            state = "COMPLETED" if self.immediate else "SCHEDULED"
            self.runs.append({"id": str(len(self.runs)), "deployment": name, "state_type": state})


@contextmanager
def serving(standin: StandinServer) -> Iterator[None]:
    """Serve the stand-in, on its previous port if it had one."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            status, said = standin.answer(self.path, json.loads(self.rfile.read(length) or b"null"))
            content = b"" if said is None else json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self) -> None:
            self.do_POST()

        def do_DELETE(self) -> None:
            self.do_POST()

        def log_message(self, *arguments: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

    with Server(("127.0.0.1", standin.port), Handler) as server:
        standin.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield
        server.shutdown()
        thread.join()


@pytest.fixture
def standin(home: Home) -> Iterator[StandinServer]:
    standin = StandinServer()
    with serving(standin), announced(home, standin.port):
        yield standin


@contextmanager
def announced(home: Home, port: int) -> Iterator[None]:
    """Record this process as the supervisor of the home."""
    with supervisor_lock(home):
        record(home, Running(port, 0, datetime.now(UTC), 0, 0, "standin:password"))
        yield


@pytest.fixture
def swift(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the quiet period, for tests that do not depend on it."""
    monkeypatch.setattr(debounce, "QUIET", 0.03)
    monkeypatch.setattr(debounce, "_RUNNING", (0.05, 0.2))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder of the source `notes`."""
    (tmp_path / "notes" / "Projects").mkdir(parents=True)
    (tmp_path / "notes" / "Projects" / "Plan.md").write_text("plan")
    return tmp_path / "notes"


HOURLY = (Schedule.model_validate({"interval": 3_600, "timezone": "UTC", "slug": "main"}),)


def add_source(
    home: Home, name: str, root: Path, schedules: tuple[Schedule, ...] = HOURLY, *, quiet: float | None = None
) -> None:
    """Add a watched source to sources.yaml."""
    file = SourcesFile.load(home.sources_file)
    file.add(SourceEntry(name, "local_files", LocalFilesSettings(root=root), schedules, watch=True, quiet=quiet))
    file.save()


@contextmanager
def watching(home: Home, standin: StandinServer | None = None, **options: Any) -> Iterator[list[str]]:
    """Run a watcher; the stand-in's runs take its changes. Yields the lines of its log."""
    lines: list[str] = []
    watcher = Watcher(home, standin.changes if standin else ChangedPaths(), lines.append, **options)
    thread = threading.Thread(target=watcher.run)
    thread.start()
    try:
        yield lines
    finally:
        watcher.stop()
        thread.join(PATIENCE)
        assert not thread.is_alive()


def state_of(home: Home, name: str) -> WatchState | None:
    """Return the state of a source in the report of the running watcher."""
    return (read(home) or {}).get(name)
