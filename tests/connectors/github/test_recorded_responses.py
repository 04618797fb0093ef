"""The connector against recorded responses of GitHub (`@octokit/fixtures`, from npm)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from connectors.contract.memory_ledger import MemoryLedger
from connectors.github import GitHub
from connectors.github.api.entries import release
from connectors.github.settings import GitHubSettings
from tests.connectors.github.emulator import installed
from tests.connectors.github.proxy import Exchange, Proxy
from tests.connectors.github.server import PREFIX

pytestmark = pytest.mark.acceptance

_HOST = "https://api.github.com"


class Replay(Proxy):
    """Replay recorded responses; a listing with other parameters gets the first page, other requests an empty list."""

    recorded: list[dict[str, Any]]

    @property
    def repository(self) -> str:
        """The recorded repository."""
        made = next(
            record for record in self.recorded if record["method"] == "post" and record["path"].endswith("/repos")
        )
        return str(made["response"]["full_name"])

    def _passed_on(self, number: int, path: str, request_headers: dict[str, str]) -> Exchange:
        found = self._found(path.removeprefix(PREFIX))
        exchange = Exchange(number, path, request_headers, 200, {"Content-Type": "application/json"}, b"[]")
        if found is not None:
            names, values = found["rawHeaders"][::2], found["rawHeaders"][1::2]
            headers = {name: value for name, value in zip(names, values, strict=True) if name in _HEADERS}
            exchange.headers = {
                name: value.replace(_HOST, f"{self.address}{PREFIX}") for name, value in headers.items()
            }
            exchange.status, exchange.body = found["status"], json.dumps(found["response"]).encode()
            if exchange.status == 201:
                exchange.status = 200
        return exchange

    def _found(self, path: str) -> dict[str, Any] | None:
        requests = [record for record in self.recorded if record["method"] == "get"]
        made = [
            {**record, "path": f"/repos/{self.repository}"}
            for record in self.recorded
            if record["path"].endswith("/repos")
        ]
        exact = (record for record in requests if record["path"] == path)
        same = (record for record in [*requests, *made] if urlsplit(record["path"]).path == urlsplit(path).path)
        return next(exact, None) or next(same, None)


_HEADERS = (
    "Content-Type",
    "ETag",
    "Link",
    "Location",
    "Date",
    "X-RateLimit-Limit",
    "X-RateLimit-Remaining",
    "X-RateLimit-Reset",
)


@pytest.fixture(scope="module")
def scenarios(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(tmp_path_factory.mktemp("recorded")) / "@octokit" / "fixtures" / "scenarios" / "api.github.com"


@pytest.fixture
def replay(scenarios: Path) -> Iterator[Callable[[str], Replay]]:
    """Create a server that replays a scenario."""
    made: list[Replay] = []

    def make(scenario: str) -> Replay:
        made.append(Replay(0))
        made[-1].recorded = json.loads((scenarios / scenario / "raw-fixture.json").read_text())
        return made[-1]

    yield make
    for record in made:
        record.close()


def reading(replay: Replay) -> GitHub:
    return GitHub(GitHubSettings(repositories=(replay.repository,), address=replay.address, include=("issues",)))


def test_recorded_pages_of_issues_are_followed(replay: Callable[[str], Replay]) -> None:
    recorded = replay("paginate-issues")
    ledger = MemoryLedger()
    with closing(reading(recorded)) as github:
        ledger.sync(github)
    numbers = {at.partition("#")[2] for at in ledger.documents()}
    assert numbers == {str(number) for number in range(1, 14)}
    assert any("/repositories/" in path for path in recorded.paths), "GitHub's links contain the repository's id"
    assert all(row.item.modified and row.item.modified.year == 2022 for row in ledger.rows.values())


def test_recorded_rename_is_followed_by_id(replay: Callable[[str], Replay]) -> None:
    recorded = replay("rename-repository")
    with closing(reading(recorded)) as github:
        recorded.recorded = [
            record for record in recorded.recorded if record["method"] == "get" or record["path"].endswith("/repos")
        ]
        body = github.probe()
    assert f"{recorded.repository} was renamed to " in body
    assert "/repositories/" in recorded.paths[1]


def test_recorded_release_is_read(scenarios: Path) -> None:
    recorded = json.loads((scenarios / "release-assets" / "raw-fixture.json").read_text())
    headers = next(record["response"] for record in recorded if record["path"].endswith("/releases/tags/v1.0.0"))
    body = release("octokit-fixture-org/release-assets", headers)
    assert body.item.locator == "octokit-fixture-org/release-assets#release/v1.0.0"
    assert body.item.identity and body.item.identity.startswith("RE_")
