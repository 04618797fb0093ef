"""The engine without Prefect: one sync, with the calls that the flows make. Prints JSON."""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from catchment.contracts import Connector
from catchment.settings import Home, SourceSettings
from catchment.sync.shared import configure_gc
from catchment.sync.source_sync import SourceSync, open_sync
from connectors import connector_class

_BATCH = 1_000


def sync(
    kind: str, folder: Path, home: Home, *, name: str = "notes", only_list: bool = False, **policy_changes: int
) -> dict[str, Any]:
    """Sync a folder to the ledger of a home, or only list it."""
    connector = connector_class(kind)
    settings = connector.settings.model_validate({"root": folder})
    return ingest(connector(settings), settings, home, name, only_list=only_list, **policy_changes)


def ingest(
    connector: Connector, settings: SourceSettings, home: Home, name: str, *, only_list: bool = False, **changes: int
) -> dict[str, Any]:
    """Sync a source of any kind."""
    configure_gc()
    start = time.perf_counter()
    policy = settings.policy(connector.policy).model_copy(update=changes)
    with open_sync(home, connector, name, policy, settings.priority) as opened:
        begun = time.perf_counter()
        opened.discover()
        discovered = time.perf_counter() - begun
        if not only_list:
            with ThreadPoolExecutor(2) as two:
                list(two.map(_work, [opened, opened]))
        summary = opened.finish("completed")
    seconds = discovered if only_list else time.perf_counter() - start
    return {"seconds": seconds, "discover": discovered, "documents": summary["succeeded"], "jobs": summary["jobs"]}


def _work(opened: SourceSync) -> None:
    while (token := opened.claim(_BATCH)) is not None:
        opened.process(token)


if __name__ == "__main__":
    print(json.dumps(sync(sys.argv[1], Path(sys.argv[2]), Home(Path(sys.argv[3])), only_list=sys.argv[4:] == ["list"])))
