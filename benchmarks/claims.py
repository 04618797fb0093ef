"""The duration of a claim from a long queue, with many pending jobs. Prints JSON, times in milliseconds."""

from __future__ import annotations

import json
import statistics
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from catchment.ledger import Ledger
from catchment.model import Item, Priority, Upsert
from catchment.runtime import process

_AT_ONCE = 5_000
_MOST_CLAIMS = 400


def measure(file: Path, pending: int, batch: int) -> dict[str, Any]:
    """Fill a new ledger with pending jobs, then claim batches of them."""
    ledger = Ledger.open(f"sqlite:///{file.absolute()}")
    source = ledger.sources.put("notes", "obsidian", Priority.NORMAL)
    sync = ledger.syncs.begin(source.id, run=None, owner=process.identity(), code_version="bench", alive=process.alive)
    for start in range(0, pending, _AT_ONCE):
        items = (
            Item(f"{n // 100}/{n}.md", str(n // 100), "1", size=2_000)
            for n in range(start, min(start + _AT_ONCE, pending))
        )
        ledger.intake.record(sync.id, [Upsert(item) for item in items], {})
    times = []
    for _ in range(min(_MOST_CLAIMS, pending // batch - 1) + 1):
        begun = time.perf_counter()
        ledger.queue.claim(
            source.id, batch, owner="bench", lease=timedelta(minutes=5), fresh=True, most_bytes=1_000_000_000
        )
        times.append((time.perf_counter() - begun) * 1_000)
    ledger.close()
    # The first claim also prepares the statements, once per process.
    first, *others = times
    cuts = statistics.quantiles(others, n=100)
    return {"seconds": cuts[98] / 1_000, "p50_ms": cuts[49], "p95_ms": cuts[94], "p99_ms": cuts[98], "first_ms": first}


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
