"""A stand-in for the Prefect server that returns prepared responses to `status`, `health` and `doctor`."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from catchment.runtime.home import Home
from deployments.server.running import Running, record, supervisor_lock


def moment(seconds: float) -> str:
    """Return a time in so many seconds, in the format of the server."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def run(name: str, seconds: float, *, auto: bool = True, state: str = "Scheduled", **more: Any) -> dict[str, Any]:
    """Return a flow run that is due in so many seconds."""
    return {
        "id": f"run-of-{name}",
        "name": f"{name}-run",
        "deployment_id": f"deployment-of-{name}",
        "parameters": {"name": name},
        "auto_scheduled": auto,
        "expected_start_time": moment(seconds),
        "next_scheduled_start_time": moment(seconds),
        "state_name": state,
        "state_type": "SCHEDULED",
        "state": {"type": "SCHEDULED", "name": state, "timestamp": moment(-300)},
        "run_count": 0,
        **more,
    }


@dataclass
class Standin:
    """Prepared responses by path below /api, and the received requests. Other paths return 404."""

    answers: dict[str, Any] = field(default_factory=dict)
    asked: list[tuple[str, str, Any]] = field(default_factory=list)
    code: int = 200
    date: str | None = None

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        self.asked.append((method, path, body))
        if self.code != 200:
            return self.code, None
        found = self.answers.get(path)
        if found is None:
            return 404, {"detail": "not found"}
        return 200, found(body) if callable(found) else found


@contextmanager
def serving(folder: Path) -> Iterator[Standin]:
    """Serve a stand-in as the running server of a home. This process acts as the supervisor."""
    standin = Standin({"/flow_runs/filter": [], "/deployments/filter": [], "/work_pools/catchment/workers/filter": []})

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def respond(self) -> None:
            text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = urlsplit(self.path).path.removeprefix("/api")
            code, answer = standin.answer(self.command, path, json.loads(text) if text else None)
            data = json.dumps(answer).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = do_DELETE = respond  # noqa: N815 - names required by http.server

        def date_time_string(self, timestamp: float | None = None) -> str:
            return standin.date or super().date_time_string(timestamp)  # type: ignore[arg-type]

        def log_message(self, *_: Any) -> None:
            """Write no log."""

    home = Home(folder).make()
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        now = datetime.now(UTC)
        with supervisor_lock(home):
            record(home, Running(server.server_address[1], os.getpid(), now, os.getpid(), os.getpid(), ""))
            try:
                yield standin
            finally:
                server.shutdown()


@contextmanager
def answering(folder: Path) -> Iterator[Standin]:
    """Serve a stand-in that answers the requests of actions about the source `notes`."""
    with serving(folder) as standin:
        standin.answers["/deployments/name/sync-obsidian/notes"] = {"id": "d1", "paused": False, "schedules": []}
        for action in ("pause_deployment", "resume_deployment"):
            standin.answers[f"/deployments/d1/{action}"] = {}
        standin.answers["/deployments/d1/create_flow_run"] = {"id": "run-1"}
        for path in ("/flow_runs/run-2/set_state", "/automations/owned-by/prefect.deployment.d2"):
            standin.answers[path] = {}
        standin.answers |= {"/flows/": {"id": "f1"}, "/deployments/": {"id": "d2"}}
        yield standin
