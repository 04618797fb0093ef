"""The connector for GitHub repositories, or for a local clone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar

from catchment.contracts import Known, Manifest, Shell
from catchment.errors import SkipReason
from catchment.model import Change, Checkpoint, Failure, Item, RawContent, Root
from catchment.pacing import HostLimits, Pace
from catchment.runtime.secret_references import resolve
from catchment.settings import Limits, Policy, RetryPolicy, SourceSettings
from connectors.folders.excluded import no_longer_listed
from connectors.github.api.conversations import Conversations
from connectors.github.api.host import is_mark
from connectors.github.api.releases import Releases
from connectors.github.api.repositories import Api, FoundRepositories
from connectors.github.api.repositories import limits as host_limits
from connectors.github.git.clone import Clone
from connectors.github.git.code_listing import Code
from connectors.github.git.file_selection import FileRules
from connectors.github.git.mirror import Mirror
from connectors.github.git.plain_shell import run
from connectors.github.git.remote_repository import Remote
from connectors.github.names import Repository, clone_name, is_file, is_wiki, repository_of, wiki_of
from connectors.github.settings import GitHubSettings
from connectors.own_folder import own_folder

RepositoryListing = Code | Conversations | Releases
"""One part of one repository. No other listing reports items in its containers."""


class GitHub:
    """The connector for GitHub: files of repositories, wikis, issues, pull requests, comments and releases."""

    kind: ClassVar[str] = "github"
    manifest: ClassVar[Manifest] = Manifest(
        "GitHub",
        "repositories",
        place="Repository: owner/repo, owner/* for all of an owner, or the path of a clone",
        example="owner/repo",
        deep="Compare all files, issues and pull requests, not only changed ones.",
        is_watched=True,
        level="gold",
        exempt={"parsers": "a listing parses only JSON and git's output, within limits of size"},
    )
    settings: ClassVar[type[SourceSettings]] = GitHubSettings
    policy: ClassVar[Policy] = Policy(
        retry=RetryPolicy(attempts=5, initial=300, maximum=3_600),
        limits=Limits(max_mb=10),
        at_once=4,
    )
    fetch_in_parser: ClassVar[bool] = False

    def __init__(self, settings: GitHubSettings) -> None:
        self._settings = settings
        limits = settings.policy(self.policy).limits
        self._max_bytes = limits.max_bytes
        self._seconds = limits.stall_seconds
        self._rules = FileRules(
            settings.paths,
            settings.exclude,
            generated=settings.generated,
            max_bytes=self._max_bytes,
            missing=SkipReason.TOO_LARGE if settings.clone is None else SkipReason.NOT_STORED,
        )
        self.pace = Pace()
        self.shell: Shell = run
        self.folder: Path | None = None
        self._code_listings: dict[str, Code] = {}
        self._api = Api(settings, lambda: self.pace, limits.stall_seconds)

    def __reduce__(self) -> tuple[type[GitHub], tuple[Any, ...]]:
        return GitHub, (self._settings,)

    def limits(self) -> HostLimits:
        return host_limits(self._settings) if self._settings.clone is None else HostLimits("this machine")

    def scopes(self) -> Mapping[str, str]:
        if self._settings.clone is not None:
            return {}
        scopes = {
            "files": (("code", "wiki"), "files of the repositories and their wikis"),
            "discussions": (("issues", "pulls", "releases"), "issues, pull requests, comments and releases"),
        }
        return {scope: words for scope, (parts, words) in scopes.items() if set(parts) & set(self._settings.include)}

    def scope_of(self, locator: str) -> str:
        return "files" if is_file(locator) else "discussions"

    def token(self) -> str | None:
        """Return the current access token. Raises LoginFailed if its reference is empty."""
        return resolve(self._settings.token) if self._settings.token else None

    def probe(self) -> str:
        """Check access and describe the source in one line."""
        if self._settings.clone is not None:
            return self._clone(self._settings.clone).describe()
        if self._api.is_needed:
            return self._api.probe()
        name = self._settings.repositories[0]
        commit = self._remote(name).heads(self._settings.branches).values()
        more = len(self._settings.repositories) - 1
        return f"{name}: {next(iter(commit), 'empty')[:10]}{f', and {more} more' if more else ''}"

    def changes(self, known: Known, *, deep: bool = False) -> Iterator[Change]:
        selected, roots, marks = self._select(known)
        yield Root(roots)
        yield Checkpoint(marks)
        repositories = _accepted(selected, known)
        listings = [listing for repository in repositories for listing in self._listings_of(repository)]
        yield from self._deselected(known, listings, {repository.name for repository in repositories})
        for listing in listings:
            yield from listing.changes(known, deep=deep)
        yield Checkpoint()

    def changes_between(self, known: Known, since: datetime, until: datetime) -> Iterator[Change]:
        selected, roots, _ = self._select(known)
        # Another root is for `changes` to report, together with the deletions to hold.
        accepted = known.roots()
        yield Root({name: accepted.get(name, identity) for name, identity in roots.items()})
        is_torn = False
        for repository in _accepted(selected, known) if self._api.is_needed else ():
            for listing in self._api.listings(repository.name):
                for change in listing.between(since, until):
                    # Only a part that the host denies.
                    is_torn |= isinstance(change, Failure)
                    yield change
        yield Checkpoint(is_torn=is_torn)

    def expect(self, items: Sequence[Item]) -> None:
        for listing, group in groupby(items, lambda item: self._listing(item.locator)):
            listing.expect(list(group))

    def fetch(self, item: Item) -> RawContent:
        raw = self._listing(item.locator).fetch(item)
        return replace(raw, encoding=self._settings.encoding) if is_file(item.locator) else raw

    def close(self) -> None:
        for listing in self._code_listings.values():
            listing.close()
        self._code_listings.clear()
        self._api.close()

    # ── listings ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _select(self, known: Known) -> FoundRepositories:
        """Return the selected repositories with the host's facts about them. With git alone, only names are known."""
        if self._api.is_needed:
            return self._api.find(known.marks())
        clone = self._settings.clone
        names = self._settings.repositories if clone is None else (clone_name(clone.name),)
        root = self._settings.host if clone is None else self._clone(clone).identity()
        return FoundRepositories([Repository(name) for name in names], {"": root}, {})

    def _listings_of(self, repository: Repository) -> Iterator[RepositoryListing]:
        """Yield the listings of a repository, in the order in which they run."""
        if "code" in self._settings.include:
            yield self._code(repository.name, repository.pushed)
        if "wiki" in self._settings.include and repository.has_wiki:
            yield self._code(wiki_of(repository.name))
        if self._api.is_needed:
            yield from self._api.listings(repository.name)

    def _listing(self, locator: str) -> RepositoryListing:
        """Return the listing that an item belongs to."""
        if is_file(locator):
            return self._code(locator.partition(":")[0].partition("@")[0])
        return self._api.listing(locator)

    def _deselected(self, known: Known, listings: Sequence[RepositoryListing], names: set[str]) -> Iterator[Change]:
        """Report the known items of repositories, or parts of them, that are no longer listed."""

        def is_unlisted(name: str) -> bool:
            return not any(listing.owns(name) for listing in listings)

        for container in sorted(filter(is_unlisted, known.containers())):
            deleted = repository_of(container) not in names and self._settings.selects(repository_of(container))
            yield from no_longer_listed(known, container, is_deleted=deleted)
        yield Checkpoint({key: None for key in known.marks() if not is_mark(key) and is_unlisted(key)})

    # ── files ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _code(self, name: str, pushed: datetime | None = None) -> Code:
        """Return the listing of the files of a repository or wiki. `pushed` is given when it is about to be listed."""
        if name not in self._code_listings or pushed is not None:
            page = "" if self._settings.clone else f"{self._settings.address}/{repository_of(f'{name}:')}"
            branches = () if is_wiki(name) else self._settings.branches
            self._code_listings[name] = Code(
                name, self._copy(name), branches, self._rules, self._max_bytes, page, pushed
            )
        return self._code_listings[name]

    def _copy(self, name: str) -> Clone | Mirror:
        if self._settings.clone is not None:
            return self._clone(self._settings.clone)
        folder = own_folder(self) / f"{name.replace('/', '+')}.git"
        return Mirror(folder, self._remote(name), self._max_bytes, self._seconds)

    def _clone(self, folder: Path) -> Clone:
        return Clone(folder, own_folder(self) / "clone.read", self._seconds)

    def _remote(self, name: str) -> Remote:
        names = self._settings.repositories
        alone = len(names) == 1 and not names[0].endswith("*") and not is_wiki(name)
        return Remote(self._settings.address, name, self, alone=alone)


def _accepted(repositories: Sequence[Repository], known: Known) -> list[Repository]:
    """Return the repositories that are the accepted ones.

    The items of a repository that took the name of another would replace those of the other. An operator decides.
    """
    accepted = known.roots()
    return [each for each in repositories if accepted.get(each.name, each.id) == each.id]
