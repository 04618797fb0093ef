"""All requests, and all fields read from responses, are in GitHub's published contract (OpenAPI)."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import orjson
import pytest

from connectors.contract.memory_ledger import MemoryLedger
from connectors.github import GitHub
from connectors.github.api import entries
from tests.connectors.github.emulator import installed
from tests.connectors.github.proxy import Proxy
from tests.connectors.github.server import PREFIX, GitHubServer, Repo

pytestmark = pytest.mark.acceptance


class Contract:
    """The API of one host."""

    def __init__(self, file: Path) -> None:
        self._document = orjson.loads(file.read_bytes())
        self._paths = {
            re.compile(re.sub(r"\\\{[^}]*\\\}", "[^/]+", re.escape(path)) + r"\Z"): path
            for path in self._document["paths"]
        }

    def wrong(self, request: str) -> list[str]:
        """Return how a request violates the contract."""
        url = urlsplit(request)
        found = [path for pattern, path in self._paths.items() if pattern.match(url.path)]
        # Literal paths take precedence over paths with variables.
        operation = self._document["paths"][min(found, key=lambda path: path.count("{"))].get("get") if found else None
        if operation is None:
            return [f"GET {url.path} is not in the contract"]
        allowed = {one["name"]: one.get("schema", {}) for one in map(self._at, operation["parameters"])}
        return [
            f"{name}={value} of {url.path}"
            for name, value in parse_qsl(url.query)
            if name not in allowed or value not in allowed[name].get("enum", [value])
        ]

    def properties(self, schema: str) -> set[str]:
        """Return the fields of a response."""
        return set(self._at(self._document["components"]["schemas"][schema])["properties"])

    def _at(self, one: dict[str, Any]) -> dict[str, Any]:
        while "$ref" in one:
            found: Any = self._document
            for part in one["$ref"].removeprefix("#/").split("/"):
                found = found[part]
            one = found
        return one


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(tmp_path_factory.mktemp("contract"), "contract") / "@octokit" / "openapi" / "generated"


@pytest.fixture(params=["api.github.com", "ghes-3.17"])
def contract(request: pytest.FixtureRequest, generated: Path) -> Contract:
    """The contracts of github.com and of an Enterprise server."""
    return Contract(generated / f"{request.param}.json")


def test_every_request_is_in_the_contract(
    contract: Contract,
    reading: Callable[..., GitHub],
    hub: GitHubServer,
    repo: Repo,
    proxy: Proxy,
    ledger: MemoryLedger,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("connectors.github.api.feed.PAGE", 2)
    monkeypatch.setattr("connectors.github.api.conversations.PAGE", 2)
    hub.owners["ada"] = "Organization"
    for location in ("ada/weir", "ada/*"):
        github = reading(location)
        github.probe()
        ledger.sync(github)
        repo.delete_comment(max(repo.comments))
        ledger.marks = {key: "2026-01-01" if key.endswith("checked") else told for key, told in ledger.marks.items()}
        ledger.sync(github)
        ledger.sync(github, deep=True)
        github.close()
        for row in ledger.present().values():
            github.fetch(row.item)
    questions = sorted({path.removeprefix(PREFIX) for path in proxy.paths})
    assert len(questions) > 25
    assert [fault for question in questions for fault in contract.wrong(question)] == []
    assert contract.wrong("/repos/ada/weir/issues?sort=whatever&nonsense=1&per_page=5") != []


def test_every_field_read_is_in_the_contract(contract: Contract) -> None:
    read = set(re.findall(r'fields(?:\.get\()?\[?"(\w+)"', Path(entries.__file__).read_text()))
    assert {"number", "title", "body", "user", "node_id"} <= read
    known = {
        *contract.properties("issue"),
        *contract.properties("issue-comment"),
        *contract.properties("pull-request-review-comment"),
        *contract.properties("release"),
    }
    assert read - known == set()
