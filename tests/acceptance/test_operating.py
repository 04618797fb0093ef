"""Operator tasks: every command of the operating guide, persistent schedules, and errors of `up`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from catchment.runtime.home import Home
from deployments.server.client import api
from tests.acceptance import document
from tests.acceptance.person import COMMAND, PROJECT, Person, upright
from tests.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.long]

RULE = "FREQ=WEEKLY;BYDAY=MO;BYHOUR=6;BYMINUTE=0;BYSECOND=0"
SCHEDULES = {"by-interval": ("--every", "20m"), "by-cron": ("--cron", "0 7 * * 1-5"), "by-rule": ("--rrule", RULE)}


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[tuple[Person, Path]]:
    """A user with a vault and two folders in the home folder and the command on the path; yields the user and that
    folder.
    """
    folder = tmp_path / "me"
    shutil.copytree(PROJECT / "examples" / "vault", folder / "Vault")
    for name in ("Papers", "Archive"):
        (folder / name).mkdir()
        (folder / name / "weir.md").write_text(f"# Weir\n\nThe {name} of the rating curve.\n")
    path = os.pathsep.join([str(COMMAND.parent), os.environ["PATH"], str(_systemctl(tmp_path))])
    person = Person(folder / ".local" / "share" / "catchment", variables={"HOME": str(folder), "PATH": path})
    yield person, folder
    person("down")
    assert person.left() == []


def _systemctl(folder: Path) -> Path:
    """Last on the path. A machine without systemd also writes the unit file, but no process reads it."""
    (folder / "bin").mkdir()
    (folder / "bin" / "systemctl").write_text("#!/bin/sh\n")
    (folder / "bin" / "systemctl").chmod(0o700)
    return folder / "bin"


def test_every_command_of_the_operating_guide_works_as_documented(newcomer: tuple[Person, Path]) -> None:
    person, folder = newcomer
    assert document.carry_out(PROJECT / "docs" / "operating.md", person.environment, folder) > 20


def test_document_with_wrong_output_is_detected() -> None:
    assert document.first_missing(("one …", "…", "three"), "one  a\ntwo\nthree\n") is None
    assert document.first_missing(("one …", "three", "two"), "one  a\ntwo\nthree\n") == "two"
    assert document.first_missing(("on",), "one\n") == "on"


@pytest.fixture(scope="module")
def planner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    """A user with a running system and one source for each type of schedule."""
    base = tmp_path_factory.mktemp("planner")
    person = Person(base / "home")
    for name, when in SCHEDULES.items():
        (base / name).mkdir()
        person("add", "local_files", base / name, "--name", name, *when).ok()
    with upright(person):
        yield person
    assert person.left() == []


def test_server_plans_every_type_of_schedule(planner: Person) -> None:
    for name in SCHEDULES:
        runs = until(lambda name=name: planner("sources", "next", name, "--json").ok().json, bool)
        assert {run["why"] for run in runs} == {"schedule"}
    assert all(source["next_run"] for source in planner("status", "--json").ok().json["sources"])
    with api(planner.running) as client:
        found = client.post("/deployments/filter", json={}).raise_for_status().json()
    schedules = {one["name"]: one["schedules"][0]["schedule"] for one in found if one["name"] in SCHEDULES}
    assert schedules["by-interval"]["interval"] == 1_200
    assert schedules["by-cron"]["cron"] == "0 7 * * 1-5"
    assert "FREQ=WEEKLY;BYDAY=MO" in schedules["by-rule"]["rrule"]


def test_pause_and_resume_survive_a_restart_and_a_redeployment(planner: Person) -> None:
    def planned(name: str) -> list[dict[str, str]]:
        found: list[dict[str, str]] = planner("sources", "next", name, "--json").ok().json
        return found

    for name in ("by-cron", "by-rule"):
        planner("sources", "pause", name).ok()
    planner("sources", "resume", "by-rule").ok()
    file = planner.home / "sources.yaml"
    # A changed schedule causes another deployment, which in Prefect ends a pause.
    file.write_text(file.read_text().replace("0 7 * * 1-5", "30 8 * * *").replace("BYHOUR=6", "BYHOUR=9"))
    planner("down").ok()
    planner("up", "--detach").ok()
    until(lambda: planned("by-rule"), bool)
    assert planned("by-cron") == []
    planner("sync", "by-cron").refused(5, "paused")
    planner("sources", "resume", "by-cron").ok()
    runs = until(lambda: planned("by-cron"), bool)
    assert {run["at"][14:16] for run in runs} == {"30"}, "the new time is in force"


def test_the_health_page_of_the_ui_is_kept_up_to_date(planner: Person) -> None:
    def shown() -> list[dict[str, str]]:
        with api(planner.running) as client:
            query = {"artifacts": {"key": {"any_": ["health"]}}}
            found: list[dict[str, str]] = client.post("/artifacts/filter", json=query).raise_for_status().json()
            return found

    [page] = until(shown, bool)
    assert all(f"source {name}" in page["data"] for name in SCHEDULES)
    assert "/" not in page["data"].replace("logs/worker.log", "")


def test_up_reports_a_damaged_ledger_and_starts_no_process(tmp_path: Path) -> None:
    person = Person(tmp_path / "home")
    (tmp_path / "papers").mkdir()
    person("add", "local_files", tmp_path / "papers", "--name", "papers").ok()
    file = Home(person.home).path / "ledger.db"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    for options in ([], ["--detach"]):
        person("up", *options).refused(1, "ledger", "backup")
    assert person.left() == []
