"""The example packages, installed by pip: a calendar behind a login, the browser that is open, and an export of chats."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.acceptance.person import Person, upright, without_meaning
from tests.examples.packages import FOLDERS

pytest.importorskip("radicale")  # before the imports that need it

from tests.examples.calendar_server import PASSWORD, USER, CalendarServer
from tests.examples.test_browser import Firefox
from tests.examples.test_chat import chat, message, write

pytestmark = pytest.mark.acceptance


@pytest.fixture
def server(tmp_path: Path) -> Iterator[CalendarServer]:
    with closing(CalendarServer(tmp_path / "radicale")) as server:
        server.add_calendar("garden")
        for name in ("eggs", "tar", "varroa", "honey", "wax"):
            server.put(f"garden/{name}.ics", name, f"The day of {name}")
        yield server


@pytest.fixture
def person(tmp_path: Path) -> Person:
    """A user with the packages."""
    site = tmp_path / "site"
    for folder in FOLDERS:
        copy = shutil.copytree(folder, tmp_path / "packages" / folder.name)
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--no-compile",
            "--no-build-isolation",
            "--target",
            site,
            copy,
        ]
        subprocess.run(command, check=True)
    variables = {"PYTHONPATH": str(site), "CALENDAR_PASSWORD": PASSWORD, "WRONG": "dam"}
    return without_meaning(Person(tmp_path / "home", variables=variables))


def test_installed_packages_sync_their_sources(person: Person, server: CalendarServer, tmp_path: Path) -> None:
    profile, export = tmp_path / "profile", tmp_path / "export"
    for folder in (profile, export):
        folder.mkdir()
    write(export, chat(7, "Ada", message(1, "2026-11-01T09:00:00", "The weir is high")))
    calendar = ("add", "calendar", server.address, "--name", "dates", "--set", f"user={USER}")
    kinds = person("sources", "kinds").ok().out
    assert all(title in kinds for title in ("Calendar", "Browser", "Telegram export"))
    person(*calendar, "--secret", "password=env:WRONG", "--consent").refused(3, "login refused; correct it")

    with upright(person), closing(Firefox(profile)) as firefox:
        firefox.visit("https://example.org/sluice", "How to repair a sluice", "2026-11-01T09:30:00")
        person(*calendar, "--secret", "password=env:CALENDAR_PASSWORD", "--every", "1h", "--consent").ok()
        person("add", "browser", profile, "--name", "browser").ok()
        person("add", "telegram", export, "--name", "chats").ok()
        assert [person.sync(name)["succeeded"] for name in ("dates", "browser", "chats")] == [5, 1, 1]
        assert [hit["title"] for hit in person.hits("varroa")] == ["The day of varroa"]
        assert [hit["title"] for hit in person.hits("sluice")] == ["History: 2026-11-01"]
        assert [hit["title"] for hit in person.hits("weir")] == ["Ada, 2026-11"]
        assert server.requests.count("REPORT /ada/garden/") == 1

        firefox.visit("https://example.org/oak", "An oak", "2026-11-02T09:30:00")
        server.put("garden/eggs.ics", "eggs", "The day of many eggs")
        server.delete("garden/tar.ics")
        assert (summary := person.sync("dates"))["succeeded"] == 1, summary
        assert summary["deleted"] == 1
        assert person.sync("browser")["succeeded"] == 1
        assert person.sync("chats")["succeeded"] == 0
        assert person.hits("tar") == []

        (export / "result.json").write_text(json.dumps({"half": "an export"}))
        said = person("sync", "chats", "--wait")
        assert "no export of Telegram; export again, with the format JSON" in said.err
        assert len(person.hits("weir")) == 1
        server.close()
        assert "no answer (ConnectError); check address and network" in person("sync", "dates", "--wait").err
        assert len(person.documents("dates")) == 4
        person("consent", "revoke", "dates", "--yes").ok()
        assert person.documents("dates") == {}
        assert PASSWORD not in Path(person.home, "sources.yaml").read_text()
        logs = [data for name, data in person.files() if name.parts[0] == "logs"]
        assert logs
        assert not any(private in data for data in logs for private in (b"/garden", b"varroa", b"sluice", b"weir"))
