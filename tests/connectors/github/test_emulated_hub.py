"""The connector against a third-party GitHub API server: every entry is reported once, with few requests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from catchment.errors import SourceError
from connectors.contract.memory_ledger import MemoryLedger
from connectors.github import GitHub
from connectors.github.settings import GitHubSettings
from tests.connectors.github.emulator import TOKEN, Emulator, emulating
from tests.connectors.github.proxy import Exchange

pytestmark = pytest.mark.acceptance


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """A repository with seven issues, five comments and a release."""
    with emulating(tmp_path_factory.mktemp("emulate")) as emulator:
        for number in range(1, 8):
            emulator.do("POST", "/issues", title=f"Trouble {number}", body=f"See #{number}")
        for number in (1, 1, 2, 3, 7):
            emulator.do("POST", f"/issues/{number}/comments", body=f"About {number}")
        emulator.do("POST", "/releases", tag_name="v1.0", name="First", body="It stands")
        emulator.proxy.harm = emulator.complete
        yield emulator


@pytest.fixture
def github(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHub]:
    monkeypatch.setenv("HUB_TOKEN", TOKEN)
    given = {"repositories": ("ada/weir",), "include": ("issues", "pulls", "releases"), "token": "env:HUB_TOKEN"}
    with closing(GitHub(GitHubSettings(**given, address=emulator.proxy.address))) as github:  # type: ignore[arg-type]
        yield github


def test_emulated_entries_are_reported_once(emulator: Emulator, github: GitHub) -> None:
    ledger = MemoryLedger()
    assert len(ledger.sync(github).fetched) == 13
    emulator.proxy.forget()
    assert ledger.sync(github).item_changes == []
    assert (len(emulator.proxy.paths), emulator.proxy.free) == (3, 3)
    emulator.do("PATCH", "/issues/3", body="Another text", state="closed")
    comment = emulator.do("POST", "/issues/5/comments", body="New")["id"]
    report = ledger.sync(github)
    assert report.fetched == {"ada/weir#3", f"ada/weir#5/comment/{comment}"}
    assert ledger.rows["ada/weir#3"].item.attributes["state"] == "closed"
    emulator.do("DELETE", f"/issues/comments/{comment}")
    assert ledger.sync(github).deleted == {f"ada/weir#5/comment/{comment}"}
    assert ledger.sync(github).item_changes == []


def test_connection_lost_at_any_request_is_recovered(emulator: Emulator, github: GitHub) -> None:
    whole = MemoryLedger()
    emulator.proxy.forget()
    whole.sync(github)
    count = len(emulator.proxy.paths)
    for at in range(count):
        emulator.proxy.forget()

        def cut(exchange: Exchange, at: int = at) -> None:
            emulator.complete(exchange)
            if exchange.number in (at, at + 1):
                exchange.cut()

        emulator.proxy.harm = cut
        ledger = MemoryLedger()
        with pytest.raises(SourceError):
            ledger.sync(github)
        emulator.proxy.harm = emulator.complete
        ledger.sync(github)
        assert (ledger.documents(), ledger.marks) == (whole.documents(), whole.marks)
