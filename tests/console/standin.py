"""A stand-in for the Prefect server: it answers the questions of `status`, `health` and `doctor` with what a test says."""

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
    """So many seconds from now, as the server writes it."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def run(name: str, seconds: float, *, auto: bool = True, state: str = "Scheduled", **more: Any) -> dict[str, Any]:
    """A flow run that is to begin so many seconds from now."""
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
    """What the server knows; `answers` maps the path below /api to what is returned for it. Others are not found."""

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
    """A stand-in that `running` finds in this home; this process plays the supervisor."""
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

        do_GET = do_POST = do_PATCH = respond  # noqa: N815 - the names that the library calls

        def date_time_string(self, timestamp: float | None = None) -> str:
            return standin.date or super().date_time_string(timestamp)  # type: ignore[arg-type]

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

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
