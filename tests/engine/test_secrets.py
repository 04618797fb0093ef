"""Secrets are read from where their reference leads, and refused with the remedy where that is unsafe or empty."""

from __future__ import annotations

from pathlib import Path

import pytest

from catchment import secrets
from catchment.errors import LoginFailed


def test_a_secret_is_read_from_the_environment_and_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAIL_PASSWORD", "correct horse")
    assert secrets.resolve("env:MAIL_PASSWORD") == "correct horse"
    file = tmp_path / "password"
    file.write_text("battery staple \n")
    file.chmod(0o600)
    assert secrets.resolve(f"file:{file}") == "battery staple ", "the end of the line is no part of it, a space is"


def test_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("battery staple")
    file.chmod(0o640)
    with pytest.raises(LoginFailed, match="chmod 600 password") as refused:
        secrets.resolve(f"file:{file}")
    assert "battery" not in str(refused.value)
    assert str(tmp_path) not in str(refused.value)


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("env:NO_SUCH_VARIABLE", "NO_SUCH_VARIABLE is not set"),
        ("file:/no/such/place/password", "the file of the secret, password, cannot be read"),
        ("keyring:mail/ada", "keyring"),
        ("env:EMPTY", "is empty"),
    ],
)
def test_what_is_not_there_is_a_refused_login_with_the_remedy(
    reference: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMPTY", "")
    with pytest.raises(LoginFailed, match=said):
        secrets.resolve(reference)


def test_blocks_are_read_by_whoever_knows_how(monkeypatch: pytest.MonkeyPatch) -> None:
    # Another test of this process may have said how.
    monkeypatch.setattr(secrets, "_READERS", secrets._READERS | {"block": secrets._block})
    with pytest.raises(LoginFailed, match="use env:, file: or keyring:"):
        secrets.resolve("block:mail")
    secrets.read_blocks_with(lambda name: f"the secret of {name}")
    assert secrets.resolve("block:mail") == "the secret of mail"
