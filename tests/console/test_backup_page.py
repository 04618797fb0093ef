"""Backups on the page: made in the background, one at a time, and listed with the command that restores them."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from starlette.testclient import TestClient

from catchment.ledger import Ledger
from catchment.runtime import own_secrets
from catchment.runtime.home import Home
from catchment.runtime.process import identity
from catchment.runtime.reports.backup_status import BackupStatus
from catchment.views.backups import backups
from tests.console.test_page_actions import HOST, PORT, TOKEN, post, shown
from tests.waiting import until
from web.__main__ import desk_of
from web.app import application
from web.guard import Guard
from web.readiness import Readiness
from web.warm_library import WarmLibrary

if TYPE_CHECKING:
    from tests.console.conftest import Cli

DEAD = "1-1-1"


@pytest.fixture
def home(filled: Path) -> Home:
    home = Home(filled)
    home.run.mkdir(exist_ok=True)
    return home


@pytest.fixture
def client(home: Home) -> TestClient:
    """A browser that is signed in to the page of the home."""
    library = WarmLibrary(home, lambda _reason: None)
    web = application(library, Readiness(library, None), desk_of(home), TOKEN)
    client = TestClient(Guard(web.app, web.check, PORT), base_url=HOST, follow_redirects=False)
    client.get("/signin", params={"key": own_secrets.one_time_key(home.signin_keys)})
    return client


def running(home: Home, process: str) -> BackupStatus:
    """Record a backup that a process makes."""
    status = BackupStatus(process, datetime.now(UTC))
    status.write(home)
    return status


def test_backup_is_made_after_the_answer_and_is_listed(home: Home, client: TestClient) -> None:
    at, said = post(client, "backups.make")
    assert (at, "A backup is being made" in said) == ("/health", True)
    until(lambda: (status := BackupStatus.read(home)) and status.is_complete)
    [made] = backups(home).files
    page = shown(client, "/health")
    assert made.file.name in page
    assert f"catchment down &amp;&amp; catchment restore {made.file} &amp;&amp; catchment up --detach" in page
    with closing(Ledger.inspect(f"sqlite:///{made.file}")) as ledger:
        assert [source.name for source in ledger.sources.all()] == ["notes"]


def test_running_backup_is_shown_and_another_is_refused(home: Home, cli: Cli, client: TestClient) -> None:
    running(home, identity())
    assert "Being made" in shown(client, "/health")
    assert "another one is being made" in post(client, "backups.make", "/health")[1]
    response = cli("backup")
    assert (response.code, "another one is being made" in response.err) == (5, True)
    assert not home.backups.exists()


def test_killed_backup_is_shown_and_the_next_one_is_made(home: Home, cli: Cli, client: TestClient) -> None:
    running(home, DEAD)
    assert "Interrupted" in shown(client, "/health")
    assert cli("backup").code == 0
    assert "Interrupted" not in shown(client, "/health")


def test_failed_backup_says_why(home: Home, client: TestClient) -> None:
    home.backups.write_text("a file where the folder belongs")
    post(client, "backups.make")
    until(lambda: (status := BackupStatus.read(home)) and status.ended)
    assert "Failed" in shown(client, "/health")


def test_violated_invariant_of_a_copy_is_shown(home: Home, client: TestClient) -> None:
    status = running(home, identity())
    replace(status, ended=datetime.now(UTC), problem="invariant violated: <b>", is_complete=True).write(home)
    page = shown(client, "/health")
    assert "Complete, but" in page
    assert "violated: &lt;b&gt;" in page
