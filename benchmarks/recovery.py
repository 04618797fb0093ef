"""Recovery of the jobs of a dead process: the time until they wait again. Prints JSON."""

from __future__ import annotations

import json
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from catchment.ledger import Ledger
from catchment.model import Item, Priority, Upsert
from catchment.runtime import process

_BATCH = 1_000
_DEAD = "gone:1:1"


def measure(file: Path, interrupted: int) -> dict[str, Any]:
    """Fill a new ledger with jobs that a process from before a reboot holds, and recover them."""
    ledger = Ledger.open(f"sqlite:///{file.absolute()}")
    source = ledger.sources.put("notes", "obsidian", Priority.NORMAL)
    sync = ledger.syncs.begin(source.id, run=None, owner=_DEAD, code_version="bench", alive=process.alive)
    items = [Upsert(Item(f"{n // 100}/{n}.md", str(n // 100), "1")) for n in range(interrupted)]
    ledger.intake.record(sync.id, items, {})
    for _ in range(0, interrupted, _BATCH):
        ledger.queue.claim(source.id, _BATCH, owner=_DEAD, lease=timedelta(minutes=5), fresh=True)
    begun = time.perf_counter()
    recovered = ledger.queue.recover(source.id, process.alive, 3)
    ledger.syncs.close_dead(process.alive)
    seconds = time.perf_counter() - begun
    ledger.close()
    return {"seconds": seconds, "recovered": recovered.released}


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]), int(sys.argv[2]))))
