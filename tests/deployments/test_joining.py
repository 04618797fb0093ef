"""Joining a shared library: the checks before it, over TLS with a private authority, and the state after a refusal."""

from __future__ import annotations

import json
import ssl
import threading
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from catchment.errors import BadInput, CatchmentError, ConfigError, LoginFailed, Refused, TryAgain
from catchment.ledger import Ledger
from catchment.model import Priority
from catchment.runtime.home import Home
from catchment.runtime.membership import Membership, shipped_name
from console.main import main
from deployments.actions.hosts import JoinRequest, join
from deployments.actions.hosts.joining import _protected
from deployments.server.client import ServerUnreachable, api, checks
from deployments.server.environment import auth_string, child_environment
from deployments.server.running import shared_server, supervisor_lock
from tests.connectors.imap.certificates import Certified, authority, certificate
from web.__main__ import desk_of

LOGIN = "admin:secret"
LEDGER = "postgresql:///library?host=/nowhere"


@dataclass
class SharedServer:
    """A stand-in of the Prefect server of all hosts, behind a certificate for `localhost`."""

    port: int
    authority: Path
    version: str = "3.9.4"
    needs_login: bool = True
    refused: list[str] = field(default_factory=list)
    """Paths that are answered with status 500."""
    received: list[Any] = field(default_factory=list)
    """The events that it received."""

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}"


@pytest.fixture(scope="module")
def ours() -> Certified:
    return authority("Our authority", is_complete=True)


@pytest.fixture
def server(ours: Certified, tmp_path: Path) -> Iterator[SharedServer]:
    of_server = certificate(ours, "localhost")
    (tmp_path / "server.pem").write_bytes(of_server.key_pem + of_server.pem)
    (tmp_path / "ours.pem").write_bytes(ours.pem)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            known = self.headers.get("Authorization") == f"Basic {b64encode(LOGIN.encode()).decode()}"
            path = self.path.removeprefix("/api")
            shared.received += json.loads(content) if path == "/events" else []
            self.send_response(500 if path in shared.refused else 401 if shared.needs_login and not known else 200)
            answer: Any = {"lease_id": "lease"} if "lease" in path else shared.version
            body = json.dumps(answer).encode()
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815 - a name required by http.server

        def log_message(self, *_: Any) -> None:
            """Write no log."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem")

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Clients break off handshakes here."""

    with Server(("127.0.0.1", 0), Handler) as listening:
        listening.socket = context.wrap_socket(listening.socket, server_side=True, do_handshake_on_connect=False)
        shared = SharedServer(listening.server_address[1], tmp_path / "ours.pem")
        threading.Thread(target=listening.serve_forever, args=(0.02,), daemon=True).start()
        yield shared
        listening.shutdown()


@pytest.fixture
def joined(home: Home, server: SharedServer, tmp_path: Path) -> Home:
    """A home that joined."""
    (tmp_path / "login").write_text(f"{LOGIN}\n")
    (tmp_path / "login").chmod(0o600)
    home.authorities.write_bytes(server.authority.read_bytes())
    Membership("attic", server.url, f"file:{tmp_path / 'login'}", takes_any=True).record(home)
    return home


def test_membership_is_read_as_it_was_recorded(joined: Home, server: SharedServer) -> None:
    membership = Membership.of(joined)
    assert membership is not None
    assert (membership.name, membership.server, membership.takes_any) == ("attic", server.url, True)
    assert membership.queues == ("host-attic", "any")
    assert shipped_name(joined, "embed") == "embed-attic"
    assert joined.membership.stat().st_mode & 0o777 == 0o600
    assert LOGIN not in joined.membership.read_text()
    joined.membership.write_text("name: attic\n")
    with pytest.raises(ConfigError, match="run `catchment join` again"):
        Membership.of(joined)


def test_joined_host_asks_the_shared_server(joined: Home, server: SharedServer) -> None:
    environment = child_environment(joined, port=0, auth=auth_string(joined))
    assert environment["PREFECT_API_URL"] == f"{server.url}/api"
    assert environment["PREFECT_API_AUTH_STRING"] == LOGIN
    assert environment["PREFECT_API_SSL_CERT_FILE"] == str(joined.authorities)
    assert not {name for name in environment if name.startswith("PREFECT_SERVER_API")} - {"PREFECT_SERVER_API_HOST"}


def test_checks_leave_one_event_in_the_feed(joined: Home, server: SharedServer) -> None:
    membership = Membership.of(joined)
    assert membership is not None
    for _ in range(3):
        checks(shared_server(joined, membership))["events"]()
    assert len({event["id"] for event in server.received}) == 1, "Redis and PostgreSQL keep one event of an ID"


def test_client_trusts_the_authority_of_the_host_and_no_other(joined: Home, server: SharedServer) -> None:
    membership = Membership.of(joined)
    assert membership is not None
    state = shared_server(joined, membership)
    with api(state) as client:
        assert client.get("/admin/version").json() == "3.9.4"
    by_address = replace(state, server=f"https://127.0.0.1:{server.port}")
    refused = r"certificate refused \(IP address mismatch.*--ca FILE"
    with api(by_address) as client, pytest.raises(ServerUnreachable, match=refused):
        client.get("/admin/version")
    joined.authorities.write_bytes(authority("Another").pem)
    for stranger in (state, replace(state, authorities="")):
        with api(stranger) as client, pytest.raises(ServerUnreachable, match="certificate refused"):
            client.get("/admin/version")


def refusal(home: Home, request: JoinRequest, login: str = LOGIN) -> CatchmentError:
    """Return the refusal of a join, which leaves no membership."""
    before = home.database_url
    with pytest.raises(CatchmentError) as refused:
        join(desk_of(home), request, "operator:anna", ask=lambda: login, warn=pytest.fail)
    assert (Membership.of(home), home.database_url) == (None, before)
    return refused.value


def test_join_refuses_connections_that_others_could_read(home: Home) -> None:
    for url, ledger, word in (
        ("http://nas.lan", LEDGER, "https://"),
        ("https://nas.lan", "postgresql://me@nas.lan/library", "sslmode=verify-full"),
        ("https://nas.lan", "postgresql://me@nas.lan/library?sslmode=require", "sslmode=verify-full"),
    ):
        error = refusal(home, JoinRequest(url, ledger, "attic"))
        assert isinstance(error, Refused) and word in str(error), (url, ledger)
    for url, ledger, name in (
        ("nas.lan", LEDGER, "attic"),
        ("https://nas.lan", "sqlite:////tmp/ledger.db", "attic"),
        ("https://nas.lan", LEDGER, "any"),
        ("https://nas.lan", LEDGER, "The attic"),
    ):
        assert isinstance(refusal(home, JoinRequest(url, ledger, name)), BadInput), (url, ledger, name)


def test_ledger_is_verified_by_the_authority_of_the_host(tmp_path: Path) -> None:
    url = "postgresql://me@nas.lan/library?sslmode=verify-full"
    assert _protected(url, tmp_path / "a.pem") == f"{url}&sslrootcert={tmp_path}/a.pem"
    own = f"{url}&sslrootcert=system"
    assert _protected(own, tmp_path / "a.pem") == own
    assert _protected(LEDGER, tmp_path / "a.pem") == LEDGER


def test_join_refuses_a_server_on_which_hosts_cannot_work(home: Home, server: SharedServer) -> None:
    request = JoinRequest(f"{server.url}/api/", LEDGER, "attic", authority=server.authority)
    assert isinstance(refusal(home, request, "admin:wrong"), LoginFailed)
    assert "empty" in str(refusal(home, request, "admin:"))
    assert "certificate refused" in str(refusal(home, replace(request, authority=None)))
    server.refused = ["/events"]
    assert "Redis" in str(refusal(home, request))
    server.refused = ["/v2/concurrency_limits/increment-with-lease"]
    error = refusal(home, request)
    assert isinstance(error, TryAgain) and "Redis" in str(error)
    server.version = "3.4.0"
    assert "Prefect 3.4.0, but hosts need Prefect 3.9.x" in str(refusal(home, request))
    server.needs_login = False
    assert "requires no login" in str(refusal(home, request))


def test_join_refuses_a_home_that_runs_or_has_a_library(home: Home, server: SharedServer) -> None:
    request = JoinRequest(server.url, LEDGER, "attic", authority=server.authority)
    with supervisor_lock(home):
        assert "catchment down" in str(refusal(home, request))
    ledger = Ledger.open(home)
    ledger.sources.put("notes", "obsidian", Priority.NORMAL)
    ledger.close()
    assert "catchment ledger move" in str(refusal(home, request))


def test_commands_of_hosts_need_a_membership(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    for words, code in (
        (["leave"], 4),
        (["leave", "attic"], 4),
        (["hosts"], 0),
        (["join", "https://nas.lan", "--ledger", LEDGER, "--also", "mail"], 2),
        (["join", "https://nas.lan", "--ledger", LEDGER, "--login", "block:login"], 2),
    ):
        assert main(words) == code, words
    assert "catchment join" in capsys.readouterr().err
