"""A GitHub API server behind a proxy, and a connector that reads discussions from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from connectors.github import GitHub
from connectors.github.settings import GitHubSettings
from tests.connectors.github.proxy import Proxy
from tests.connectors.github.server import GitHubServer, Repo

SAID = ("issues", "pulls", "releases")


@pytest.fixture
def repo(hub: GitHubServer) -> Repo:
    """A repository with five issues and pull requests, five comments and two releases."""
    repo = hub.repo("ada/weir")
    for number in range(3):
        issue = repo.open(f"Issue {number}", f"The gauge shows {number}")
        repo.comment(issue, f"Seen {number} times")
    pull = repo.open("A pull request", "It mends the gauge, see #1", pull=True)
    repo.comment(pull, "Thank you")
    repo.review(pull, "Why not shorter?")
    repo.comment(1, "Again")
    repo.open("Without a comment")
    for tag in ("v1.0", "v1.1"):
        repo.release(tag)
    return repo


@pytest.fixture
def proxy(hub_proxy: Proxy) -> Proxy:
    """The proxy in front of the server."""
    return hub_proxy


@pytest.fixture
def reading(proxy: Proxy) -> Iterator[Callable[..., GitHub]]:
    """Create connectors that read through the proxy, with additional settings; closed after the test."""
    made: list[GitHub] = []

    def make(*repositories: str, **settings: Any) -> GitHub:
        given = {"repositories": repositories or ("ada/weir",), "address": proxy.address, "include": SAID}
        made.append(GitHub(GitHubSettings(**{**given, "token": "env:HUB_TOKEN", **settings})))
        return made[-1]

    yield make
    for connector in made:
        connector.close()


@pytest.fixture
def github(reading: Callable[..., GitHub]) -> GitHub:
    """The connector for the repository."""
    return reading()
