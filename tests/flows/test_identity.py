"""A run's parameters cannot turn its source into another one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from catchment.ledger import Ledger
from catchment.settings import Home, SourceSettings
from connectors import connector_class, kinds
from connectors.github.settings import GitHubSettings
from connectors.imap.settings import ImapSettings
from connectors.local_files import LocalFilesSettings
from connectors.obsidian import ObsidianSettings
from tests.flows.conftest import Window
from tests.flows.test_sync import sync
from tests.hits import find_hits


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "secretfolder"
    folder.mkdir()
    for n in range(35):
        (folder / f"{n}.md").write_text(f"Letter number {n}")
    return folder


@pytest.fixture
def deployed(window: Window, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Deploy the folder as the source `letters`, and make all runs of this test runs of that deployment."""
    client = window.client
    flow = client.post("/flows/", json={"name": "sync-local_files"}).raise_for_status().json()["id"]
    body: dict[str, Any] = {"name": f"letters-{uuid4()}", "flow_id": flow}
    body["parameters"] = {"name": "letters", "settings": {"root": str(folder)}}
    identifier = client.post("/deployments/", json=body).raise_for_status().json()["id"]
    monkeypatch.setenv("PREFECT__RUNTIME__DEPLOYMENT__ID", identifier)
    yield identifier
    client.delete(f"/deployments/{identifier}").raise_for_status()


@pytest.mark.server
@pytest.mark.usefixtures("deployed")
def test_run_with_another_folder_is_refused_and_holds_nothing(window: Window, folder: Path, home: Home) -> None:
    assert sync("letters", folder, exclude=("3.md",)).is_completed()
    other = folder.with_name("otherfolder")
    other.mkdir()
    (other / "late.md").write_text("A letter from elsewhere")
    for name, root in (("letters", other), ("others", folder)):
        state = sync(name, root)
        assert (state.type.value, state.name) == ("FAILED", "Refused")
        run = window.run_of(name)
        assert run["name"] == f"{name}: refused"
        assert "sources.yaml" in run["state"]["message"]
        assert "folder" not in run["state"]["message"]
    ledger = Ledger.open(home.database_url)
    assert ledger.intake.holds() == []
    assert [source.name for source in ledger.sources.all()] == ["letters"]
    assert len(find_hits(ledger, "letter", limit=100)) == 34
    ledger.close()


IMAP = {"host": "imap.example.org", "user": "ada", "password": "env:MAIL"}


@pytest.mark.parametrize(
    ("model", "configured", "changes", "expected"),
    [
        (LocalFilesSettings, {"root": "/notes"}, {"root": "/other"}, ("root",)),
        (LocalFilesSettings, {"root": "/notes"}, {"root": "/notes/", "hidden": True, "priority": "low"}, ()),
        (ObsidianSettings, {"root": "/vault"}, {"root": "/other"}, ("root",)),
        (ImapSettings, IMAP, {"host": "imap.example.com"}, ("host",)),
        (ImapSettings, IMAP, {"user": "eve"}, ("user",)),
        (ImapSettings, IMAP, {"port": 1143}, ("port",)),
        (ImapSettings, IMAP, {"password": "env:OTHER", "trash": True}, ()),
        (GitHubSettings, {"repositories": ["a/b", "a/c"]}, {"repositories": ["a/b"]}, ("repositories",)),
        (GitHubSettings, {"clone": "/clone"}, {"clone": "/other"}, ("clone",)),
        (GitHubSettings, {"repositories": ["a/b"]}, {"address": "https://git.example.org"}, ("address",)),
        (GitHubSettings, {"repositories": ["a/b"]}, {"generated": True}, ()),
    ],
)
def test_settings_of_another_place_differ_from_the_configured_ones(
    model: type[SourceSettings], configured: dict[str, Any], changes: dict[str, Any], expected: tuple[str, ...]
) -> None:
    settings = model.model_validate(configured | changes)
    assert settings.differing(model.model_validate(configured)) == expected


@pytest.mark.parametrize("kind", kinds())
def test_every_kind_states_the_settings_of_its_identity(kind: str) -> None:
    model = connector_class(kind).settings
    assert model.identity
    assert set(model.identity) <= model.model_fields.keys()


@pytest.mark.server
def test_run_of_a_deployment_with_invalid_settings_is_refused(window: Window, folder: Path, deployed: str) -> None:
    body = {"parameters": {"name": "letters", "settings": {"root": "secretfolder"}}}
    window.client.patch(f"/deployments/{deployed}", json=body).raise_for_status()
    assert sync("letters", folder).name == "Refused"
    assert "secretfolder" not in window.run_of("letters")["state"]["message"]
