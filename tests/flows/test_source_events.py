"""The events about sources, on which automations can act: each fact once, without private data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from prefect.events.worker import EventsWorker

from catchment.sync.source_sync import HELD_AFTER
from tests.flows.conftest import Window, sync
from tests.waiting import until

pytestmark = pytest.mark.server


def events(window: Window, name: str, number: int) -> list[tuple[str, dict[str, Any]]]:
    """Return the events of a source, oldest first, without the zeros of their payloads, once there are so many."""
    EventsWorker.drain_all()
    query = {"filter": {"resource": {"id": [f"catchment.source.{name}"]}, "order": "ASC"}}
    found = until(
        lambda: window.client.post("/events/filter", json=query).json()["events"], lambda found: len(found) >= number
    )
    assert "secretfolder" not in str(found)
    assert ".pdf" not in str(found)
    return [
        (event["event"].removeprefix("catchment."), {key: value for key, value in event["payload"].items() if value})
        for event in found
    ]


def test_sync_emits_its_figures_and_its_quarantine_by_reason(window: Window, folder: Path) -> None:
    (folder / "good.md").write_text("Good")
    for name in ("bad.pdf", "worse.pdf"):
        (folder / name).write_bytes(b"%PDF-1.7\nthis is no PDF")
    sync("event-figures", folder)
    sync("event-figures", folder)
    found = events(window, "event-figures", 3)
    assert [name for name, _ in found] == ["item.quarantined", "sync.completed", "sync.completed"]
    assert found[0][1] == {"reason": "parse_error", "items": 2}
    assert {"succeeded": 1, "quarantined": 2}.items() <= found[1][1].items()
    assert not {"succeeded", "quarantined"} & found[2][1].keys()


def test_held_deletions_are_emitted_once(window: Window, folder: Path) -> None:
    for number in range(30):
        (folder / f"{number}.md").write_text(f"Note {number}")
    sync("event-emptied", folder)
    for number in range(20):
        (folder / f"{number}.md").unlink()
    sync("event-emptied", folder)
    sync("event-emptied", folder)
    found = events(window, "event-emptied", 4)
    assert " ".join(name for name, _ in found) == "sync.completed deletions.held sync.completed sync.completed"
    assert found[1][1] == {"items": 20}


def test_held_source_is_emitted_with_its_reason(window: Window, folder: Path) -> None:
    folder.rmdir()
    for _ in range(HELD_AFTER):
        sync("event-held", folder)
    assert events(window, "event-held", 1) == [("source.held", {"reason": "source.unreachable"})]
