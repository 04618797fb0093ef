"""Settings of a GitHub source."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from catchment.errors import BadInput
from catchment.runtime.addresses import is_local
from catchment.settings import FullPath, SecretReference, SourceSettings, TextEncoding, expanded
from connectors.folders.patterns import parse_patterns
from connectors.github.names import REPOSITORY, is_branch

GITHUB = "https://github.com"

Part = Literal["code", "issues", "pulls", "releases", "wiki"]


class GitHubSettings(SourceSettings):
    """Settings of a `github` source: repositories of a host, or one local clone."""

    identity: ClassVar[tuple[str, ...]] = ("address", "repositories", "clone")
    repositories: tuple[str, ...] = Field(
        (), title="Repositories", description="Repositories to read, as owner/repo; owner/* includes all of an owner"
    )
    clone: FullPath | None = Field(
        None, title="Local clone", description="Full path of a clone on this machine, read without network access"
    )
    address: str = Field(
        GITHUB, title="Address", description="https://github.com, or the address of a GitHub Enterprise server"
    )
    include: tuple[Part, ...] = Field(
        ("code", "issues", "pulls", "releases", "wiki"),
        title="Include",
        description="Parts to read: code, issues, pulls, releases, wiki",
        min_length=1,
    )
    since: date | None = Field(
        None,
        title="Since",
        description="Leave out issues, comments and releases last changed before this date, such as 2025-01-01",
        ge=date(1970, 1, 1),
    )
    branches: tuple[str, ...] = Field(
        (), title="Branches", description="Branches to read files from; none reads the default branch"
    )
    paths: tuple[str, ...] = Field(
        (), title="Paths", description="Patterns of files to include, as in a .gitignore; none includes all"
    )
    exclude: tuple[str, ...] = Field(
        (), title="Exclude", description="Patterns of files to exclude, as in a .gitignore: *.min.js, /dist/"
    )
    generated: bool = Field(False, title="Generated files", description="Include generated and vendored files")
    encoding: TextEncoding | None = Field(
        None,
        title="Encoding",
        description="Encoding of text that is not UTF-8 and declares none, such as windows-1251; default: detected",
    )
    token: SecretReference | None = Field(
        None,
        title="Token",
        description="Reference to an access token: env:VARIABLE, file:PATH, keyring:S/U, block:NAME",
    )

    @classmethod
    def located(cls, location: str) -> Mapping[str, Any]:
        """Return the settings for a location: repositories, a URL, or the path of a local clone.

        Repositories are `owner/repo` or `owner/*`, separated by commas.
        """
        path = expanded(Path(location))
        if location.startswith(("/", ".", "~")) or (path.is_dir() and not _are_names(location)):
            if not path.is_dir():
                raise BadInput(f"{path.name!r}: not found; correct the path, or mount its disk first")
            return {"clone": path.absolute()}
        if "://" in location:
            return _from_url(location)
        if not _are_names(location):
            raise BadInput(f"{location!r}: not a repository; write it as owner/repo, owner/* or the path of a clone")
        return {"repositories": _names(location)}

    @cached_property
    def host(self) -> str:
        """The host name, with the port if it is not the default."""
        return urlsplit(self.address).netloc

    @cached_property
    def api(self) -> str:
        """The base URL of the API: `https://api.github.com`, or `/api/v3` of an Enterprise server."""
        return "https://api.github.com" if self.address == GITHUB else f"{self.address}/api/v3"

    def selects(self, repository: str) -> bool:
        """Return whether a repository is selected by name."""
        owner = repository.partition("/")[0]
        names = {name.lower() for name in self.repositories}
        return self.clone is None and not {repository.lower(), f"{owner}/*".lower()}.isdisjoint(names)

    @field_validator("repositories")
    @classmethod
    def _are_repositories(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if not _is_name(name):
                raise ValueError(f"{name!r}: not a repository; write it as owner/repo or owner/*")
        return names

    @field_validator("paths", "exclude")
    @classmethod
    def _are_patterns(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in patterns:
            try:
                parse_patterns([pattern])
            except ValueError:
                raise ValueError(f"{pattern!r}: not a pattern; write it as in a .gitignore") from None
        return patterns

    @field_validator("branches")
    @classmethod
    def _are_branches(cls, branches: tuple[str, ...]) -> tuple[str, ...]:
        for branch in branches:
            if not is_branch(branch):
                raise ValueError(f"{branch!r}: not a valid branch name; see git check-ref-format")
        return branches

    @field_validator("address")
    @classmethod
    def _is_address(cls, address: str) -> str:
        address = address.rstrip("/")
        parts = urlsplit(address)
        if parts.scheme not in ("https", "http") or not parts.hostname or "@" in parts.netloc or parts.path:
            raise ValueError("address: not a server address; write it as https://github.example.org")
        if parts.scheme == "http" and not is_local(address):
            raise ValueError("address: http is only for a server on this machine; use https://")
        return address

    @model_validator(mode="after")
    def _one_location(self) -> GitHubSettings:
        if bool(self.repositories) == (self.clone is not None):
            raise ValueError("set either repositories (owner/repo) or clone")
        return self


def _from_url(location: str) -> Mapping[str, Any]:
    """Parse a URL as shown by a browser into host and repository."""
    try:
        parts = urlsplit(location)
    except ValueError:
        raise BadInput(f"{location!r}: not a URL; copy it from a browser") from None
    names = "/".join(parts.path.strip("/").split("/")[:2]).removesuffix(".git")
    if not _is_name(names):
        raise BadInput(f"{location!r}: no repository in the URL; it must end with /owner/repo or /owner/*")
    address = f"{parts.scheme}://{parts.netloc}"
    return {"repositories": (names,), **({} if address == GITHUB else {"address": address})}


def _names(location: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.strip() for part in location.split(",")))


def _are_names(location: str) -> bool:
    return all(map(_is_name, _names(location)))


def _is_name(name: str) -> bool:
    owner, _, repository = name.partition("/")
    if repository == "*":
        name = f"{owner}/any"
    return REPOSITORY.fullmatch(name) is not None and repository not in (".", "..")
