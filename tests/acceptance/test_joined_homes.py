"""Two homes join one Prefect server and one PostgreSQL, work side by side, and leave."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.acceptance.person import Person
from tests.postgres_server import PostgresServer
from tests.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.postgres, pytest.mark.long]

LOGIN = "admin:a shared secret"


@pytest.fixture
def library() -> Iterator[str]:
    """The address of an empty database."""
    with tempfile.TemporaryDirectory(prefix="hosts-pg-") as folder:
        postgres = PostgresServer(Path(folder))
        postgres.start("-c", "fsync=off")
        yield postgres.url.replace("postgresql+psycopg", "postgresql")
        postgres.stop()


@pytest.fixture
def prefect(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Prefect's own server, started as in its documentation, and its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    settings = {"PREFECT_HOME": str(tmp_path / "prefect"), "PREFECT_SERVER_API_AUTH_STRING": LOGIN}
    command = [
        str(Path(sys.executable).with_name("prefect")),
        "server",
        "start",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    with (tmp_path / "prefect.log").open("wb") as log:
        process = subprocess.Popen(command, env={**kept, **settings}, stdout=log, stderr=log)
    try:
        until(lambda: _answers(port), bool)
        yield process, f"http://127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        process.wait()


def _answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/api/health", trust_env=False).is_success
    except httpx.HTTPError:
        return False


def test_two_homes_share_a_library_and_leave_it(
    tmp_path: Path, library: str, prefect: tuple[subprocess.Popen[bytes], str]
) -> None:
    (tmp_path / "login").write_text(LOGIN)
    (tmp_path / "login").chmod(0o600)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "New.md").write_text("# New\n\nThe quokka is here.\n")
    attic, den = Person(tmp_path / "attic"), Person(tmp_path / "den")
    server, url = prefect
    ways = ("join", url, "--ledger", library, "--login", f"file:{tmp_path / 'login'}")

    attic(*ways, "--name", "attic").ok()
    den(*ways, "--name", "attic").refused(5, "another host has this name")
    den("hosts").ok()
    assert not (den.home / "join.yaml").exists()
    den(*ways, "--name", "den", "--also", "any").ok()
    den(*ways, "--name", "den").ok()
    assert LOGIN not in (den.home / "join.yaml").read_text()

    for person in (attic, den):
        assert url in person("up", "--detach").ok().out
    assert {host["name"]: host["state"] for host in den("hosts", "--json").ok().json} == {
        "attic": "active",
        "den": "active",
    }
    attic("add", "local_files", str(tmp_path / "notes"), "--name", "notes").ok()
    attic("sync", "notes", "--wait").ok()
    assert [hit["source"] for hit in den.hits("quokka")] == ["notes"]
    attic("leave").refused(5, "notes")
    den("leave", "attic").refused(5, "still at work")
    den("restore", tmp_path / "copy.db").refused(5, "hosts share the library")
    den("logs", "server").refused(4, url)
    assert f"Host den; server at {url}" in den("status").ok().out

    # The server is away: the page works, and the worker starts when the server is back.
    den("down").ok()
    server.send_signal(signal.SIGSTOP)
    assert "the worker waits for it" in den("up", "--detach").ok().out
    assert [hit["source"] for hit in den.hits("quokka")] == ["notes"]
    server.send_signal(signal.SIGCONT)
    until(lambda: "Worker" in den("status").out, bool)

    den("leave").refused(5, "catchment down")
    for person in (den, attic):
        person("down").ok()
    kept = {name: (den.home / name).read_bytes() for name in ("join.yaml", "environment")}
    den("leave").ok()
    for name, content in kept.items():
        (den.home / name).write_bytes(content)
    den("leave").ok()  # completes a killed `leave`
    assert not (den.home / "join.yaml").exists()
    assert "nothing found" in den("search", "quokka").ok().err
    attic("sources", "remove", "notes", "--yes").ok()
    assert "library to itself" in attic("leave").ok().out
    assert attic.left() == den.left() == []
