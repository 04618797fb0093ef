"""Fixtures for connectors: folders of real files, servers, and a user without privileges."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from connectors.contract.memory_ledger import MemoryLedger
from tests.connectors.github.proxy import Proxy
from tests.connectors.github.server import TOKEN, GitHubServer, serving_hub
from tests.connectors.imap.dovecot import PASSWORD, Dovecot, serving

NOBODY = 65_534


@pytest.fixture
def ledger() -> MemoryLedger:
    return MemoryLedger()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture(scope="session")
def dovecot() -> Iterator[Dovecot]:
    """A mail server shared by all tests."""
    yield from serving()


@pytest.fixture
def server(dovecot: Dovecot, monkeypatch: pytest.MonkeyPatch) -> Dovecot:
    """The mail server without messages; the password is in `MAIL_PASSWORD`."""
    monkeypatch.setenv("MAIL_PASSWORD", PASSWORD)
    dovecot.clear()
    return dovecot


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHubServer]:
    """A GitHub API server without repositories; a token for it is in `HUB_TOKEN`."""
    monkeypatch.setenv("HUB_TOKEN", TOKEN)
    with serving_hub() as server:
        yield server


@pytest.fixture
def hub_proxy(hub: GitHubServer) -> Iterator[Proxy]:
    """A proxy in front of the GitHub API server."""
    made = Proxy(hub.port)
    yield made
    made.close()


@pytest.fixture
def shared_root() -> Iterator[Path]:
    """A root that other users may enter, unlike pytest's temporary folders."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    for path in folder.rglob("*"):
        if path.is_dir():
            path.chmod(0o755)
    shutil.rmtree(folder)


@pytest.fixture
def unprivileged() -> Callable[[], AbstractContextManager[None]]:
    """Return a context manager that drops root privileges; without effect if the tests do not run as root."""

    @contextmanager
    def act() -> Iterator[None]:
        user = os.geteuid()
        if user == 0:
            os.seteuid(NOBODY)
        try:
            yield
        finally:
            os.seteuid(user)

    return act
