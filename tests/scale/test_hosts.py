"""Two hosts, two databases and two Prefect servers: no failure causes loss or repeated work."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from deployments.server.client import api, everything
from tests.acceptance.person import Person
from tests.connectors.imap.dovecot import PASSWORD, USER, Dovecot, message, serving
from tests.connectors.web.server import Page, SmallWeb
from tests.faults.clock import WallClock
from tests.scale.machine import Machine
from tests.scale.stack import Stack
from tests.waiting import until

pytestmark = [pytest.mark.scale, pytest.mark.long]

_FEEDS, _ENTRIES = ("feed-0", "feed-1", "feed-2", "feed-3"), 12
_BOUND = {"attic": 8, "barn": 7}
"""Folders and vaults on the disk of each host. With four feeds, a mailbox and the journal there are 21 sources."""
_FILES = 10


@dataclass
class Library:
    """The hosts, and the sites and files that they read."""

    stack: Stack
    attic: Machine
    barn: Machine
    web: SmallWeb
    clock: WallClock
    proof: Any
    hits: list[dict[str, Any]]

    @property
    def hosts(self) -> tuple[Machine, Machine]:
        return self.attic, self.barn

    def other(self, host: Machine) -> Machine:
        return self.barn if host is self.attic else self.attic

    def add_feed(self, name: str, seconds: float) -> None:
        """Add a feed of 12 entries as a source that any host may sync; each page takes so many seconds."""
        address = _publish(self.web, name, seconds)
        self.attic.person(*_adding_feed(name, address)).ok()

    def executor_of(self, source: str) -> Machine:
        """Wait until a host has opened a sync of the source, and return the host."""
        opened = (
            "select h.name from syncs y join sources s on s.id = y.source_id"
            " join hosts h on y.owner like h.boot || ':%' where y.outcome is null and s.name = "
        )
        [(name,)] = until(lambda: self.stack.asked(f"{opened}'{source}'"), seconds=60)
        return next(host for host in self.hosts if host.name == name)

    def delivered_twice(self) -> list[tuple[int, str]]:
        """The items of which a version was delivered more than once."""
        return self.stack.asked(
            "select j.item_id, j.version from history h join jobs j on j.id = h.job_id where h.event = 'succeeded'"
            " group by j.item_id, j.version having count(*) > 1"
        )

    def documents(self) -> dict[str, int]:
        """The visible documents of each source."""
        rows = self.stack.asked(
            "select s.name, count(*) from items i join sources s on s.id = i.source_id"
            " where i.state = 'present' group by s.name"
        )
        return dict(rows)


@pytest.fixture(scope="module")
def dovecot() -> Iterator[Dovecot]:
    """A mailbox with three messages."""
    serve = serving()
    server = next(serve)
    with server.person() as person:
        for number in range(3):
            person.append("INBOX", message(number, f"Letter {number}"))
    yield server
    serve.close()


@pytest.fixture(scope="module")
def library(stack: Stack, dovecot: Dovecot, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    """A library that began on SQLite on one machine, moved to PostgreSQL and shared by two."""
    folder = tmp_path_factory.mktemp("hosts")
    clock = WallClock.make(folder)
    attic, barn = Machine("attic", folder / "attic"), Machine("barn", folder / "barn", clock.variables)
    try:
        with SmallWeb() as web:
            proof, hits = _begin_alone(attic.person, attic.folder)
            attic.person("ledger", "move", stack.ledger).ok()
            attic.follow(stack, "Join the first machine")
            _write_notes(barn.folder / "Journal")
            (barn.folder / "Journal" / ".obsidian").mkdir()
            barn.follow(stack, "Join another machine")
            yield Library(stack, attic, barn, web, clock, proof, hits)
    finally:
        for host in (attic, barn):
            host.person("down")
            host.switch_off()


def _begin_alone(person: Person, folder: Path) -> tuple[Any, list[dict[str, Any]]]:
    """Sync a folder in a home with a SQLite ledger and a separate server; return its proof and the hits of a search."""
    _write_notes(folder / "attic-0")
    person("model", "off").ok()
    person("add", "local_files", folder / "attic-0", "--name", "attic-0").ok()
    person("up", "--detach").ok()
    person.sync("attic-0")
    found = person("prove", "attic-0", "--json").ok().json, _hits(person)
    person("down").ok()
    return found


def _write_notes(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(_FILES):
        (folder / f"{number}.md").write_text(f"# Note {number}\n\nThe quokka of {folder.name} eats leaf {number}.\n")


def _publish(web: SmallWeb, name: str, seconds: float = 0) -> str:
    """Publish a feed; return its address."""
    [host] = web.hosts
    entries = []
    for number in range(_ENTRIES):
        text = f"<html><title>{name} {number}</title><body><p>Wombat {number} of {name}.</p></body></html>"
        path = f"/{name}/{number}.html"
        host.pages[path] = Page(text.encode(), delay=seconds)
        address = host.address(path)
        entries.append(f"<item><title>{number}</title><link>{address}</link><guid>{address}</guid></item>")
    text = f"<rss version='2.0'><channel><title>{name}</title>{''.join(entries)}</channel></rss>"
    return host.put(f"/{name}/feed.xml", text, "application/rss+xml")


def _adding_feed(name: str, address: str) -> list[str]:
    return ["add", "web", address, "--name", name, "--set", "every_seconds=0.05", "--consent"]


def _hits(person: Person, *filters: str) -> list[dict[str, Any]]:
    """Return the hits without the score of the words, which each database computes in its own way."""
    return [{**hit, "lexical_score": None} for hit in person.hits("quokka", *filters)]


def _add_sources(library: Library, dovecot: Dovecot) -> None:
    with api(library.attic.person.running) as client:
        kind = client.get("/block_types/slug/secret").raise_for_status().json()["id"]
        query = {"block_schemas": {"block_type_id": {"any_": [kind]}}}
        schema = client.post("/block_schemas/filter", json=query).raise_for_status().json()[0]["id"]
        block = {"name": "mail", "block_type_id": kind, "block_schema_id": schema, "data": {"value": PASSWORD}}
        client.post("/block_documents/", json=block).raise_for_status()
    account = f"{USER}@127.0.0.1:{dovecot.port}"
    mail = ["add", "imap", account, "--name", "mail", "--set", "security=none", "--consent"]
    anywhere = [[*mail, "--secret", "password=block:mail"]]
    for name in _FEEDS:
        anywhere.append(_adding_feed(name, _publish(library.web, name)))

    def add(host: Machine) -> None:
        for words in anywhere if host is library.attic else ():
            host.person(*words).ok()
        for number in range(_BOUND[host.name]):
            name = f"{host.name}-{number}"
            if name != "attic-0":
                kind = "local_files" if number % 3 else "obsidian"
                _write_notes(host.folder / name)
                (host.folder / name / ".obsidian").mkdir()
                host.person("add", kind, host.folder / name, "--name", name).ok()

    with ThreadPoolExecutor() as both:
        list(both.map(add, library.hosts))


def _require_whole(library: Library, *names: str) -> None:
    """Check that the ledger is sound, that no run is left without an executor, and that sources equal their documents."""
    until(library.barn.person.seem_to_run, lambda runs: not runs, seconds=90)
    library.attic.person("ledger", "check").ok()
    assert library.delivered_twice() == []
    for name in names:
        host = library.barn if name.startswith("barn") else library.attic
        assert host.person("prove", name, "--json").ok().json["holds"]


def test_moved_library_is_equal_on_both_hosts(library: Library) -> None:
    assert library.attic.person("prove", "attic-0", "--json").ok().json == library.proof
    for host in library.hosts:
        assert _hits(host.person, "attic-0") == library.hits
    assert [host["state"] for host in library.barn.person("hosts", "--json").ok().json] == ["active", "active"]


def test_many_sources_are_synced_once_and_wholly(library: Library, dovecot: Dovecot) -> None:
    _add_sources(library, dovecot)
    with ThreadPoolExecutor() as both:
        said = list(both.map(lambda host: host.person("sync", "--all", "--wait"), library.hosts))
    assert [each.code for each in said] == [0, 0], said
    bound = {f"{host}-{number}": _FILES for host, number in _BOUND.items() for number in range(number)}
    found = library.documents()
    assert {name: found[name] for name in bound} == bound
    assert {name: found[name] for name in _FEEDS} == dict.fromkeys(_FEEDS, _ENTRIES)
    assert (found["mail"], len(found)) == (3, 21)
    assert library.stack.asked("select count(*) from syncs where outcome = 'crashed'") == [(0,)]
    _require_whole(library)


def test_sources_of_a_killed_host_go_on_elsewhere(library: Library) -> None:
    library.add_feed("killed", 1.5)
    library.attic.person("sync", "killed").ok()
    killed = library.executor_of("killed")
    other = library.other(killed)
    killed.switch_off()
    until(lambda: _outcome(library, "killed"), lambda found: found[0] != "crashed" and found[1] == 1, seconds=90)
    until(lambda: _outcome(library, "killed"), lambda found: found == ("completed", 1), seconds=90)
    assert library.documents()["killed"] == _ENTRIES
    waiting = f"{killed.name}-0"
    other.person("sync", waiting)
    until(lambda: other.person("status").out, lambda text: killed.name in text and "not answer" in text, seconds=60)
    shown = {host["name"]: host for host in other.person("hosts", "--json").ok().json}
    assert (shown[killed.name]["state"], shown[other.name]["state"]) == ("silent", "active")
    assert waiting in shown[killed.name]["sources"]
    killed.switch_on()
    killed.person("up", "--detach").ok()
    killed.person("sync", waiting, "--wait").ok()
    _require_whole(library, "killed", waiting)


def _outcome(library: Library, source: str) -> tuple[str | None, int]:
    """The outcome of the last sync of a source (None while it runs), and how many of the last two were interrupted."""
    rows = library.stack.asked(
        "select y.outcome from syncs y join sources s on s.id = y.source_id"
        f" where s.name = '{source}' order by y.id desc limit 2"
    )
    return rows[0][0], sum(outcome == "crashed" for (outcome,) in rows)


def test_suspended_host_writes_nothing_when_it_continues(library: Library) -> None:
    library.add_feed("suspended", 1.5)
    library.attic.person("sync", "suspended").ok()
    suspended = library.executor_of("suspended")
    with suspended.suspended():
        until(lambda: _outcome(library, "suspended"), lambda found: found == ("completed", 1), seconds=180)
        assert library.documents()["suspended"] == _ENTRIES
        [(closed,)] = library.stack.asked("select max(id) from syncs where outcome = 'crashed'")
        rows = f"select count(*) from history where sync_id = {closed}"
        before = library.stack.asked(rows)
    until(lambda: not library.other(suspended).person("hosts", "--json").ok().json[0]["problem"])
    time.sleep(10)
    assert library.stack.asked(rows) == before
    until(lambda: {host["state"] for host in library.attic.person("hosts", "--json").ok().json}, {"active"}.__eq__)
    _require_whole(library, "suspended", f"{suspended.name}-0")


def test_clock_of_one_host_an_hour_ahead_moves_nothing(library: Library) -> None:
    [(before,)] = library.stack.asked("select max(ended_at) from syncs")
    library.clock.set(1)
    try:
        library.add_feed("early", 0)
        for name in ("early", "barn-1"):
            library.barn.person("sync", name, "--wait").ok()
        library.attic.person("sync", "attic-1", "--wait").ok()
        states = [host["state"] for host in library.attic.person("hosts", "--json").ok().json]
        [(after,)] = library.stack.asked("select max(ended_at) from syncs")
    finally:
        library.barn.person("down").ok()
        library.clock.set(0)
        library.barn.person("up", "--detach").ok()
    assert states == ["active", "active"]
    assert 0 < after - before < timedelta(minutes=10) / timedelta(microseconds=1)
    _require_whole(library, "early")


def test_killed_prefect_server_is_replaced_by_the_other(library: Library) -> None:
    library.stack.kill("api-1")
    for host in library.hosts:
        (host.folder / f"{host.name}-0" / "more.md").write_text("# More\n\nWritten while a server is away.\n")
        host.person.sync_when_ready(f"{host.name}-0")
    library.stack.begin("api-1")
    until(lambda: library.stack.answers("api-1"))
    assert {library.documents()[f"{host.name}-0"] for host in library.hosts} == {_FILES + 1}
    _require_whole(library)


def test_syncs_continue_after_redis_and_postgresql_were_away(library: Library) -> None:
    library.add_feed("patient", 0.5)
    library.barn.person("sync", "patient").ok()
    library.executor_of("patient")
    library.stack.kill("redis")
    time.sleep(30)
    library.stack.begin("redis")
    library.stack.kill("postgres", signal.SIGINT)
    library.stack.begin("postgres")
    for name, host in (("patient", library.barn), ("attic-2", library.attic)):
        host.person.sync_when_ready(name)
    until(lambda: {host["state"] for host in library.barn.person("hosts", "--json").ok().json}, {"active"}.__eq__)
    _require_whole(library, "patient")


def test_withdrawn_consent_is_complete_when_each_host_has_deleted(library: Library) -> None:
    library.barn.person("down").ok()
    attic = library.attic.person
    assert attic("consent", "revoke", "mail", "--yes", "--json").ok().json["hosts"] == ["barn"]
    assert "barn" in attic("consent", "show", "mail").out
    library.barn.person("up", "--detach").ok()
    until(lambda: attic("consent", "show", "mail").out, lambda text: "barn" not in text, seconds=90)
    assert "mail" not in library.documents()


def test_stock_worker_executes_a_source_of_no_host(library: Library) -> None:
    library.add_feed("stock", 0)
    person = library.attic.person
    running = person.running
    for host in library.hosts:
        host.person("down").ok()
    environment = {
        **person.environment,
        "PREFECT_API_URL": f"{library.stack.server}/api",
        "PREFECT_API_AUTH_STRING": library.stack.login,
        "PREFECT_API_SSL_CERT_FILE": str(library.stack.authority),
        "PREFECT_HOME": str(library.attic.folder / "prefect"),
        "PREFECT_CLIENT_CSRF_SUPPORT_ENABLED": "false",
    }
    with api(running) as client:
        [deployment] = everything(client, "deployments", {"deployments": {"name": {"any_": ["stock"]}}})
        run = client.post(f"/deployments/{deployment['id']}/create_flow_run", json={}).raise_for_status().json()
    prefect = person.command.with_name("prefect")
    command = [
        prefect,
        "worker",
        "start",
        "--pool",
        "catchment",
        "--work-queue",
        "any",
        "--type",
        "process",
        "--run-once",
    ]
    done = subprocess.run(
        [*person.before, *command], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with api(running) as client:
        assert client.get(f"/flow_runs/{run['id']}").json()["state_type"] == "COMPLETED", done.stdout
