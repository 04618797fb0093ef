"""`catchment web`: a link that signs in once, and never in the arguments of a browser."""

from __future__ import annotations

import os
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from catchment.runtime import own_secrets
from catchment.runtime.home import Home
from console.main import main
from deployments.server.running import Running, record, supervisor_lock


def started(home: Home) -> None:
    record(home, Running(1, os.getpid(), datetime.now(UTC), 1, 1, "", page_port=4210))


def test_link_is_printed_and_signs_in_once(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    with supervisor_lock(home):
        started(home)
        assert main(["web", "--no-browser"]) == 0
    address, _, key = capsys.readouterr().out.strip().partition("?key=")
    assert address == "http://127.0.0.1:4210/signin"
    assert own_secrets.use_key(home.signin_keys, key)
    assert not own_secrets.use_key(home.signin_keys, key)


def test_browser_gets_a_private_file_instead_of_the_link(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opener, arguments = tmp_path / "xdg-open", tmp_path / "arguments"
    opener.write_text(f'#!/bin/sh\necho "$@" > {arguments}\n')
    opener.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr("sys.platform", "linux")
    with supervisor_lock(home):
        started(home)
        assert main(["web"]) == 0
    file = home.run / "signin.html"
    assert arguments.read_text().strip() == file.as_uri()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "key=" not in capsys.readouterr().out


def test_link_is_printed_if_no_browser_opens(
    home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    with supervisor_lock(home):
        started(home)
        assert main(["web"]) == 0
    shown = capsys.readouterr()
    assert "http://127.0.0.1:4210/signin?key=" in shown.out
    assert "open the link yourself" in shown.err


def test_page_needs_a_running_system(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["web"]) == 10
    assert "start Catchment with `catchment up --detach`" in capsys.readouterr().err
