"""What is read through the API of a host, in one place for the connector: which repositories, and their listings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from catchment.errors import Vanished
from catchment.pacing import HostLimits, Pace, RateProfile
from connectors.github.api.client import ApiClient
from connectors.github.api.errors import UNSTATED_WAIT_SECONDS
from connectors.github.api.etag_cache import Memory
from connectors.github.api.host import Host, Marks
from connectors.github.api.releases import Releases
from connectors.github.api.threads import Threads
from connectors.github.listing import RepositoryListing
from connectors.github.names import Repository, repository_of
from connectors.github.settings import GITHUB, GitHubSettings

_SAID = {"issues", "pulls"}
_WITH_TOKEN, _WITHOUT_TOKEN = 5_000, 60
"""Requests that github.com allows in an hour; an Enterprise server mostly sets no limit, and says so if it does."""
_seen: dict[GitHubSettings, dict[str, str]] = {}
"""What probes of this process saw: health is looked at every few minutes, which is to cost none of the hour's requests."""


class FoundRepositories(NamedTuple):
    """The repositories that are read, what stays the same as long as they are the same ones, and the marks that changed."""

    repositories: list[Repository]
    root: str
    marks: Marks


def limits(settings: GitHubSettings) -> HostLimits:
    """How a host is treated: sources with the same reference to a token share what it is allowed."""
    allowed = None if settings.address != GITHUB else _WITH_TOKEN if settings.token else _WITHOUT_TOKEN
    return HostLimits(
        settings.host,
        settings.token or "",
        RateProfile.CONSERVATIVE,
        at_once=2,
        per_hour=allowed,
        wait=UNSTATED_WAIT_SECONDS,
    )


class Api:
    """Asks a host on behalf of one source. `pace` gives the pace that holds at the moment."""

    def __init__(self, settings: GitHubSettings, pace: Callable[[], Pace], seconds: float) -> None:
        self._settings = settings
        self._client = ApiClient(settings, pace, seconds)
        self._memory = Memory()
        self._listings: dict[str, RepositoryListing] = {}

    @property
    def is_needed(self) -> bool:
        """Whether anything is read that git alone does not tell."""
        settings = self._settings
        told = _SAID | {"releases", "wiki"}
        return bool(settings.repositories) and (
            bool(told & set(settings.include)) or any(name.endswith("/*") for name in settings.repositories)
        )

    def find(self, marks: Mapping[str, str]) -> FoundRepositories:
        """The repositories. Raises SourceError, with the remedy, where one cannot be seen."""
        host, names = Host(self._client, marks), self._settings.repositories
        repositories = host.repositories(names)
        return FoundRepositories(repositories, host.root(names), host.changed)

    def probe(self) -> str:
        """What can be seen, what was renamed, and what is left of the hour's requests, in one line."""
        seen = _seen.setdefault(self._settings, {})
        host, names = Host(self._client, seen), self._settings.repositories
        found = host.repositories(names)
        seen |= {key: told for key, told in host.changed.items() if told is not None}
        said = [f"{self._client.host}: {found[0].name if len(found) == 1 else f'{len(found)} repositories'}"]
        said += [f"{name} is called {new} now" for name in names if (new := host.renamed(name))]
        said += ["no token, so public ones only"] if self._settings.token is None else []
        try:
            core: Any = self._client.get("/rate_limit").data["resources"]["core"]
            said.append(f"{core['remaining']} of {core['limit']} requests left in this hour")
        except (Vanished, KeyError, TypeError):
            pass  # An Enterprise server that sets no limit.
        return "; ".join(said)

    def listings(self, repository: str) -> Iterator[RepositoryListing]:
        """What is told of a repository, in this order."""
        if _SAID & set(self._settings.include):
            yield self._threads(repository)
        if "releases" in self._settings.include:
            yield self._releases(repository)

    def listing(self, locator: str) -> RepositoryListing:
        """The listing that an item is of."""
        repository = repository_of(locator)
        return self._releases(repository) if "#release/" in locator else self._threads(repository)

    def close(self) -> None:
        """Give up the connections, and what was read ahead; may be called again."""
        self._client.close()
        self._memory.clear()

    def _threads(self, repository: str) -> RepositoryListing:
        return self._listings.setdefault(
            f"{repository}#", Threads(self._client, repository, self._settings.include, self._memory)
        )

    def _releases(self, repository: str) -> RepositoryListing:
        return self._listings.setdefault(f"{repository}#release", Releases(self._client, repository, self._memory))
