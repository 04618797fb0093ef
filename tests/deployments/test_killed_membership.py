"""`join` and `leave` killed between any two of their writes: the same command completes them, and no host stays behind."""

from __future__ import annotations

import json
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from sqlalchemy import create_engine, text

from catchment.ledger import Ledger
from catchment.model import Priority
from catchment.runtime.home import Home
from catchment.runtime.membership import Membership, own_login
from console.main import main
from deployments.server.client import Client
from deployments.server.environment import POOL
from tests.deployments.test_joining import LOGIN
from tests.faults.crashes import killing, listen, lived
from tests.postgres_server import PostgresServer, is_installed

pytestmark = pytest.mark.postgres

_QUEUES = f"/work_pools/{POOL}/queues"
_SOME = 5
_numbers = count(1)


@dataclass
class Prefect:
    """A stand-in of the Prefect server of all hosts, with its deployments and queues."""

    port: int = 0
    deployments: list[dict[str, Any]] = field(default_factory=list)
    queues: set[str] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def of(self, host: str) -> list[str]:
        """Return the names of a host's deployments and queues on the server."""
        rows = [row["name"] for row in self.deployments if f"host:{host}" in row["tags"]]
        return rows + [queue for queue in self.queues if queue == f"host-{host}"]

    def ship(self, host: str) -> None:
        """Create the deployments that `up` creates for each host."""
        for name in (f"embed-{host}", f"upkeep-{host}"):
            row = {"id": name, "name": name, "tags": [f"host:{host}"], "work_queue_name": f"host-{host}"}
            self.deployments.append(row)

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        match method, path:
            case "POST", "/deployments/filter":
                tags = set(body["deployments"]["tags"]["all_"])
                return 200, [row for row in self.deployments if tags <= set(row["tags"])]
            case "DELETE", _ if path.startswith("/deployments/"):
                kept = [row for row in self.deployments if row["id"] != path.rpartition("/")[2]]
                status = 204 if len(kept) < len(self.deployments) else 404
                self.deployments = kept
                return status, None
            case "POST", path if path == _QUEUES:
                self.queues.add(body["name"])
                return 201, {}
            case "GET" | "DELETE", _ if path.startswith(f"{_QUEUES}/"):
                name = unquote(path.rpartition("/")[2])
                is_there = name in self.queues
                if method == "DELETE":
                    self.queues.discard(name)
                return 200 if is_there else 404, {}
            case "GET", _ if path == f"/work_pools/{POOL}":
                return 404, {}
        return 200, {"lease_id": "lease"} if "lease" in path else "3.9.4"


@pytest.fixture
def prefect() -> Iterator[Prefect]:
    made = Prefect()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            has_login = "Authorization" in self.headers and not self.headers["Authorization"].endswith(" Og==")
            path = self.path.removeprefix("/api")
            status, answer = made.answer(self.command, path, json.loads(sent or "null")) if has_login else (401, {})
            body = b"" if status == 204 else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_DELETE = do_GET  # noqa: N815 - names required by http.server

        def log_message(self, *_: Any) -> None:
            """Write no log."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        listening.daemon_threads = True
        made.port = listening.server_address[1]
        threading.Thread(target=listening.serve_forever, args=(0.02,), daemon=True).start()
        yield made
        listening.shutdown()


@dataclass
class Hosts:
    """The hosts `attic` and `den` of a new library."""

    folder: Path
    postgres: str
    prefect: Prefect
    number: int

    @property
    def library(self) -> str:
        return self.postgres.replace("/postgres?", f"/library{self.number}?").replace("+psycopg", "")

    def home(self, name: str) -> Home:
        return Home(self.folder / f"{self.number}" / name)

    def run(self, name: str, *words: str, heard: Callable[[str], None] | None = None) -> tuple[int, str]:
        """Run a command of a host in a separate process. Return its exit code and its messages."""
        said = self.folder / "said"

        def work() -> None:
            os.environ["CATCHMENT_HOME"] = str(self.home(name).path)
            os.environ.pop("CATCHMENT_DATABASE_URL", None)
            with said.open("w", buffering=1) as output, redirect_stdout(output), redirect_stderr(output):
                if heard is not None:
                    _listen(heard)
                code = main(list(words))
            os._exit(code)

        end = lived(work, self.folder / "note")
        return end.code, said.read_text()

    def join(self, name: str, **options: Any) -> tuple[int, str]:
        login = ("--login", f"file:{self.folder / 'login'}")
        return self.run(name, "join", self.prefect.url, "--ledger", self.library, "--name", name, *login, **options)

    def names(self, name: str = "attic") -> list[str]:
        """Return the hosts that the ledger lists, as this home sees them."""
        with closing(Ledger.open(self.home(name))) as ledger:
            return [host.name for host in ledger.hosts.all()]

    def owns(self, name: str) -> bool:
        with closing(Ledger.open(self.home(name))) as ledger:
            return ledger.hosts.is_owned()

    def check_left(self, name: str) -> None:
        """Check that neither the home nor the server has anything left of this host."""
        home = self.home(name)
        assert (Membership.of(home), home.named_database) == (None, "")
        assert not home.authorities.exists() and not own_login(home).exists() and not home.raw.exists()
        assert self.prefect.of(name) == []


def _listen(heard: Callable[[str], None]) -> None:
    """Report each write of this process: files, commits and requests that change the server."""
    listen(heard)
    send = Client.request

    def sent(client: Client, method: str, path: str, **more: Any) -> Any:
        answer = send(client, method, path, **more)
        if not path.endswith("/filter"):
            heard(f"after {method} {path}")
        return answer

    Client.request = sent  # type: ignore[method-assign]


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """The address of a server with an empty ledger in the database `empty`."""
    if not is_installed():
        pytest.skip("PostgreSQL 15 is not installed")
    with tempfile.TemporaryDirectory(prefix="hosts-pg-") as folder:
        server = PostgresServer(Path(folder))
        server.start("-c", "fsync=off")
        _create(server.url, "empty")
        Ledger.open(server.url.replace("/postgres?", "/empty?")).close()
        yield server.url
        server.stop()


def _create(server: str, name: str, template: str = "template1") -> None:
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name} TEMPLATE {template}"))
    engine.dispose()


@pytest.fixture
def library(tmp_path: Path, prefect: Prefect, postgres: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Hosts]:
    """Return a function that makes a library with the host `attic`, and the home `den`."""
    monkeypatch.delenv("CATCHMENT_DATABASE_URL", raising=False)
    (tmp_path / "login").write_text(LOGIN)
    (tmp_path / "login").chmod(0o600)

    def make() -> Hosts:
        made = Hosts(tmp_path, postgres, prefect, next(_numbers))
        _create(postgres, f"library{made.number}", "empty")
        prefect.deployments.clear()
        prefect.queues.clear()
        for name in ("attic", "den"):
            made.home(name).path.mkdir(parents=True)
        assert made.join("attic")[0] == 0
        prefect.ship("attic")
        return made

    return make


def kills(library: Callable[[], Hosts], work: Callable[..., tuple[int, str]], *, every: bool) -> Iterator[Hosts]:
    """Yield libraries, in each of which this work was killed after another of its writes."""
    heard: list[str] = []
    file = library().folder / "heard"

    def write(moment: str) -> None:
        heard.append(moment)
        file.write_text(json.dumps(heard))

    code, said = work(library(), heard=write)
    assert code == 0, said
    moments = json.loads(file.read_text())
    points = [(name, moments[: place + 1].count(name)) for place, name in enumerate(moments)]
    killed = 0
    for name, occurrence in points if every else points[:: max(1, len(points) // _SOME)]:
        hosts = library()
        if work(hosts, heard=killing(name, occurrence))[0] == -9:
            killed += 1
            yield hosts
    assert killed >= 3, moments


EVERY = pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.long)])


def _joined_den(hosts: Hosts) -> None:
    assert hosts.join("den")[0] == 0
    hosts.prefect.ship("den")
    (hosts.home("den").raw).touch()
    hosts.home("den").authorities.write_text("-----BEGIN CERTIFICATE-----")


@EVERY
def test_killed_join_is_completed_by_the_next(library: Callable[[], Hosts], every: bool) -> None:
    for hosts in kills(library, lambda hosts, **more: hosts.join("den", **more), every=every):
        membership = Membership.of(hosts.home("den"))
        code, said = hosts.run("den", "up", "--detach") if membership and membership.problem else (5, "run it again")
        assert (code, "run it again" in said) == (5, True), said
        assert hosts.names() in (["attic"], ["attic", "den"])
        code, said = hosts.join("den")
        assert code == 0, said
        assert hosts.names() == ["attic", "den"]
        assert hosts.run("den", "status")[1].count("interrupted") == 0


@EVERY
def test_killed_join_is_taken_back_by_leave(library: Callable[[], Hosts], every: bool) -> None:
    for hosts in kills(library, lambda hosts, **more: hosts.join("den", **more), every=every):
        is_member = Membership.of(hosts.home("den")) is not None
        code, said = hosts.run("den", "leave")
        assert code == (0 if is_member else 4), said
        assert hosts.names() == ["attic"]
        if is_member:
            hosts.check_left("den")


@EVERY
def test_killed_leave_is_named_and_completed_by_the_next(library: Callable[[], Hosts], every: bool) -> None:
    def leave(hosts: Hosts, **more: Any) -> tuple[int, str]:
        _joined_den(hosts)
        return hosts.run("den", "leave", **more)

    for hosts in kills(library, leave, every=every):
        if membership := Membership.of(hosts.home("den")):
            if membership.problem:
                assert membership.problem in hosts.run("den", "status")[1]
                code, said = hosts.run("den", "up", "--detach")
                assert (code, "`catchment leave` was interrupted" in said) == (5, True), said
            code, said = hosts.run("den", "leave")
            assert (code, "the library of this home is" in said) == (0, True), said
        hosts.check_left("den")
        assert hosts.names() == ["attic"]
        assert hosts.prefect.of("attic")


@EVERY
def test_killed_leave_of_the_last_host_keeps_the_library(library: Callable[[], Hosts], every: bool) -> None:
    def leave(hosts: Hosts, **more: Any) -> tuple[int, str]:
        with closing(Ledger.open(hosts.home("attic"))) as ledger:
            ledger.sources.put("notes", "obsidian", Priority.NORMAL)
        return hosts.run("attic", "leave", **more)

    for hosts in kills(library, leave, every=every):
        if Membership.of(hosts.home("attic")):
            code, said = hosts.run("attic", "leave")
            assert (code, "library to itself" in said) == (0, True), said
        assert hosts.owns("attic") and hosts.names() == []
        assert hosts.prefect.of("attic") == []
        with closing(Ledger.open(hosts.home("attic"))) as ledger:
            assert [source.name for source in ledger.sources.all()] == ["notes"]


@EVERY
def test_killed_leave_does_not_keep_a_library_that_another_host_has(library: Callable[[], Hosts], every: bool) -> None:
    def leave(hosts: Hosts, **more: Any) -> tuple[int, str]:
        _joined_den(hosts)
        return hosts.run("den", "leave", **more)

    for hosts in kills(library, leave, every=every):
        if "den" in hosts.names():
            continue
        assert hosts.run("attic", "leave")[0] == 0
        hosts.run("den", "leave")
        hosts.check_left("den")
        assert hosts.owns("attic")


@EVERY
def test_killed_removal_of_a_host_is_completed_by_the_next(library: Callable[[], Hosts], every: bool) -> None:
    def take_out(hosts: Hosts, **more: Any) -> tuple[int, str]:
        _joined_den(hosts)
        return hosts.run("attic", "leave", "den", **more)

    for hosts in kills(library, take_out, every=every):
        is_done = not hosts.prefect.of("den") and hosts.names() == ["attic"]
        code, said = hosts.run("attic", "leave", "den")
        assert code == (4 if is_done else 0), said
        assert (hosts.names(), hosts.prefect.of("den")) == (["attic"], [])


def test_removed_host_does_not_clear_another_one_with_its_name(library: Callable[[], Hosts]) -> None:
    hosts = library()
    _joined_den(hosts)
    assert hosts.run("attic", "leave", "den")[0] == 0
    hosts.home("den").path.rename(hosts.folder / "old")
    hosts.home("den").path.mkdir()
    _joined_den(hosts)
    hosts.home("den").path.rename(hosts.folder / "new")
    (hosts.folder / "old").rename(hosts.home("den").path)
    code, said = hosts.run("den", "leave")
    assert code == 0, said
    assert set(hosts.prefect.of("den")) == {"embed-den", "upkeep-den", "host-den"}


def test_authority_of_the_kept_library_stays(library: Callable[[], Hosts]) -> None:
    hosts = library()
    home = hosts.home("attic")
    home.authorities.write_text("-----BEGIN CERTIFICATE-----")
    home.use_database(f"{hosts.library}&sslrootcert={home.authorities}")
    assert hosts.run("attic", "leave")[0] == 0
    assert home.authorities.exists() and hosts.owns("attic")


def test_source_that_the_file_does_not_have_keeps_its_host(library: Callable[[], Hosts]) -> None:
    hosts = library()
    _joined_den(hosts)
    row = {"id": "1", "name": "notes", "tags": ["source", "host:den"], "work_queue_name": "host-den"}
    hosts.prefect.deployments.append(row)
    with closing(Ledger.open(hosts.home("den"))) as ledger:
        ledger.sources.put("notes", "obsidian", Priority.NORMAL)
    code, said = hosts.run("den", "leave")
    assert (code, "notes run here" in said) == (5, True), said
    assert hosts.names() == ["attic", "den"]
    with closing(Ledger.open(hosts.home("den"))) as ledger:
        ledger.sources.remove("notes", "operator:ada", "")
    assert hosts.run("den", "leave")[0] == 0
    hosts.check_left("den")
