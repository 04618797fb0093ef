"""All sources with the same token share the host's hourly limit, and leave a tenth of it to other programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from catchment.errors import LoginFailed, RateLimited
from catchment.ledger import Ledger
from catchment.model import Priority
from catchment.pacing.breaker import Position
from catchment.pacing.metered import Metered
from catchment.runtime import process
from connectors.contract.memory_ledger import MemoryLedger
from connectors.github import GitHub
from tests.connectors.github.proxy import Proxy
from tests.connectors.github.server import GitHubServer, Repo


@pytest.fixture
def paced(tmp_path: Path, reading: Callable[..., GitHub]) -> Iterator[tuple[Callable[..., GitHub], Ledger]]:
    """Create connectors that store their pace in one ledger."""
    made: list[Metered] = []
    with closing(Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}")) as ledger:

        def make(source: str, *repositories: str, **settings: object) -> GitHub:
            ledger.sources.put(source, "github", Priority.NORMAL)
            github = reading(*repositories, **settings)
            made.append(Metered(ledger.pacing, github.limits(), source, process.identity()))
            github.pace = made[-1]
            return github

        yield make, ledger
        for pace in made:
            pace.close()


def test_a_tenth_of_the_limit_is_left_to_others(
    paced: tuple[Callable[..., GitHub], Ledger],
    hub: GitHubServer,
    proxy: Proxy,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("connectors.github.api.feed.PAGE", 2)
    for name in ("ada/weir", "ada/dam"):
        repo = hub.repo(name)
        for _ in range(60):
            repo.open()
    proxy.limit = 30
    make, ledger = paced
    with pytest.raises(RateLimited) as caught:
        MemoryLedger().sync(make("weir"))
    assert caught.value.retry_after is not None and caught.value.retry_after > 2_000
    assert 25 <= proxy.used <= 27
    request_count = len(proxy.paths)
    with pytest.raises(RateLimited):
        make("dam", "ada/dam").probe()
    assert len(proxy.paths) == request_count, "the other source with this token makes no request"
    (row,) = ledger.pacing.buckets()
    assert (row.allowed, row.left) == (30, 27 - proxy.used)
    assert "HUB_TOKEN" not in row.key


def test_free_responses_do_not_use_the_budget(
    paced: tuple[Callable[..., GitHub], Ledger], repo: Repo, proxy: Proxy, ledger: MemoryLedger
) -> None:
    make, kept = paced
    github = make("weir")
    ledger.sync(github)
    before = github.pace.requests
    for _ in range(3):
        assert ledger.sync(github).item_changes == []
    assert github.pace.requests == before == 5
    github.pace.close()
    (row,) = kept.pacing.buckets()
    assert row.left == 5_000 * 9 // 10 - 5


def test_revoked_token_opens_only_its_sources_breaker(
    paced: tuple[Callable[..., GitHub], Ledger], hub: GitHubServer, repo: Repo
) -> None:
    make, ledger = paced
    github = make("weir")
    hub.tokens.clear()
    with pytest.raises(LoginFailed):
        github.probe()
    (row,) = ledger.pacing.breakers()
    assert (row.key, row.position, row.locked) == ("source:weir", Position.OPEN, True)
    assert make("open", token=None).probe()
