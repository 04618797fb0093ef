"""A complete repository from one host: files by git, discussions by the API."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from catchment.errors import SourceError
from connectors.contract.memory_ledger import MemoryLedger
from connectors.github import GitHub
from tests.connectors.github.git_host import GitHost, hosting
from tests.connectors.github.proxy import Proxy
from tests.connectors.github.repository import Repository
from tests.connectors.github.server import Repo

pytestmark = pytest.mark.full

ALL = ("code", "issues", "pulls", "releases", "wiki")


def test_files_and_discussions_sync_together(
    reading: Callable[..., GitHub], repo: Repo, proxy: Proxy, tmp_path: Path, ledger: MemoryLedger
) -> None:
    work = Repository.made(tmp_path / "work")
    work.write(README="# The weir\n", docs__gauge="# The gauge\n")
    work.commit()
    with hosting(tmp_path / "host") as host:
        host.publish(repo.name, work)
        proxy.git = int(host.address.rpartition(":")[2])
        github = reading(include=ALL)
        github.folder = tmp_path / "home"
        ledger.sync(github)
        assert len(ledger.documents()) == 15
        assert {at for at in ledger.documents() if ":" in at} == {"ada/weir:README.md", "ada/weir:docs/gauge.md"}
        host.requests.clear()
        proxy.forget()
        assert ledger.sync(github).item_changes == []
        assert (host.requests, len(proxy.paths), proxy.free) == ([], 3, 3)
        _push(work, repo, host)
        repo.comment(1, "Pushed")
        assert len(ledger.sync(github).fetched) == 2
        host.status = 500
        _push(work, repo, host)
        with pytest.raises(SourceError):
            ledger.sync(github)
        host.status = None
        ledger.sync(github)
        assert len(ledger.documents()) == 16


def _push(work: Repository, repo: Repo, host: GitHost) -> None:
    work.write(README=f"# The weir, {len(host.requests)}\n")
    work.commit()
    repo.pushed_at = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
