"""`--json` prints the same records as `/api/v1`, for each command that has a counterpart there."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from starlette.testclient import TestClient

from catchment.runtime.home import Home
from catchment.views.health import HealthReport
from deployments.health.checks import examine
from tests.console.test_json_interface import client, library, names, web
from tests.golden.record import commands

if TYPE_CHECKING:
    from tests.console.conftest import Cli

__all__ = ["client", "library", "names", "web"]

Pick = Callable[[Any], Any]
_ATTEMPTS = 3
_SECONDS = re.compile(r"(?<=T\d\d:\d\d):\d\d(\.\d+)?(?=Z)")
"""Left out of times: some are computed from the present one. Its minute may end between two calls."""


def all_of(view: Any) -> Any:
    return view


def at(*fields: str) -> Pick:
    """Return a function that picks a part of a view by its path."""

    def pick(view: Any) -> Any:
        for field in fields:
            view = view[field]
        return view

    return pick


ROWS = at("page", "rows")
SAME: dict[str, tuple[str, str, Pick]] = {
    "status": ("", "/overview", all_of),
    "hosts": ("", "/hosts", all_of),
    "sources list": ("", "/sources", all_of),
    "sources show": ("notes", "/sources/notes", all_of),
    "queue stats": ("", "/sources", all_of),
    "consent show": ("notes", "/sources/notes/consent", all_of),
    "consent list": ("", "/sources/notes/consent", lambda view: [scope["consent"] for scope in view["scopes"]]),
    "plan": ("notes", "/sources/notes/plan", all_of),
    "prove": ("notes", "/sources/notes/prove", all_of),
    "throttle show": ("", "/sources/limits", at("all")),
    "syncs list": ("", "/syncs", ROWS),
    "syncs show": ("1", "/syncs/1", all_of),
    "backfill list": ("", "/backfills", ROWS),
    "backfill show": ("BACKFILL", "/backfills/BACKFILL", all_of),
    "jobs list": ("", "/jobs", ROWS),
    "jobs show": ("JOB", "/jobs/JOB", all_of),
    "quarantine list": ("", "/trouble/clusters/CLUSTER", at("cluster", "entries", "rows")),
    "quarantine show": ("JOB", "/trouble/clusters/CLUSTER?job=JOB", at("entry", "entry")),
    "deletions list": ("notes", "/trouble/deletions/notes", lambda view: [view["hold"]]),
    "incidents list": ("", "/incidents", lambda view: [*view["open"], *view["closed"]["rows"]]),
    "incidents show": ("1", "/incidents/1", all_of),
    "audit list": ("", "/audit", all_of),
    "why": ("broken.pdf", "/why?item=broken.pdf", all_of),
    "show": ("1", "/documents/1", all_of),
    "history": ("1", "/documents/1/versions", all_of),
    "diff": ("1", "/documents/1/diff", all_of),
    "related": ("1", "/related?document=1", at("documents")),
    "search": ("swarm", "/search?text=swarm", at("hits")),
    "slo": ("", "/health/trends", lambda view: view["objectives"]),
    "telemetry show": ("", "/health/trends", at("trends")),
    "sinks list": ("", "/health", at("sinks")),
    "backup": ("--list", "/health", at("backups", "files")),
}
"""By command: its arguments, the address in `/api/v1`, and the part of the view there."""
ALONE = {
    "check": "health and doctor together",
    "doctor": "of checks that only a terminal runs, in the form of health",
    "health": "checks now, in the form of the report that /health keeps",
    "sources kinds": "has no page",
    "sources next": "asks the server",
    "config show": "of sources.yaml",
    "sync": "acts",
    "undo": "acts",
    "replay": "acts",
    "backfill new": "acts",
    "consent revoke": "acts",
    "incidents ack": "acts",
    "restore": "acts",
    "ledger vacuum": "acts",
    "ledger move": "acts",
    "ledger check": "reads the whole ledger",
    "audit verify": "reads the whole history",
    "audit compare": "reads a bundle",
    "sinks check": "asks the place",
    "sinks show": "its refusals have no page",
    "quarantine stats": "its numbers have no page",
    "throttle history": "its events have no page",
    "vault report": "has no page",
    "tokens list": "has no page",
    "model": "its parts are in /overview",
    "recognition": "its parts are in /overview",
}
"""The commands without a counterpart, and why."""


def test_each_command_with_json_is_compared_or_alone() -> None:
    options = commands()
    with_json = {
        name.removeprefix("catchment ")
        for name, command in options.items()
        if "--json" in str(command.get("options", {}))
    }
    assert with_json == SAME.keys() | ALONE.keys()


@pytest.mark.parametrize("command", SAME)
def test_command_prints_what_the_interface_returns(
    cli: Cli, client: TestClient, names: dict[str, str], command: str
) -> None:
    arguments, address, pick = SAME[command]
    for name, value in names.items():
        arguments, address = arguments.replace(name, value), address.replace(name, value)
    for _ in range(_ATTEMPTS):
        printed = _SECONDS.sub("", cli(*command.split(), *arguments.split(), "--json").out)
        answer = client.get(f"/api/v1{address}")
        assert answer.status_code == 200, answer.text
        served = pick(json.loads(_SECONDS.sub("", answer.text)))
        if json.loads(printed) == served:
            break
    assert json.loads(printed) == served


def test_search_prints_with_its_explanation_what_the_interface_returns(cli: Cli, client: TestClient) -> None:
    explained = cli("search", "swarm", "--words", "--explain", "--json").json
    assert explained == client.get("/api/v1/search?text=swarm&lanes=words").json()
    assert cli("search", "swarm", "--words", "--json").json == explained["hits"]


def test_health_prints_the_form_of_the_report(cli: Cli, client: TestClient, filled: Path) -> None:
    home = Home(filled)
    HealthReport.of(examine(home), datetime.now(UTC)).write(home)
    report = client.get("/api/v1/health").json()["report"]
    printed = cli("health", "--json").json
    assert printed.keys() == report.keys()
    assert [finding.keys() for finding in printed["findings"]] == [finding.keys() for finding in report["findings"]]
