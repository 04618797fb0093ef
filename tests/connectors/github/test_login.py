"""Login with a code typed into a browser; the token is stored where only its owner can read it."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from catchment.errors import LoginFailed, SourceUnavailable
from catchment.runtime import secret_references
from catchment.runtime.home import Home
from connectors.github import GitHub
from connectors.github.api import device
from console.main import main
from tests.connectors.github.server import CLIENT, TOKEN, GitHubServer, Repo


def test_login_polls_at_the_requested_interval(hub: GitHubServer) -> None:
    hub.agreed = ["authorization_pending", "slow_down", "authorization_pending", "agreed"]
    code = device.begin(hub.web, CLIENT, "repo")
    assert (code.user, code.address) == ("WDJB-MJHT", f"{hub.web}/login/device")
    slept: list[float] = []
    given = device.wait(hub.web, CLIENT, code, slept.append)
    assert given.token == TOKEN
    assert slept == [5, 5, 10, 10]
    assert TOKEN not in repr(given)


@pytest.mark.parametrize(
    ("steps", "remedy"),
    [(["access_denied"], "refused in the browser"), (["expired_token"], "start again"), (["what"], "docs/github.md")],
)
def test_refused_login_fails_with_the_remedy(hub: GitHubServer, steps: list[str], remedy: str) -> None:
    hub.agreed = steps
    with pytest.raises(LoginFailed, match=remedy):
        device.wait(hub.web, CLIENT, device.begin(hub.web, CLIENT, ""), lambda _: None)


def test_login_expires_without_the_code(hub: GitHubServer) -> None:
    hub.agreed = ["authorization_pending"] * 1_000
    with pytest.raises(LoginFailed, match="code not entered"):
        device.wait(hub.web, CLIENT, device.begin(hub.web, CLIENT, ""), lambda _: None)
    assert len(hub.agreed) == 1_000 - 12


def test_unknown_app_differs_from_an_unreachable_host(hub: GitHubServer) -> None:
    with pytest.raises(LoginFailed, match="--client-id"):
        device.begin(hub.web, "another", "repo")
    with pytest.raises(SourceUnavailable, match="; "):
        device.begin("http://127.0.0.1:9", CLIENT, "repo")


def test_login_command_stores_the_token_without_showing_it(
    hub: GitHubServer,
    repo: Repo,
    home: Home,
    reading: Callable[..., GitHub],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(device, "_MIN_INTERVAL", 0.01)
    hub.interval = 0
    hub.agreed = ["authorization_pending", "agreed"]
    assert main(["login", "github", "--client-id", CLIENT, "--address", hub.web]) == 0
    output = capsys.readouterr()
    assert "enter WDJB-MJHT" in output.out
    reference = output.out.rpartition("--secret token=")[2].strip()
    assert TOKEN not in output.out + output.err
    kept = Path(reference.removeprefix("file:"))
    assert (stat.S_IMODE(kept.stat().st_mode), stat.S_IMODE(kept.parent.stat().st_mode)) == (0o600, 0o700)
    assert secret_references.resolve(reference) == TOKEN
    repo.private = True
    assert "requests remaining" in reading(token=reference).probe()


def test_read_only_secret_reference_is_rejected_before_login(hub: GitHubServer, home: Home) -> None:
    assert main(["login", "github", "--client-id", CLIENT, "--address", hub.web, "--keep", "env:TOKEN"]) == 2
    assert main(["login", "github", "--client-id", CLIENT, "--address", "http://github.example.org"]) == 2
