from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import stat
import time
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosedError
from websockets.typing import Subprotocol

from catchment.errors import ConfigError, NotFound, TryAgain
from catchment.runtime.process import pid_of
from catchment.runtime.web_process import WebAddress
from catchment.runtime.worker_status import WorkerStatus
from catchment.settings import Home
from deployments.runs import runs
from deployments.server.client import api, checks
from deployments.server.environment import auth_string, child_environment, unusable_variables
from deployments.server.planned import read_report
from deployments.server.running import Running, record, running, state_file, supervisor_lock, ui_login
from deployments.supervisor.supervisor import down, up
from tests.waiting import PATIENCE, until

_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
_HOURLY = "[{slug: main, interval: 3600, timezone: UTC}]"


def test_new_home_has_no_running_system(home: Home) -> None:
    assert running(home) is None
    assert down(home) is False
    assert ui_login(home) is None


def test_record_of_an_exited_process_is_ignored(home: Home) -> None:
    state = Running(4200, os.getpid(), _now(), 1, 2, auth_string(home))
    with supervisor_lock(home):
        record(home, state)
        assert running(home) == state
    assert running(home) is None
    assert down(home) is False


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"identity": 3}', '{"identity": "x", "port": 1}'])
def test_damaged_record_is_ignored(home: Home, text: str) -> None:
    state_file(home).write_text(text)
    assert running(home) is None


def test_login_is_created_once_and_private(home: Home) -> None:
    first = auth_string(home)
    assert auth_string(home) == first
    assert first.startswith("catchment:")
    assert stat.S_IMODE((home.path / "ui-login").stat().st_mode) == 0o600
    assert ui_login(home) == str(home.path / "ui-login")
    assert first.partition(":")[2] not in repr(Running(1, 1, _now(), 1, 1, first))


def test_empty_login_is_replaced(home: Home) -> None:
    (home.path / "ui-login").touch()
    login = auth_string(home)
    assert login.startswith("catchment:")
    assert (home.path / "ui-login").read_text().strip() == login


@pytest.mark.parametrize("login", ["ada:pässword", "no colon", "ada:\0", "ada:a\nb"])
def test_login_unsupported_by_prefect_is_refused_with_the_remedy(home: Home, login: str) -> None:
    (home.path / "ui-login").write_text(login)
    with pytest.raises(ConfigError, match=r"^ui-login is not user:password in ASCII; correct it, or delete it"):
        auth_string(home)


def test_environment_excludes_the_users_prefect_settings(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_KEY", "mine")
    monkeypatch.setenv("MY_TOKEN", "for a source")
    monkeypatch.setenv("no_proxy", "example.org")
    environment = child_environment(home, port=4711, auth="catchment:x")
    assert "PREFECT_API_KEY" not in environment
    assert environment["MY_TOKEN"] == "for a source"
    assert environment["PREFECT_API_URL"] == "http://127.0.0.1:4711/api"
    assert environment["NO_PROXY"] == "example.org,127.0.0.1,::1,localhost"
    assert environment["HOME"] == os.environ["HOME"]


@pytest.mark.parametrize("name", ["ALL_PROXY", "all_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY"])
def test_children_get_only_proxies_that_their_client_supports(
    home: Home, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for other in ("ALL_PROXY", "all_proxy", "HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, "http://proxy.example:3128")
    assert child_environment(home, port=4711, auth="catchment:x")[name] == "http://proxy.example:3128"
    for wrong in ("socks5://127.0.0.1:1080", "::nonsense::"):
        monkeypatch.setenv(name, wrong)
        environment = child_environment(home, port=4711, auth="catchment:x")
        assert name not in environment and list(unusable_variables()) == [name]
    monkeypatch.delenv(name)
    with httpx.Client():
        assert unusable_variables() == {}


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
def test_children_get_only_authorities_that_are_there(
    home: Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    monkeypatch.setenv(name, str(tmp_path))
    assert child_environment(home, port=4711, auth="catchment:x")[name] == str(tmp_path)
    monkeypatch.setenv(name, str(tmp_path / "gone"))
    assert name not in child_environment(home, port=4711, auth="catchment:x")
    assert [*unusable_variables()] == [name]


def test_port_in_use_is_refused_with_the_remedy(home: Home) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        for detach in (False, True):
            with pytest.raises(TryAgain, match="--port"):
                up(home, port=taken.getsockname()[1], detach=detach, announce=_ignore)


@pytest.mark.server
def test_server_requires_login_and_listens_on_loopback_only(server: Running) -> None:
    assert httpx.get(f"{server.api_url}/health", trust_env=False).status_code == httpx.codes.OK
    body: dict[str, str] = {}
    assert httpx.post(f"{server.api_url}/flows/filter", json=body, trust_env=False).status_code == 401
    with api(server) as client:
        assert client.post("/flows/filter", json=body).status_code == httpx.codes.OK
    addresses = {c.laddr.ip for c in psutil.Process(server.server_pid).net_connections() if c.status == "LISTEN"}
    assert addresses == {"127.0.0.1"}


@pytest.mark.server
def test_killed_web_process_is_restarted(server_home: Home, server: Running) -> None:
    address = until(lambda: WebAddress.read(server_home))
    assert address is not None
    os.kill(pid_of(address.process), signal.SIGKILL)
    web = until(lambda: WebAddress.read(server_home), lambda found: found not in (None, address))
    assert web is not None
    process = psutil.Process(pid_of(web.process))
    assert (process.ppid(), process.name()) == (server.pid, "web")
    assert "PREFECT_API_AUTH_STRING" not in process.environ()


@pytest.mark.server
@pytest.mark.parametrize("path", ["/events/in", "/events/out", "/logs/out"])
async def test_odd_login_of_a_websocket_is_refused_in_one_line(server_home: Home, server: Running, path: str) -> None:
    log = server_home.logs / "server.log"
    before = len(log.read_bytes()) if log.exists() else 0
    tokens = [["ada"], {"a": 1}, 5, True, "é", "\ud800"]
    odd = [json.dumps({"type": "auth", "token": token}) for token in tokens]
    for login in (*odd, "[]", '"x"', "not JSON", "[" * 100_000, b"\xff\x00"):
        url = f"{server.api_url.replace('http', 'ws')}{path}"
        async with connect(url, subprotocols=[Subprotocol("prefect")], proxy=None) as websocket:
            await websocket.send(login)
            with pytest.raises(ConnectionClosedError):
                await asyncio.wait_for(websocket.recv(), PATIENCE)
            assert websocket.close_code == 1008
    told = f"{path}: rejected a malformed login"
    lines = until(
        lambda: log.read_bytes()[before:].decode().splitlines(), lambda seen: sum(told in s for s in seen) == 11
    )
    # Meanwhile Prefect's services may log other failures, with tracebacks.
    assert "Exception in ASGI application" not in "".join(lines), "\n".join(lines)


@pytest.mark.server
@pytest.mark.parametrize("login", ["adé:ü".encode(), b"\xff:\xff", b"ada"])
def test_odd_login_of_a_request_is_refused(server: Running, login: bytes) -> None:
    headers = {"Authorization": f"Basic {b64encode(login).decode()}"}
    response = httpx.post(f"{server.api_url}/flows/filter", json={}, headers=headers, trust_env=False)
    assert response.status_code == 401


@pytest.mark.server
def test_ui_pages_may_connect_to_this_server_only(server: Running) -> None:
    page = httpx.get(f"{server.url}/v2/", trust_env=False)
    assert page.status_code == httpx.codes.OK
    rules = dict(rule.strip().split(" ", 1) for rule in page.headers["content-security-policy"].split(";"))
    assert rules["connect-src"] == f"'self' {server.url} {server.url.replace('http', 'ws')}"
    assert rules["default-src"] == "'self' data: blob:"


@pytest.mark.server
async def test_concurrent_writers_wait_and_none_is_rejected(server: Running) -> None:
    user, _, password = server.login.partition(":")
    async with httpx.AsyncClient(base_url=server.api_url, auth=(user, password), trust_env=False, timeout=30) as client:
        flow = (await client.post("/flows/", json={"name": "many-writers"})).json()

        async def write() -> list[int]:
            made = await client.post("/flow_runs/", json={"flow_id": flow["id"], "state": {"type": "PENDING"}})
            moves = [
                await client.post(f"/flow_runs/{made.json()['id']}/set_state", json={"state": {"type": state}})
                for state in ("RUNNING", "COMPLETED")
            ]
            return [answer.status_code for answer in (made, *moves)]

        codes = await asyncio.gather(*(write() for _ in range(40)))
    assert {code for answers in codes for code in answers} == {201}


@pytest.mark.server
def test_password_is_in_no_command_line_and_files_are_private(server_home: Home, server: Running) -> None:
    password = server.login.partition(":")[2]
    for pid in (server.pid, server.server_pid, server.worker_pid):
        assert password not in " ".join(psutil.Process(pid).cmdline())
    modes: dict[Path, int] = {}
    for path in (Path(folder, name) for folder, _, names in os.walk(server_home.path) for name in names):
        with suppress(FileNotFoundError):  # It may be deleted meanwhile.
            modes[path] = path.stat().st_mode
    assert len(modes) > 3
    assert [path for path, mode in modes.items() if mode & 0o077] == []


@pytest.mark.server
def test_up_reports_a_running_system(server_home: Home, server: Running) -> None:
    said: list[str] = []
    assert up(server_home, announce=said.append) == 0
    assert said == [f"Catchment is already running: {server.url}"]


@pytest.mark.server
def test_sync_is_started_and_followed_to_its_end(server: Running, deploy_standin: Callable[..., None]) -> None:
    deploy_standin("followed")
    seen: list[runs.RunView] = []
    end = runs.wait(server, runs.start_sync(server, "standin", "followed", deep=True), seen.append, timeout=PATIENCE)
    assert end.state_type == "COMPLETED"
    assert seen[-1] == end
    assert seen[0].state_type in ("SCHEDULED", "PENDING")
    with api(server) as client:
        assert client.get(f"/flow_runs/{end.id}").json()["parameters"]["deep"] is True


@pytest.mark.server
def test_run_continues_after_the_wait_timed_out(server: Running, deploy_standin: Callable[..., None]) -> None:
    deploy_standin("patient", seconds=1)
    run = runs.start_sync(server, "standin", "patient")
    with pytest.raises(TryAgain, match="still running"):
        runs.wait(server, run, timeout=0)
    assert runs.wait(server, run, timeout=PATIENCE).state_type == "COMPLETED"


@pytest.mark.server
def test_checks_leave_no_event_in_the_feed(server: Running) -> None:
    for check in checks(server).values():
        check()
    with api(server) as client:
        time.sleep(2)  # the server writes events once a second
        found = client.post("/events/filter", json={"filter": {"event": {"prefix": ["catchment.probe"]}}}).json()
    assert found["events"] == []


@pytest.mark.server
def test_source_without_deployment_is_not_found(server: Running) -> None:
    with pytest.raises(NotFound):
        runs.start_sync(server, "standin", "nowhere")


@pytest.mark.server
def test_schedule_plans_the_next_run(server: Running, deploy_standin: Callable[..., None]) -> None:
    deploy_standin("planned", schedules=_HOURLY)
    [run] = until(lambda: (heard := read_report(server, "planned", 1)) and heard.runs.get("planned", ()))
    assert run.why == "schedule"
    assert run.at.tzinfo is not None
    assert run.at > _now()


def test_failed_server_start_names_its_log_and_leaves_no_process(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "prefect.py").write_text("raise ImportError('no such Prefect')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(
        TryAgain, match=r"^the Prefect server did not start \(exit code 1\); see `catchment logs server`"
    ):
        up(home, announce=_ignore)
    until(lambda: (home.logs / "server.log").read_text().endswith("ImportError: no such Prefect\n"))
    assert running(home) is None


@pytest.mark.server
def test_killed_server_and_worker_restart_and_the_dead_run_is_marked(
    server_home: Home, server: Running, deploy_standin: Callable[..., None]
) -> None:
    deploy_standin("struck", seconds=300)
    run = runs.start_sync(server, "standin", "struck")
    until(lambda: runs.view(server, run).state_type == "RUNNING")
    os.kill(server.server_pid, signal.SIGKILL)
    os.kill(server.worker_pid, signal.SIGKILL)
    until(lambda: _pids(server_home).isdisjoint({0, server.server_pid, server.worker_pid}))
    said = (server_home.logs / "up.log").read_text()
    for role in ("server", "worker"):
        assert re.search(rf"^{_TIME} the {role} stopped \(killed by signal 9\); restarting in 1 s$", said, re.MULTILINE)
    now = running(server_home)
    assert now is not None
    assert (now.pid, now.port) == (server.pid, server.port)
    deploy_standin("alive")
    assert runs.wait(now, runs.start_sync(now, "standin", "alive"), timeout=PATIENCE).state_type == "COMPLETED"
    status = WorkerStatus.read(server_home)
    assert status is not None and status.runner is not None
    os.kill(pid_of(status.runner), signal.SIGKILL)
    loss = re.compile(rf"^{_TIME} the runner was killed by SIGKILL; restarting in \d+ s$", re.MULTILINE)
    until(lambda: loss.search((server_home.logs / "up.log").read_text()))
    # The lease of the dead run's slot expires within a minute, and the next round corrects the run.
    until(lambda: runs.view(now, run).state_type == "CRASHED")


def _deployment(server: Running, name: str) -> dict[str, Any]:
    with api(server) as client:
        found: dict[str, Any] = client.get(f"/deployments/name/sync-standin/{name}").raise_for_status().json()
        return found


def _pids(home: Home) -> set[int]:
    state = running(home)
    return {state.server_pid, state.worker_pid} if state else set()


def _ignore(line: str) -> None:
    """Ignore the line."""


def _now() -> datetime:
    return datetime.now(UTC)
