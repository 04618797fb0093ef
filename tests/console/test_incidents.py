"""`catchment incidents` and the first line of `status`; the pages of incidents, also with a damaged ledger."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from starlette.testclient import TestClient

from catchment.ledger import Incident
from catchment.runtime import own_secrets
from catchment.runtime.home import Home
from catchment.telemetry.incidents import ReasonCode
from console import session
from deployments.actions.desk import Desk
from deployments.server.running import Running, record, supervisor_lock
from tests.console.standin import Standin, serving
from tests.console.test_actions import an_incident
from web.__main__ import desk_of
from web.app import application
from web.guard import Guard
from web.readiness import Readiness
from web.template_filters import without_commands
from web.warm_library import WarmLibrary

if TYPE_CHECKING:
    from tests.console.conftest import Cli

PORT, TOKEN = 8000, "the token"
FULL = Incident(0, "disk.full", "", datetime.now(UTC), None, "the disk is full", "make room", ())
NO_BUTTON = (
    *(ReasonCode.LEDGER_DAMAGED, ReasonCode.LEDGER_UNWRITABLE, ReasonCode.SERVER_SILENT, ReasonCode.WORKER_SILENT),
    *(ReasonCode.SETTINGS_INVALID, ReasonCode.CLOCK_JUMPED, ReasonCode.BACKLOG_GROWING, ReasonCode.WATCH_LIMITED),
    ReasonCode.UPKEEP_FAILED,
)
"""Problems that are not solved on the page."""


@pytest.fixture
def desk(filled: Path) -> Desk:
    return session.desk()


@pytest.fixture
def library(filled: Path) -> WarmLibrary:
    return WarmLibrary(Home(filled), lambda _reason: None)


@pytest.fixture
def client(filled: Path, library: WarmLibrary) -> TestClient:
    web = application(library, Readiness(library, None), desk_of(Home(filled)), TOKEN)
    client = TestClient(Guard(web.app, web.check, PORT), base_url=f"http://127.0.0.1:{PORT}", follow_redirects=False)
    client.get("/signin", params={"key": own_secrets.one_time_key(Home(filled).signin_keys)})
    return client


@pytest.fixture
def server(filled: Path) -> Iterator[Standin]:
    with serving(filled) as standin:
        yield standin


def test_incident_is_listed_shown_and_acknowledged(cli: Cli, desk: Desk) -> None:
    assert cli("incidents", "list").err == "no incidents\n"
    an_incident(desk)
    (row,) = cli("incidents", "list", "--json").json
    assert (row["id"], row["reason"], row["state"], row["closed_at"]) == (1, "source.unreachable", "open", None)
    assert row["affects"]["source"] == "notes"
    assert "source.unreachable" in cli("incidents", "list").out
    out = cli("incidents", "show", "1").out
    assert "check its address" in out
    assert "No document is deleted meanwhile." in out
    assert cli("incidents", "ack", "1", "--note", "the provider works on it").out == "incident 1: acknowledged\n"
    shown = cli("incidents", "show", "1", "--json").json
    assert shown["note"] == "the provider works on it"
    assert [moment["event"] for moment in shown["timeline"]] == ["opened", "acknowledged"]
    assert "acknowledged" in cli("incidents", "list").out
    assert cli("incidents", "ack", "7").code == 4
    assert cli("incidents", "show", "7").code == 4


def test_first_line_of_status_says_whether_all_is_well(cli: Cli, filled: Path, desk: Desk, server: Standin) -> None:
    said = cli("status", "--exit-code")
    assert said.code == 0
    assert said.out.splitlines()[0] == "Starting: incidents are judged in a moment."
    number = an_incident(desk)
    said = cli("status", "--exit-code")
    first = said.out.splitlines()[0]
    assert said.code == 1
    assert first.startswith("notes: mail.example.org: no answer, since ")
    assert first.endswith("; check its address.")
    assert cli("status").code == 0
    assert [one["id"] for one in cli("status", "--json").json["incidents"]] == [number]


def test_status_says_that_nothing_is_judged_without_the_web_process(cli: Cli, filled: Path) -> None:
    with supervisor_lock(Home(filled)):
        record(Home(filled), Running(1, os.getpid(), datetime.now(UTC) - timedelta(minutes=3), 0, 0, ""))
        assert cli("status").out.startswith("Incidents are not judged: the web process is down;")
        assert cli("status", "--exit-code").code == 1


def test_stopped_system_is_not_well(cli: Cli, filled: Path) -> None:
    said = cli("status", "--exit-code")
    assert (said.code, said.out.splitlines()[0]) == (
        1,
        "Catchment is not running; start it with `catchment up --detach`",
    )


def test_pages_say_what_is_wrong_and_since_when(client: TestClient, desk: Desk) -> None:
    assert "The Prefect server does not respond" in client.get("/sources").text
    an_incident(desk)
    line = client.get("/sources").text.partition('id="well"')[2].partition("</aside>")[0]
    assert '<a href="/incidents/1">notes: mail.example.org: no answer</a>, since <time' in line
    assert "; check its address" in line
    trouble = client.get("/trouble").text
    assert trouble.count("source.unreachable") == 1
    shown = client.get("/incidents/1").text
    assert "No document is deleted meanwhile." in shown
    assert 'action="/actions/incidents.acknowledge"' in shown
    assert client.get("/incidents/2").status_code == 404
    assert "notes: mail.example.org: no answer" in client.get("/incidents").text


@pytest.mark.parametrize("code", ReasonCode)
@pytest.mark.parametrize(
    "remedy",
    [
        "check user and password (some need an app password), then: catchment sources test notes",
        "it restarts by itself; if this persists, see `catchment logs worker`, then: catchment down && catchment up",
        "catchment consent give notes",
    ],
)
def test_problem_with_a_button_names_no_command(client: TestClient, desk: Desk, code: ReasonCode, remedy: str) -> None:
    subject = "" if code in NO_BUTTON or code is ReasonCode.DISK_FULL else "source:notes"
    incident = Incident(0, code.value, subject, datetime.now(UTC), None, "it failed", remedy, ())
    with desk.writing() as ledger:
        ledger.incidents.save([incident])
    page = client.get("/incidents/1").text
    helps = page.partition('class="helps"')[2].partition("<dl")[0]
    strip = page.partition('id="well"')[2].partition("</aside>")[0]
    assert "`" not in helps + strip
    assert "catchment " not in strip
    assert any(mark in helps for mark in ('"btn main"', "/actions/sources.test", "What takes space")) is (
        code not in NO_BUTTON
    )
    assert "catchment " not in helps or code in NO_BUTTON
    assert len(re.findall("<p ", helps)) >= 1, "something is said"


def test_clauses_without_commands_are_kept_as_they_are() -> None:
    text = "Nothing is lost; reading goes on. Free some space: `catchment doctor` helps. The next sync continues."
    assert without_commands(text) == "Nothing is lost; reading goes on. The next sync continues."
    assert without_commands("see `catchment status`; wait") == "wait"


def test_incident_that_does_not_exist_says_where_to_go(client: TestClient) -> None:
    response = client.get("/incidents/99")
    assert (response.status_code, 'href="/trouble"' in response.text) == (404, True)
    assert "`" not in response.text.partition("<main")[2].partition("</main>")[0]


def test_closed_incident_is_kept_in_the_list(client: TestClient, desk: Desk) -> None:
    an_incident(desk)
    with desk.writing() as ledger:
        (found,) = ledger.incidents.open()
        ledger.incidents.save([replace(found, closed_at=datetime.now(UTC))])
    assert "Closed in the last 24 hours" in client.get("/trouble").text
    assert 'href="/incidents/1"' in client.get("/trouble").text
    assert "1 closed incident" in client.get("/incidents").text
    assert (
        "/actions/incidents.acknowledge"
        not in client.get("/incidents/1").text.partition("<dialog")[0].partition("popover")[0]
    )


def test_incident_that_is_not_stored_yet_is_shown(client: TestClient, library: WarmLibrary) -> None:
    library.unsaved = lambda: (FULL,)
    line = client.get("/").text.partition('id="well"')[2].partition("</aside>")[0]
    assert '<a href="/incidents">Catchment: the disk is full</a>' in line
    headers = {"Authorization": f"Bearer {TOKEN}"}
    (row,) = client.get("/api/v1/incidents", headers=headers).json()["open"]
    assert (row["id"], row["reason"]) == (0, "disk.full")


def test_incidents_are_shown_while_the_ledger_is_damaged(
    client: TestClient, library: WarmLibrary, filled: Path
) -> None:
    library.unsaved = lambda: (replace(FULL, reason="ledger.damaged", message="the file is damaged"),)
    for rest in filled.glob("ledger.db-*"):
        rest.unlink()
    (filled / "ledger.db").write_bytes(b"not a database " * 1_000)
    response = client.get("/trouble")
    assert response.status_code in (500, 503)
    assert "Catchment: the file is damaged" in response.text
    headers = {"Authorization": f"Bearer {TOKEN}"}
    (row,) = client.get("/api/v1/incidents", headers=headers).json()["open"]
    assert row["reason"] == "ledger.damaged"
