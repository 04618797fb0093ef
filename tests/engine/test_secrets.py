"""Secrets are read through their references; unsafe or missing ones are refused with a remedy."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked, PasswordSetError

from catchment.content.redaction import redact
from catchment.errors import LoginFailed
from catchment.runtime import secret_references


def test_a_secret_is_read_from_the_environment_and_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAIL_PASSWORD", "correct horse")
    assert secret_references.resolve("env:MAIL_PASSWORD") == "correct horse"
    file = tmp_path / "password"
    file.write_text("battery staple \n")
    file.chmod(0o600)
    assert secret_references.resolve(f"file:{file}") == "battery staple ", (
        "the end of the line is no part of it, a space is"
    )


def test_file_readable_by_others_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("battery staple")
    file.chmod(0o640)
    with pytest.raises(LoginFailed, match="chmod 600 password") as refused:
        secret_references.resolve(f"file:{file}")
    assert "battery" not in str(refused.value)
    assert str(tmp_path) not in str(refused.value)


def test_pipe_or_device_as_a_secret_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "password", 0o600)
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name in ("password", "zero"):
        with pytest.raises(LoginFailed, match=f"file {name} of the secret is no regular file"):
            secret_references.resolve(f"file:{tmp_path / name}")


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("env:NO_SUCH_VARIABLE", "NO_SUCH_VARIABLE: variable not set"),
        ("file:/no/such/place/password", "the file password of the secret is not readable"),
        ("env:EMPTY", ": empty"),
    ],
)
def test_missing_secret_is_a_refused_login_with_a_remedy(
    reference: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMPTY", "")
    with pytest.raises(LoginFailed, match=said):
        secret_references.resolve(reference)


class InMemory(KeyringBackend):
    """An in-memory keyring."""

    priority = 1  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.entries = {("mail", "ada"): "correct horse"}

    def get_password(self, service: str, username: str) -> str | None:
        if service == "locked":
            raise KeyringLocked("it is locked")
        return self.entries.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        if service == "locked":
            raise PasswordSetError("it is locked")
        self.entries[service, username] = password


@pytest.fixture
def in_memory() -> Iterator[InMemory]:
    before = keyring.get_keyring()
    made = InMemory()
    keyring.set_keyring(made)
    yield made
    keyring.set_keyring(before)


def test_a_secret_is_read_from_the_keyring_and_replaced_there(in_memory: InMemory) -> None:
    assert secret_references.resolve("keyring:mail/ada") == "correct horse"
    with pytest.raises(LoginFailed, match="no such entry; keyring set SERVICE USER"):
        secret_references.resolve("keyring:mail/zoe")
    with pytest.raises(LoginFailed, match="cannot be opened; unlock it"):
        secret_references.resolve("keyring:locked/ada")
    with secret_references.alone("keyring:mail/ada"):
        assert secret_references.replace("keyring:mail/ada", "battery staple")
    assert secret_references.resolve("keyring:mail/ada") == "battery staple"
    assert not secret_references.replace("keyring:locked/ada", "battery staple")


def test_a_keyring_needs_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(LoginFailed, match="pip install keyring"):
        secret_references.resolve("keyring:mail/ada")


def test_secret_file_is_replaced_atomically_and_stays_private(tmp_path: Path) -> None:
    file, link = tmp_path / "token", tmp_path / "link"
    file.write_text("correct horse")
    file.chmod(0o600)
    link.symlink_to(file)
    with secret_references.alone(f"file:{link}"):
        assert secret_references.replace(f"file:{link}", "battery staple")
    assert secret_references.resolve(f"file:{file}") == "battery staple"
    assert link.is_symlink()
    assert file.stat().st_mode & 0o777 == 0o600
    assert sorted(tmp_path.iterdir()) == [link, file], "nothing is left over"


def test_irreplaceable_secret_is_reported(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for reference in ("env:MAIL_TOKEN", "block:mail", f"file:{tmp_path}/gone/token", f"file:{tmp_path}/folder"):
        assert not secret_references.replace(reference, "battery staple")
    assert list(tmp_path.iterdir()) == [tmp_path / "folder"], "the secret is left nowhere else"
    with pytest.raises(LoginFailed, match="not readable"), secret_references.alone(f"file:{tmp_path}/gone/token"):
        pass


def test_secret_blocks_are_read_by_the_registered_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    # Another test in this process may have registered a reader.
    monkeypatch.setattr(secret_references, "_READERS", secret_references._READERS | {"block": secret_references._block})
    with pytest.raises(LoginFailed, match="only available while Catchment runs"):
        secret_references.resolve("block:mail")
    secret_references.read_blocks_with(lambda name: f"the secret of {name}")
    assert secret_references.resolve("block:mail") == "the secret of mail"


def test_message_about_a_missing_file_of_the_page_is_not_masked(tmp_path: Path) -> None:
    with pytest.raises(LoginFailed) as refused:
        secret_references.resolve(f"file:{tmp_path / '5c03fd32c3d826f7.secret'}")
    text = f"mail: {refused.value}; catchment sources resume mail"
    assert redact(text) == text
