"""Two hosts on one Prefect server with one library: where sources run, how they move, and how a dead host is replaced."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest

from catchment.runtime.home import Home
from deployments.server.client import api, everything
from deployments.server.environment import child_environment
from deployments.server.prefect_database import prepare
from deployments.server.running import Running
from tests.acceptance.person import Person
from tests.postgres_server import PostgresServer, is_installed
from tests.waiting import until

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.long,
    pytest.mark.skipif(
        os.geteuid() != 0 or not is_installed(), reason="needs root for a second boot, and PostgreSQL 15"
    ),
]

_LOGIN = "hosts:a-login-of-the-tests"
_OTHER_BOOT = (
    "unshare",
    "-m",
    "sh",
    "-c",
    'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"',
)
"""Runs a command as on another machine: with another boot, so that no process of this one counts as local."""


class Site:
    """A web site with one page, which does not end while `gate` is closed."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.asked = threading.Event()
        site = self

        class Pages(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                is_page = self.path.startswith("/page")
                self.send_response(200 if is_page else 404)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                if is_page:
                    site.asked.set()
                    # Slow, but not so silent that the connector gives up.
                    while not site.gate.wait(0.5):
                        self.wfile.write(b" ")
                    self.wfile.write(b"<title>Page</title><p>A walrus sleeps on the floe.</p>")

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
        self.address = f"http://127.0.0.1:{self._server.server_port}/page"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.gate.set()
        self._server.shutdown()


@dataclass(frozen=True)
class Together:
    """The hosts `attic` and `barn`, both of which take any source; `barn` has another boot."""

    attic: Person
    barn: Person
    site: Site
    server: Running

    def deployments(self) -> dict[str, dict[str, Any]]:
        """Return the deployments on the server, by name."""
        with api(self.server) as client:
            return {row["name"]: row for row in everything(client, "deployments", {})}

    def runs(self, source: str) -> list[dict[str, Any]]:
        """Return the runs of a source, newest first, without planned ones."""
        query = {
            "deployments": {"name": {"any_": [source]}},
            "flow_runs": {"expected_start_time": {"before_": datetime.now(UTC).isoformat()}},
            "sort": "EXPECTED_START_TIME_DESC",
        }
        with api(self.server) as client:
            rows: list[dict[str, Any]] = client.post("/flow_runs/filter", json=query).raise_for_status().json()
        return rows

    def states(self, source: str) -> list[str]:
        """Return the states of the runs of a source, newest first."""
        return [run["state_name"] for run in self.runs(source)]


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Together]:
    folder = tmp_path_factory.mktemp("hosts")
    # The user of PostgreSQL cannot enter the folders of pytest.
    of_database = Path(tempfile.mkdtemp(prefix="hosts-pg-"))
    database = PostgresServer(of_database)
    database.start("-c", "fsync=off")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        server = _prefect(folder / "server", listening, port)
    site = Site()
    (folder / "boot").write_text("00000000-0000-4000-8000-000000000001\n")
    attic = Person(folder / "attic")
    barn = Person(folder / "barn", (*_OTHER_BOOT, str(folder / "boot")))
    (folder / "login").write_text(_LOGIN)
    (folder / "login").chmod(0o600)
    try:
        address, login = f"http://127.0.0.1:{port}", f"file:{folder / 'login'}"
        ledger = database.url.replace("+psycopg", "")
        for person in (attic, barn):
            join = ("join", address, "--ledger", ledger, "--name", person.home.name, "--also", "any", "--login", login)
            until(partial(person, *join), lambda said: said.code != 10).ok()
        for person in (attic, barn):
            person("up", "--detach").ok()
            notes = folder / f"notes-{person.home.name}"
            notes.mkdir()
            (notes / "a.txt").write_text(f"The {person.home.name} has a ladder.")
        attic("add", "local_files", folder / "notes-attic", "--name", "notes", "--every", "1h").ok()
        attic("add", "web", site.address, "--name", "page", "--consent", "--on", "any").ok()
        barn("add", "local_files", folder / "notes-barn", "--name", "tools").ok()
        yield Together(attic, barn, site, Running(port, 0, datetime.now(UTC), 0, 0, _LOGIN))
    finally:
        for person in (attic, barn):
            person("down")
        site.close()
        server.terminate()
        server.wait()
        database.stop()
        shutil.rmtree(of_database)


def _prefect(folder: Path, listening: socket.socket, port: int) -> subprocess.Popen[bytes]:
    """Start a Prefect server as `up` does: a stock one on SQLite refuses requests while others write."""
    prepare(Home(folder).make())
    environment = child_environment(Home(folder), port=port, auth=_LOGIN)
    command = (sys.executable, "-P", "-m", "deployments.server.app", str(listening.fileno()))
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log, pass_fds=[listening.fileno()])


def _places(person: Person) -> dict[str, str]:
    """Return the host of each source, as the worker last reported it."""
    lines = person("sources", "list", "--json").ok().json
    return {line["standing"]["name"]: line["standing"]["on"] for line in lines}


def test_sources_run_where_they_can(together: Together) -> None:
    """Files run on the host that has them, a web page anywhere; each host deploys and deletes its own only."""
    attic, barn = together.attic, together.barn
    notes, tools = attic.home.parent / "notes-attic", attic.home.parent / "notes-barn"
    attic("add", "local_files", notes, "--name", "more", "--on", "any").refused(2, "root", "one machine")
    attic("add", "local_files", notes, "--name", "more", "--on", "barn").refused(5, "run the command on barn")
    barn("add", "local_files", tools, "--name", "notes").refused(5, "attic")
    barn("sources", "remove", "notes", "--yes").refused(5, "attic")

    for person, name in ((attic, "notes"), (barn, "tools"), (barn, "page")):
        person("up", "--detach").ok()
        assert person.sync(name)["succeeded"]
    found = together.deployments()
    assert {name: row["work_queue_name"] for name, row in found.items()} == {
        "notes": "host-attic",
        "page": "any",
        "tools": "host-barn",
        "embed-attic": "host-attic",
        "recognize-attic": "host-attic",
        "recognize-barn": "host-barn",
        "upkeep-attic": "host-attic",
        "embed-barn": "host-barn",
        "upkeep-barn": "host-barn",
    }
    assert "host:attic" in found["page"]["tags"]
    until(lambda: _places(barn), lambda places: places == {"tools": "barn", "notes": "attic", "page": "any"})
    runs = together.runs("page")
    assert [run["state_name"] for run in runs] == ["Completed"]
    assert runs[0]["labels"]["catchment.host"] in ("attic", "barn")


def test_killed_host_is_replaced_where_possible(together: Together) -> None:
    """The other host continues the sync of an `any` source; the dead host's own sources wait until they are moved."""
    site = together.site
    # A separate page: the page of the first test is not due again.
    address = f"{site.address}?slow"
    together.attic("add", "web", address, "--name", "slow", "--consent", "--on", "any").ok()
    site.gate.clear()
    site.asked.clear()
    together.attic("sync", "slow").ok()
    assert site.asked.wait(120)
    dead = together.runs("slow")[0]["labels"]["catchment.host"]
    lost, left = (together.attic, together.barn) if dead == "attic" else (together.barn, together.attic)
    alive, waiting, untouched = left.home.name, *(("notes", "tools") if dead == "attic" else ("tools", "notes"))
    before = together.runs(untouched)
    supervisor = psutil.Process(lost.running.pid)
    for process in (supervisor, *supervisor.children(recursive=True)):
        process.kill()
    site.gate.set()
    left("sync", waiting).ok()

    until(lambda: together.states("slow"), lambda seen: seen[:2] == ["Completed", "Interrupted"], seconds=180)
    assert together.runs("slow")[0]["labels"]["catchment.host"] == alive
    assert together.states(waiting)[0] in ("Scheduled", "Late")
    assert together.runs(untouched) == before

    left("sources", "move", waiting, "--to", dead).refused(5, f"run the command on {dead}")
    left("sources", "move", waiting, "--to", "any").refused(2, "root")
    left("sources", "move", waiting, "--to", alive).ok()
    until(lambda: together.states(waiting)[0], lambda state: state == "Completed")
    until(lambda: _places(left)[waiting], lambda place: place == alive)

    said = lost("up", "--detach").ok()
    assert f"{waiting}: moved to host {alive}" in said.out + said.err
    assert f"name: {waiting}" not in (lost.home / "sources.yaml").read_text()
    assert together.states("slow")[:2] == ["Completed", "Interrupted"]
    assert together.deployments()[waiting]["work_queue_name"] == f"host-{alive}"
