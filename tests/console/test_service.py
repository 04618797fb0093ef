"""The systemd units: systemd accepts them, and a foreign unit is not overwritten."""

from __future__ import annotations

import getpass
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from console.start_stop import service
from tests.console.standin import answering

if TYPE_CHECKING:
    from tests.console.conftest import Cli


@pytest.fixture
def units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of user units, which does not exist yet. A fake systemctl is on the path."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "systemctl").write_text("#!/bin/false\n")
    (tmp_path / "bin" / "systemctl").chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path / "config" / "systemd" / "user"


def settings(text: str) -> dict[str, str]:
    lines = (line for line in text.splitlines() if line and line[0] not in "#[")
    return dict(line.split("=", 1) for line in lines)


def test_print_shows_the_unit_and_writes_nothing(cli: Cli, state: Path, units: Path) -> None:
    response = cli("service", "install", "--print")
    assert response.code == 0
    assert not units.exists()
    found = settings(response.out)
    assert found["ExecStart"] == f"{sys.executable} -P -m console up"
    assert found["Environment"] == f"CATCHMENT_HOME={state}"
    assert (found["Restart"], found["KillMode"], found["OOMPolicy"]) == ("on-failure", "mixed", "continue")
    assert int(found["TimeoutStopSec"]) > 35, "the supervisor takes as long"


def test_install_writes_the_unit_and_says_the_commands(cli: Cli, state: Path, units: Path) -> None:
    response = cli("service", "install")
    assert response.code == 0, response
    assert "systemctl --user daemon-reload" in response.out
    assert "systemctl --user enable --now catchment" in response.out
    assert (units / "catchment.service").read_text() == cli("service", "install", "--print").out
    with answering(state):
        again = cli("service", "install")
    assert again.code == 0, "it may be installed again"
    assert "  catchment down\n  systemctl --user daemon-reload\n" in again.out, "two cannot run in one home"


def test_a_unit_that_is_not_ours_is_left_alone(cli: Cli, units: Path) -> None:
    units.mkdir(parents=True)
    (units / "catchment.service").write_text("[Service]\nExecStart=/bin/true\n")
    for words in (("service", "install"), ("service", "uninstall")):
        response = cli(*words)
        assert (response.code, "move it away" in response.err) == (5, True)
    assert "/bin/true" in (units / "catchment.service").read_text()


def test_uninstall_removes_the_unit_and_what_enabled_it(cli: Cli, units: Path) -> None:
    cli("service", "install")
    (units / "default.target.wants").mkdir()
    (units / "default.target.wants" / "catchment.service").symlink_to(units / "catchment.service")
    assert cli("service", "uninstall").code == 0
    assert [path.name for path in units.rglob("*")] == ["default.target.wants"]
    assert cli("service", "uninstall").code == 4


def test_without_systemd_it_says_what_to_do_instead(cli: Cli, units: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    response = cli("service", "install")
    assert (response.code, "catchment up --detach" in response.err) == (4, True)
    assert not units.exists()


def test_an_address_with_a_password_stays_out_of_the_unit(
    cli: Cli, units: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CATCHMENT_DATABASE_URL", "postgresql+psycopg://me:hush@db/ledger")
    response = cli("service", "install")
    assert "environment (mode 0600)" in response.err
    assert "hush" not in (units / "catchment.service").read_text() + response.out + response.err


@pytest.mark.parametrize("option", ["--user", "--system"])
@pytest.mark.parametrize("name", ["home", "my notes", 'a "quoted" 100 % $HOME \\ one'])
def test_systemd_accepts_the_unit_of_any_home(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, option: str
) -> None:
    (tmp_path / name).mkdir()
    monkeypatch.setenv("CATCHMENT_HOME", str(tmp_path / name))
    file = tmp_path / "catchment.service"
    file.write_text(cli("service", "install", "--print", *(["--system"] if option == "--system" else [])).out)
    if (analyze := shutil.which("systemd-analyze")) is None:
        assert "\n\n[Install]\nWantedBy=" in file.read_text()
        return
    # The path of a socket has at most 107 characters, and systemd's own units have sockets below this folder.
    with tempfile.TemporaryDirectory() as runtime:
        done = subprocess.run(
            [analyze, "verify", option, file],
            env={"XDG_RUNTIME_DIR": runtime, "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.fixture
def machine(units: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the machine's units. The programs of systemd on the path record their arguments, and fail."""
    monkeypatch.setattr(service, "_SYSTEM_UNITS", tmp_path / "system")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    for name in ("systemctl", "journalctl"):
        (tmp_path / "bin" / name).write_text('#!/bin/sh\necho "${0##*/} $*" >>"${0%/*}/asked"\nexit 3\n')
        (tmp_path / "bin" / name).chmod(0o700)
    return tmp_path / "system"


def test_system_unit_runs_as_the_owner_of_the_home(cli: Cli, state: Path, machine: Path) -> None:
    response = cli("service", "install", "--system")
    assert (response.code, response.err.count("\n")) == (4, 1), "without a home nobody owns it"
    state.mkdir()
    response = cli("service", "install", "--system")
    assert response.code == 0
    assert "  systemctl daemon-reload\n  systemctl enable --now catchment\n" in response.out
    assert "linger" not in response.out
    text = (machine / "catchment.service").read_text()
    found = settings(text)
    assert (found["User"], found["CapabilityBoundingSet"]) == (getpass.getuser(), "")
    assert text.endswith("[Install]\nWantedBy=multi-user.target\n")
    assert cli("service", "uninstall", "--system").code == 0
    assert not (machine / "catchment.service").exists()


def test_system_unit_is_written_by_root_only(
    cli: Cli, state: Path, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state.mkdir()
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert cli("service", "install", "--system").code == 5
    assert not machine.exists()


def test_status_and_logs_ask_systemd(cli: Cli, tmp_path: Path, machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("status", "logs"):
        assert cli("service", name).code == 4, "not installed"
    cli("service", "install")
    assert [cli("service", "status").code, cli("service", "logs", "--follow").code] == [1, 1]
    assert (tmp_path / "bin" / "asked").read_text().splitlines() == [
        "systemctl --user status --no-pager catchment",
        "journalctl --user --unit=catchment --lines=50 --no-pager --follow",
    ]
    monkeypatch.setenv("PATH", "/nowhere")
    for name in ("status", "logs"):
        response = cli("service", name)
        assert (response.code, f"`catchment {name}`" in response.err) == (4, True)
