"""Trees of real files, and a user that has no rights to some of them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.connectors.github.proxy import Proxy
from tests.connectors.github.server import TOKEN, GitHubServer, serving_hub
from tests.connectors.imap.dovecot import PASSWORD, Dovecot, serving
from tests.connectors.memory_ledger import MemoryLedger

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
    """A server of mail, which all tests share."""
    yield from serving()


@pytest.fixture
def server(dovecot: Dovecot, monkeypatch: pytest.MonkeyPatch) -> Dovecot:
    """The server with nothing in it; the password is in the variable `MAIL_PASSWORD`."""
    monkeypatch.setenv("MAIL_PASSWORD", PASSWORD)
    dovecot.clear()
    return dovecot


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHubServer]:
    """A server of GitHub's API without repositories; a token for it is in the variable `HUB_TOKEN`."""
    monkeypatch.setenv("HUB_TOKEN", TOKEN)
    with serving_hub() as server:
        yield server


@pytest.fixture
def hub_proxy(hub: GitHubServer) -> Iterator[Proxy]:
    """A proxy before that server."""
    made = Proxy(hub.port)
    yield made
    made.close()


@pytest.fixture
def shared_root() -> Iterator[Path]:
    """A root that other users may enter, which pytest's own temporary folders are not."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    for path in folder.rglob("*"):
        if path.is_dir():
            path.chmod(0o755)
    shutil.rmtree(folder)


@pytest.fixture
def unprivileged() -> Callable[[], AbstractContextManager[None]]:
    """Act as a user without special rights for a while; whoever runs the tests is one already, unless it is root."""

    @contextmanager
    def act() -> Iterator[None]:
        mine = os.geteuid()
        if mine == 0:
            os.seteuid(NOBODY)
        try:
            yield
        finally:
            os.seteuid(mine)

    return act
