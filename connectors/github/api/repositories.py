"""The connector's access to the API: the selected repositories, and a listing for each of their parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Any, NamedTuple

from catchment.errors import Vanished
from catchment.pacing import HostLimits, Pace, RateProfile
from connectors.github.api.api_client import ApiClient
from connectors.github.api.conversations import Conversations
from connectors.github.api.entry_cache import EntryCache
from connectors.github.api.errors import UNSTATED_WAIT_SECONDS
from connectors.github.api.host import Host, Marks
from connectors.github.api.releases import Releases
from connectors.github.names import Repository, repository_of
from connectors.github.settings import GITHUB, GitHubSettings

_CONVERSATIONS = {"issues", "pulls"}
_WITH_TOKEN, _WITHOUT_TOKEN = 5_000, 60
"""Requests per hour allowed by github.com. Most Enterprise servers have no limit; those that do report it."""
_probe_marks: dict[GitHubSettings, dict[str, str]] = {}
"""Marks from probes of this process: health checks run every few minutes and should not use up requests."""


class FoundRepositories(NamedTuple):
    """The selected repositories, the identities of the source's roots, and the changed marks."""

    repositories: list[Repository]
    roots: Mapping[str, str]
    marks: Marks


def limits(settings: GitHubSettings) -> HostLimits:
    """Return the host's limits. Sources with the same token reference share its allowance."""
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
    """The API for one source. `pace` returns the current pace."""

    def __init__(self, settings: GitHubSettings, pace: Callable[[], Pace], seconds: float) -> None:
        self._settings = settings
        self._client = ApiClient(settings, pace, seconds)
        self._cache = EntryCache()
        floor = f"{settings.since}T00:00:00Z" if settings.since else ""
        # Each is made once: it knows what its threads expect.
        self._conversations = cache(
            partial(Conversations, self._client, include=settings.include, floor=floor, cache=self._cache)
        )
        self._releases = cache(partial(Releases, self._client, floor=floor, cache=self._cache))

    @property
    def is_needed(self) -> bool:
        """Whether anything is selected that git alone does not provide."""
        settings = self._settings
        api_parts = _CONVERSATIONS | {"releases", "wiki"}
        return bool(settings.repositories) and (
            bool(api_parts & set(settings.include)) or any(name.endswith("/*") for name in settings.repositories)
        )

    def find(self, marks: Mapping[str, str]) -> FoundRepositories:
        """Find the repositories. Raises SourceError, with the remedy, if one is not accessible."""
        host, names = Host(self._client, marks), self._settings.repositories
        repositories = host.repositories(names)
        roots = {repository.name: repository.id for repository in repositories} | host.owners(names)
        return FoundRepositories(repositories, roots, host.changed)

    def probe(self) -> str:
        """Describe in one line the repositories, renames, and remaining requests."""
        marks = _probe_marks.setdefault(self._settings, {})
        host, names = Host(self._client, marks), self._settings.repositories
        readable = host.repositories(names)
        marks |= {key: mark for key, mark in host.changed.items() if mark is not None}
        parts = [f"{self._client.host}: {readable[0].name if len(readable) == 1 else f'{len(readable)} repositories'}"]
        parts += [f"{name} was renamed to {new}" for name in names if (new := host.renamed(name))]
        parts += ["no token, public repositories only"] if self._settings.token is None else []
        try:
            core: Any = self._client.get("/rate_limit").data["resources"]["core"]
            parts.append(f"{core['remaining']} of {core['limit']} requests remaining this hour")
        except (Vanished, KeyError, TypeError):
            pass  # An Enterprise server without rate limits.
        return "; ".join(parts)

    def listings(self, repository: str) -> Iterator[Conversations | Releases]:
        """Yield the listings of a repository, in the order in which they run."""
        if _CONVERSATIONS & set(self._settings.include):
            yield self._conversations(repository)
        if "releases" in self._settings.include:
            yield self._releases(repository)

    def listing(self, locator: str) -> Conversations | Releases:
        """Return the listing that an item belongs to."""
        repository = repository_of(locator)
        return self._releases(repository) if "#release/" in locator else self._conversations(repository)

    def close(self) -> None:
        """Close connections and drop cached entries; may be called again."""
        self._client.close()
        self._cache.clear()
