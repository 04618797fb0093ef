"""What `sync --wait` shows while a person waits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from catchment.errors import TryAgain
from console import session
from console.render import clock
from console.sources import syncs
from console.sources.syncs import how_far, in_words
from deployments.runs.runs import RunView


def test_a_sync_that_is_waited_for_shows_how_far_it_is_and_when_it_will_be_done() -> None:
    soon = datetime.now(UTC) + timedelta(minutes=5)
    assert how_far(75, 100, None) == " [#####---------------] 25 of 100"
    assert how_far(75, 100, soon) == f" [#####---------------] 25 of 100, done about {clock(soon)}"
    assert how_far(75, 100, soon - timedelta(hours=1)) == how_far(75, 100, None), "it was wrong"
    assert how_far(0, 100, soon) == ""


def test_a_run_that_stands_still_while_the_disk_is_full_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    running = RunView("1", "notes: 1", "RUNNING", "Running", "", "")
    monkeypatch.setattr(session, "disk_is_full", lambda: True)
    with syncs._Progress("notes") as show:
        show(running)
        show(running)
        monkeypatch.setattr(syncs, "_STILL_SECONDS", 0.0)
        with pytest.raises(TryAgain, match="disk is full"):
            show(running)
        monkeypatch.setattr(session, "disk_is_full", lambda: False)
        show(running)
    assert capsys.readouterr().err == "notes: running\n"


def test_a_state_is_told_in_words() -> None:
    assert [in_words(name) for name in ("AwaitingConcurrencySlot", "Running")] == [
        "awaiting concurrency slot",
        "running",
    ]
