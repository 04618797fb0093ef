"""Consent in Prefect: a run without consent is skipped, and does not fail."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from catchment.ledger import Batch, Ledger
from catchment.ledger.jobs.queue import Queue
from catchment.model import Priority
from catchment.settings import Home
from catchment.sync.preflight import WHOLE
from tests.flows.conftest import Window
from tests.flows.test_sync import sync
from tests.hits import find_hits

pytestmark = pytest.mark.server


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "letters"
    folder.mkdir()
    for n in range(3):
        (folder / f"{n}.md").write_text(f"Letter number {n}")
    return folder


def withdraw(home: Home, name: str) -> None:
    with closing(Ledger.open(home.database_url)) as ledger:
        source = ledger.sources.put(name, "local_files", Priority.NORMAL)
        ledger.consents.withdraw(source.id, {WHOLE}, "operator:anna")


def ended(home: Home) -> list[str | None]:
    with closing(Ledger.open(home.database_url)) as ledger:
        return [sync.error for sync in ledger.syncs.recent()]


def found(home: Home) -> int:
    with closing(Ledger.open(home.database_url)) as ledger:
        return len(find_hits(ledger, "letter"))


def test_run_without_consent_is_skipped_and_reads_no_item(window: Window, folder: Path, home: Home) -> None:
    withdraw(home, "refused")
    state = sync("refused", folder)
    assert (state.type.value, state.name) == ("COMPLETED", "Skipped")
    run = window.run_of("refused")
    assert run["name"] == "refused: skipped, no consent"
    assert "catchment consent revoke refused" in run["state"]["message"]
    assert window.tasks(run["id"], 0) == []
    assert found(home) == 0


def test_withdrawn_consent_ends_a_run_before_its_next_batch(
    window: Window, folder: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = Queue.claim

    def claim_and_withdraw(*arguments: Any, **named: Any) -> Batch:
        batch = claim(*arguments, **named)
        (folder / "later.md").write_text("A letter that nobody may read")
        withdraw(home, "stopped")
        return batch

    with monkeypatch.context() as patch:
        patch.setattr(Queue, "claim", claim_and_withdraw)
        state = sync("stopped", folder)
    assert (state.type.value, state.name) == ("COMPLETED", "Skipped"), ended(home)
    assert window.run_of("stopped")["name"] == "stopped: 3 added or updated until it was stopped"
    assert sync("stopped", folder).name == "Skipped"
    assert found(home) == 3
    with closing(Ledger.open(home.database_url)) as ledger:
        [last] = ledger.syncs.recent()
        assert (last.outcome, last.summary["succeeded"]) == ("cancelled", 3)
