"""Find the selected repositories at a host. Conditional requests (ETags) make repeated look-ups free."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from catchment.errors import AccessDenied, SourceUnavailable, Vanished
from connectors.github.api.api_client import PAGE, ApiClient
from connectors.github.api.entries import parse_time
from connectors.github.api.errors import malformed_response
from connectors.github.names import REPOSITORY, Repository, is_branch

Marks = dict[str, str | None]
_Parse = Callable[[Any, str | None], dict[str, Any]]
_ALL = "*"
_MARK = "host "


def is_mark(key: str) -> bool:
    """Return whether a mark belongs to this module, not to the listing of a repository."""
    return key.startswith(_MARK)


class Host:
    """Looks up repositories. `marks` are from earlier syncs; `changed` contains the marks that differ afterwards."""

    def __init__(self, client: ApiClient, marks: Mapping[str, str]) -> None:
        self._client = client
        self._marks = marks
        self.changed: Marks = {}

    def repositories(self, names: tuple[str, ...]) -> list[Repository]:
        """Return the repositories with these names, each once; `owner/*` means all of an owner.

        Raises SourceUnavailable if one does not exist.
        """
        repositories: dict[str, Repository] = {}
        for name in names:
            owner, _, which = name.partition("/")
            for repository in self._owned_by(owner) if which == _ALL else [self._repository(name)]:
                repositories.setdefault(repository.name.lower(), repository)
        return list(repositories.values())

    def owners(self, names: tuple[str, ...]) -> dict[str, str]:
        """Return the ID of the owner for each `owner/*`. Call `repositories` first."""
        return {name: str(self._stored(_owner_key(name[:-2]))["id"]) for name in names if name.endswith(f"/{_ALL}")}

    def renamed(self, name: str) -> str | None:
        """Return the new name of a renamed repository; None if it was not renamed."""
        current = str(self._stored(_repository_key(name)).get("name", name))
        return current if current.lower() != name.lower() else None

    def _repository(self, name: str) -> Repository:
        data = self._request(_repository_key(name), f"/repos/{name}", _facts, name)
        return _repository(data, name)

    def _owned_by(self, owner: str) -> Iterator[Repository]:
        of_owner = self._request(_owner_key(owner), f"/users/{owner}", self._owner_listing, owner)
        first = f"{of_owner['listing']}per_page={PAGE}"
        page = 1
        next_url: str | None = first
        while next_url:
            data = self._request(f"{_owner_key(owner)} page {page}", next_url, _page, owner)
            yield from (_repository(facts, str(facts["name"])) for facts in data["repositories"])
            page += 1
            # An unchanged full page may have a new next page.
            is_full = len(data["repositories"]) == PAGE
            next_url = data["next"] or (f"{first}&page={page}" if is_full else None)
        while (key := f"{_owner_key(owner)} page {page}") in self._marks:
            self.changed[key], page = None, page + 1

    def _owner_listing(self, data: Any, _next: str | None) -> dict[str, Any]:
        """Return where an owner's repositories are listed. Private ones are listed only for members and the owner."""
        owner = str(data["login"])
        if data.get("type") == "Organization":
            return {"id": data["id"], "listing": f"/orgs/{owner}/repos?"}
        try:
            login = self._client.get("/user").data["login"] if self._client.has_token else None
        except (Vanished, AccessDenied):
            login = None
        is_own = login is not None and str(login).lower() == owner.lower()
        return {"id": data["id"], "listing": "/user/repos?affiliation=owner&" if is_own else f"/users/{owner}/repos?"}

    def _request(self, key: str, path: str, parse: _Parse, name: str) -> dict[str, Any]:
        """Request facts; keep them with their ETag in a mark."""
        stored = self._stored(key)
        etag = stored.get("etag") if stored.get("asked") == path else None
        try:
            response = self._client.get(path, etag)
        except Vanished:
            more = "correct the name, or provide a token with read access"
            raise SourceUnavailable(f"{name}: not found at {self._client.host}, or private; {more}") from None
        if not response.changed:
            return stored
        try:
            facts: dict[str, Any] = parse(response.data, response.next)
        except (TypeError, KeyError, ValueError, AttributeError, OverflowError):
            raise malformed_response(self._client.host) from None
        data = {**facts, "etag": response.etag, "asked": path}
        self.changed[key] = json.dumps(data, sort_keys=True, separators=(",", ":"))
        return data

    def _stored(self, key: str) -> dict[str, Any]:
        text = self.changed.get(key) or self._marks.get(key)
        stored: dict[str, Any] = json.loads(text) if text else {}
        return stored


def _repository_key(name: str) -> str:
    return f"{_MARK}repository {name}"


def _owner_key(name: str) -> str:
    return f"{_MARK}owner {name}"


def _facts(data: Any, _next: str | None = None) -> dict[str, Any]:
    pushed, name, branch = data.get("pushed_at"), data["full_name"], data.get("default_branch")
    # These values become URLs and folder names.
    if not REPOSITORY.fullmatch(name) or not (branch is None or is_branch(branch)):
        raise ValueError("not a repository")
    return {
        "id": int(data["id"]),
        "name": name,
        "branch": branch,
        "pushed": parse_time(pushed).isoformat() if pushed else None,
        "wiki": bool(data.get("has_wiki")),
    }


def _page(data: Any, next_url: str | None) -> dict[str, Any]:
    return {"repositories": [_facts(repository) for repository in data], "next": next_url}


def _repository(facts: Mapping[str, Any], name: str) -> Repository:
    pushed = facts["pushed"]
    return Repository(
        name, str(facts["id"]), facts["branch"], datetime.fromisoformat(pushed) if pushed else None, facts["wiki"]
    )
