"""What a person says of repositories that are to be read."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from catchment.errors import BadInput
from catchment.runtime.secret_references import SecretReference
from catchment.settings import FullPath, SourceSettings, TextEncoding, expanded
from connectors.folders.patterns import parse_patterns
from connectors.github.names import REPOSITORY, is_branch
from connectors.loopback import is_loopback

GITHUB = "https://github.com"

Part = Literal["code", "issues", "pulls", "releases", "wiki"]


class GitHubSettings(SourceSettings):
    """The settings of a source of kind `github`: repositories of a host, or one clone on this machine."""

    repositories: tuple[str, ...] = Field(
        (), title="Repositories", description="The repositories to read, as owner/repo; owner/* is all of an owner"
    )
    clone: FullPath | None = Field(
        None, title="Local clone", description="A clone on this machine, as a full path, read without any network"
    )
    address: str = Field(
        GITHUB, title="Address", description="https://github.com, or the address of a GitHub Enterprise server"
    )
    include: tuple[Part, ...] = Field(
        ("code", "issues", "pulls", "releases", "wiki"),
        title="Include",
        description="What is read: code, issues, pulls, releases, wiki",
        min_length=1,
    )
    branches: tuple[str, ...] = Field(
        (), title="Branches", description="The branches whose files are read; none means the default branch"
    )
    paths: tuple[str, ...] = Field(
        (), title="Paths", description="Patterns of the files that are wanted, as in a .gitignore; none means all"
    )
    exclude: tuple[str, ...] = Field(
        (), title="Exclude", description="Patterns of what to leave out, written as in a .gitignore: *.min.js, /dist/"
    )
    generated: bool = Field(
        False, title="Generated files", description="Read also what programs wrote, and what is copied from elsewhere"
    )
    encoding: TextEncoding | None = Field(
        None,
        title="Encoding",
        description="How text is written that is not in UTF-8 and names no encoding, such as windows-1251; else it is guessed",
    )
    token: SecretReference | None = Field(
        None,
        title="Token",
        description="Where an access token is kept: env:VARIABLE, file:PATH, keyring:S/U, block:NAME",
    )

    @classmethod
    def located(cls, location: str) -> Mapping[str, Any]:
        """`owner/repo`, `owner/*`, several of them with commas, an address, or the path of a clone on this machine."""
        path = expanded(Path(location))
        if location.startswith(("/", ".", "~")) or (path.is_dir() and not _are_names(location)):
            if not path.is_dir():
                raise BadInput(f"{path.name!r} is not there; correct the path, or mount its disk first")
            return {"clone": path.absolute()}
        if "://" in location:
            return _addressed(location)
        if not _are_names(location):
            raise BadInput(f"{location!r} is no repository; write it as owner/repo, owner/* or the path of a clone")
        return {"repositories": _names(location)}

    @cached_property
    def host(self) -> str:
        """The name of the host, and its port if that is not the usual one."""
        return urlsplit(self.address).netloc

    @cached_property
    def api(self) -> str:
        """Where the host answers questions: `https://api.github.com`, or `/api/v3` of an Enterprise server."""
        return "https://api.github.com" if self.address == GITHUB else f"{self.address}/api/v3"

    def selects(self, repository: str) -> bool:
        """Whether a repository is one of those that are read, as far as its name says."""
        owner = repository.partition("/")[0]
        return self.clone is None and not {repository, f"{owner}/*"}.isdisjoint(self.repositories)

    @field_validator("repositories")
    @classmethod
    def _are_repositories(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if not _is_name(name):
                raise ValueError(f"{name!r} is no repository; write it as owner/repo or owner/*")
        return names

    @field_validator("paths", "exclude")
    @classmethod
    def _are_patterns(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in patterns:
            try:
                parse_patterns([pattern])
            except ValueError:
                raise ValueError(f"{pattern!r} is not a pattern; write it as in a .gitignore") from None
        return patterns

    @field_validator("branches")
    @classmethod
    def _are_branches(cls, branches: tuple[str, ...]) -> tuple[str, ...]:
        for branch in branches:
            if not is_branch(branch):
                raise ValueError(f"{branch!r} is not the name of a branch; git check-ref-format tells what is")
        return branches

    @field_validator("address")
    @classmethod
    def _is_address(cls, address: str) -> str:
        address = address.rstrip("/")
        found = urlsplit(address)
        if found.scheme not in ("https", "http") or not found.hostname or "@" in found.netloc or found.path:
            raise ValueError("address is https:// and the name of a host, such as https://github.example.org")
        if found.scheme == "http" and not is_loopback(found.hostname):
            raise ValueError("a token is never sent unencrypted to another machine; address must begin with https://")
        return address

    @model_validator(mode="after")
    def _one_place(self) -> GitHubSettings:
        if bool(self.repositories) == (self.clone is not None):
            raise ValueError("give repositories (owner/repo) or the clone on this machine, and not both")
        return self


def _addressed(location: str) -> Mapping[str, Any]:
    """An address as a browser shows it: the host, and the repository's name behind it."""
    try:
        found = urlsplit(location)
    except ValueError:
        raise BadInput(f"{location!r} is no address; copy it from a browser") from None
    names = "/".join(found.path.strip("/").split("/")[:2]).removesuffix(".git")
    if not _is_name(names):
        raise BadInput(f"{location!r} names no repository; end it with /owner/repo or /owner/*")
    address = f"{found.scheme}://{found.netloc}"
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
