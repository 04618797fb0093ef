"""Sync one note, so that later forks of this process have everything imported and compiled."""

from __future__ import annotations

import tempfile
from pathlib import Path

from catchment.settings import Home
from catchment.sync.circumstances import circumstances
from catchment.sync.source_sync import open_sync
from connectors import connector_class

_NOTE = "---\ntags: [rehearsal]\n---\n# A note\n\nIt [[links]] to another.\n"


def rehearse() -> None:
    """Ingest a note into a ledger in a temporary folder twice, then remove both."""
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as place:
        home, folder = Home(Path(place) / "home"), Path(place) / "notes"
        folder.mkdir()
        (folder / "note.md").write_text(_NOTE, encoding="utf-8")
        for _ in range(2):
            _sync(home, folder)


def _sync(home: Home, folder: Path) -> None:
    connector = connector_class("local_files")
    settings = connector.settings.model_validate({"root": folder})
    policy = settings.policy(connector.policy)
    now = circumstances(settings)
    with open_sync(home, connector(settings), "rehearsal", policy, settings.priority, now=now) as sync:
        sync.discover()
        while (token := sync.claim(1)) is not None:
            sync.process(token)
        sync.finish("completed")
