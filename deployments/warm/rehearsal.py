"""One sync of one note before the first run is forked: what is slow the first time is done then, for all forks."""

from __future__ import annotations

import tempfile
from pathlib import Path

from catchment.runtime.fingerprints import circumstances
from catchment.settings import Home
from catchment.sync.session import open_sync
from connectors import connector_class

_NOTE = "---\ntags: [rehearsal]\n---\n# A note\n\nIt [[links]] to another.\n"


def rehearse() -> None:
    """Bring a note into a ledger of its own, and leave nothing of either; nothing is open and no thread runs afterwards.

    Not where the ledger is on PostgreSQL: what its statements are like is known only when it is connected to.
    """
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as place:
        home, folder = Home(Path(place) / "home"), Path(place) / "notes"
        if not home.database_url.endswith(str(home.path / "ledger.db")):
            return
        folder.mkdir()
        (folder / "note.md").write_text(_NOTE, encoding="utf-8")
        _sync(home, folder)
        # The first began with nothing known; this one finds nothing changed, and starts no parser.
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
