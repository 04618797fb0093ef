"""Flows that run in this process against the session's real server, and their records on the server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
from prefect.client.schemas.objects import State
from prefect.events.worker import EventsWorker
from prefect.logging.handlers import APILogWorker
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, PREFECT_HOME, temporary_settings

from catchment.settings import Home
from connectors.local_files import LocalFilesSettings
from deployments.server.client import Client, api
from deployments.supervisor.supervisor import Running
from flows.local_files import sync_local_files
from tests.waiting import until

T = TypeVar("T")
_ENDED = {"COMPLETED", "FAILED", "CANCELLED", "CRASHED"}


@dataclass(frozen=True, slots=True)
class Window:
    """The flow runs as the Prefect UI shows them, read from the server's API."""

    client: Client
    url: str
    login: str

    def artifacts(self, source: str) -> dict[str, dict[str, Any]]:
        """Return the latest artifacts of a source by key."""
        return {row["key"]: row for row in self.ask("artifacts/latest", artifacts={"key": {"like_": f"{source}-"}})}

    def ask(self, what: str, **query: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.client.post(f"/{what}/filter", json=query).raise_for_status().json()
        return found

    def run_of(self, source: str) -> dict[str, Any]:
        """Return the latest run of a source that has started. Its name starts with the source."""
        started = {"name": {"like_": f"{source}:"}, "state": {"type": {"not_any_": ["SCHEDULED"]}}}
        found = self.ask("flow_runs", flow_runs=started, sort="START_TIME_DESC")
        return found[0]

    def logs(self, runs: list[str], expected: str) -> list[str]:
        """Return the log lines of runs, once the expected text is among them."""

        def look() -> list[str]:
            return [line["message"] for line in self.ask("logs", logs={"flow_run_id": {"any_": runs}}, limit=200)]

        return until(look, lambda lines: any(expected in line for line in lines))

    def tasks(self, run: str, number: int) -> list[dict[str, Any]]:
        """Return the task runs of a run and its subflows in the order of their start, once this many have ended.

        The server stores the row of a task run before its state.
        """
        tasks = until(
            lambda: self._tasks(run),
            lambda rows: (
                len(_own(rows)) >= number and all(row["state"] and row["state"]["type"] in _ENDED for row in rows)
            ),
        )
        return _own(tasks)

    def _tasks(self, run: str) -> list[dict[str, Any]]:
        mine = {run}
        while more := {
            r["id"]
            for r in self.ask("flow_runs", flow_runs={"parent_flow_run_id": {"any_": sorted(mine)}})
            if r["id"] not in mine
        }:
            mine |= more
        return self.ask("task_runs", flow_runs={"id": {"any_": sorted(mine)}}, sort="EXPECTED_START_TIME_ASC")


def _own(tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the task runs that do not stand for a subflow."""
    return [task for task in tasks if not (task["state"] and task["state"]["state_details"]["child_flow_run_id"])]


@pytest.fixture
def window(server: Running, home: Home) -> Iterator[Window]:
    """Run the flows of this test on the server, with a separate home."""
    settings = {
        PREFECT_API_URL: f"{server.url}/api",
        PREFECT_API_AUTH_STRING: server.login,
        PREFECT_HOME: home.prefect,
    }
    with temporary_settings(settings), api(server) as client:
        yield Window(client, f"{server.url}/api", server.login)
        # Send the pending events before the server stops.
        APILogWorker.drain_all()
        EventsWorker.drain_all()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder with a name that must not appear in Prefect."""
    folder = tmp_path / "secretfolder"
    folder.mkdir()
    return folder


def sync(name: str, folder: Path, **settings: Any) -> State:
    """Run the flow of a folder in this process."""
    return backfill(name, folder, None, **settings)


def backfill(name: str, folder: Path, number: int | None, **settings: Any) -> State:
    """Run the flow of a folder in this process, for a backfill if `number` names one."""
    given: Any = {"name": name, "settings": LocalFilesSettings(root=folder, **settings), "backfill": number}
    state: State = asyncio.run(sync_local_files(**given, return_state=True))  # type: ignore[call-overload]
    return state
