"""Which repositories a host has of those that are wanted, and what it tells of each; with ETags, so that asking is free."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from catchment.errors import AccessDenied, SourceUnavailable, Vanished
from connectors.github.api.client import PAGE, ApiClient
from connectors.github.api.errors import unreadable
from connectors.github.api.render import moment
from connectors.github.names import REPOSITORY, Repository, is_branch

Marks = dict[str, str | None]
_Read = Callable[[Any, str | None], dict[str, Any]]
_ALL = "*"
_MARK = "host "


def is_mark(key: str) -> bool:
    """Whether a mark tells of repositories, and not of what is in one."""
    return key.startswith(_MARK)


class Host:
    """Asks a host for repositories. `marks` are those of earlier syncs; what changes in them is in `changed` afterwards."""

    def __init__(self, client: ApiClient, marks: Mapping[str, str]) -> None:
        self._client = client
        self._marks = marks
        self.changed: Marks = {}

    def repositories(self, names: tuple[str, ...]) -> list[Repository]:
        """The repositories of these names, each once; `owner/*` is all that the owner has.

        Raises SourceUnavailable for one that is not there.
        """
        found: dict[str, Repository] = {}
        for name in names:
            owner, _, which = name.partition("/")
            for repository in self._of_owner(owner) if which == _ALL else [self._repository(name)]:
                found.setdefault(repository.name.lower(), repository)
        return list(found.values())

    def root(self, names: tuple[str, ...]) -> str:
        """What stays the same as long as these names mean the same repositories; after `repositories`."""
        ids = (
            self._remembered(_owner(name[:-2]) if name.endswith(f"/{_ALL}") else _named(name))["id"] for name in names
        )
        return ",".join(sorted(map(str, ids)))

    def renamed(self, name: str) -> str | None:
        """What the host calls a repository by now, where that is something else."""
        told = self._remembered(_named(name)).get("name", name)
        return str(told) if str(told).lower() != name.lower() else None

    def _repository(self, name: str) -> Repository:
        told = self._asked(_named(name), f"/repos/{name}", _facts, name)
        return _repository(told, name)

    def _of_owner(self, owner: str) -> Iterator[Repository]:
        of_owner = self._asked(_owner(owner), f"/users/{owner}", self._listing_of, owner)
        first = f"{of_owner['listing']}per_page={PAGE}"
        page = 1
        following: str | None = first
        while following:
            told = self._asked(f"{_owner(owner)} page {page}", following, _page, owner)
            yield from (_repository(facts, str(facts["name"])) for facts in told["repositories"])
            page += 1
            # That a full page has become followed by another one is not told of one that is the same.
            is_full = len(told["repositories"]) == PAGE
            following = told["next"] or (f"{first}&page={page}" if is_full else None)
        while (key := f"{_owner(owner)} page {page}") in self._marks:
            self.changed[key], page = None, page + 1

    def _listing_of(self, told: Any, _next: str | None) -> dict[str, Any]:
        """Where an owner's repositories are listed: private ones only to members, and to whoever owns them."""
        owner = str(told["login"])
        if told.get("type") == "Organization":
            return {"id": told["id"], "listing": f"/orgs/{owner}/repos?"}
        try:
            me = self._client.get("/user").data["login"] if self._client.has_token else None
        except (Vanished, AccessDenied):
            me = None
        mine = me is not None and str(me).lower() == owner.lower()
        return {"id": told["id"], "listing": "/user/repos?affiliation=owner&" if mine else f"/users/{owner}/repos?"}

    def _asked(self, key: str, path: str, read: _Read, name: str) -> dict[str, Any]:
        """What the host tells, of which the facts are kept in a mark with the ETag."""
        before = self._remembered(key)
        etag = before.get("etag") if before.get("asked") == path else None
        try:
            answer = self._client.get(path, etag)
        except Vanished:
            more = "correct the name, or give a token that may read it"
            raise SourceUnavailable(f"{self._client.host} has no {name} that may be seen; {more}") from None
        if not answer.changed:
            return before
        try:
            facts: dict[str, Any] = read(answer.data, answer.next)
        except (TypeError, KeyError, ValueError, AttributeError, OverflowError):
            raise unreadable(self._client.host) from None
        told = {**facts, "etag": answer.etag, "asked": path}
        self.changed[key] = json.dumps(told, sort_keys=True, separators=(",", ":"))
        return told

    def _remembered(self, key: str) -> dict[str, Any]:
        text = self.changed.get(key) or self._marks.get(key)
        found: dict[str, Any] = json.loads(text) if text else {}
        return found


def _named(name: str) -> str:
    return f"{_MARK}repository {name}"


def _owner(name: str) -> str:
    return f"{_MARK}owner {name}"


def _facts(told: Any, _next: str | None = None) -> dict[str, Any]:
    pushed, name, branch = told.get("pushed_at"), told["full_name"], told.get("default_branch")
    # They become addresses and the names of folders.
    if not REPOSITORY.fullmatch(name) or not (branch is None or is_branch(branch)):
        raise ValueError("no repository")
    return {
        "id": int(told["id"]),
        "name": name,
        "branch": branch,
        "pushed": moment(pushed).isoformat() if pushed else None,
        "wiki": bool(told.get("has_wiki")),
    }


def _page(told: Any, following: str | None) -> dict[str, Any]:
    return {"repositories": [_facts(one) for one in told], "next": following}


def _repository(facts: Mapping[str, Any], name: str) -> Repository:
    pushed = facts["pushed"]
    return Repository(
        name, str(facts["id"]), facts["branch"], datetime.fromisoformat(pushed) if pushed else None, facts["wiki"]
    )
