"""`python -m benchmarks.beside [--pairs 5]`: how much a run of `embed` slows down a sync.

Uses a real `catchment up` with a library of many passages without embeddings. Syncs 2,000 new notes without a run of `embed`,
then beside one, and so on. Prints the seconds of each pair and the ratio of the medians, and writes build/beside.json.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from zlib import crc32

from benchmarks.measure import hardware
from benchmarks.notes import generate
from benchmarks.system import BUILD, empty, started
from catchment.ledger import EmbeddingCounts, Ledger
from catchment.settings import Home
from console import session
from deployments.actions import sources
from deployments.actions.sources import NewSource
from deployments.runs.runs import start_background, start_sync, wait
from deployments.server.client import api
from deployments.server.running import Running

_NOTES = 2_000
_REST = 3.0
"""Seconds before each sync, for the work after the previous one."""


def main() -> None:
    """Measure, print, and write the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.beside", description=__doc__)
    parser.add_argument("--pairs", type=int, default=5, help="pairs of syncs (default: %(default)s)")
    parser.add_argument("--backlog", type=int, default=10_000, help="other notes to embed (default: %(default)s)")
    asked = parser.parse_args()
    with empty("beside") as place, started(home := Home(place / "home")) as server:
        _switch(server, "pause")
        _sync(home, server, place / "backlog", asked.backlog)
        pairs = []
        for number in range(asked.pairs):
            alone = _sync(home, server, place / f"alone-{number}", _NOTES)
            with _embedding(home, server):
                beside = _sync(home, server, place / f"beside-{number}", _NOTES)
            pairs.append((alone, beside))
            print(f"{alone:6.2f} s alone, {beside:6.2f} s beside embed: {beside / alone:.2f}", flush=True)
    alone, beside = map(statistics.median, zip(*pairs, strict=True))
    ratio = beside / alone
    print(f"medians {alone:.2f} s and {beside:.2f} s: {ratio:.2f}; load {os.getloadavg()[0]:.1f}")
    report = {"hardware": hardware(), "pairs": pairs, "ratio": ratio}
    (BUILD / "beside.json").write_text(json.dumps(report, indent=2) + "\n")


def _sync(home: Home, server: Running, folder: Path, notes: int) -> float:
    """Add a vault of new notes as a source. Returns the seconds of its first sync, from its begin to its end in the ledger."""
    generate(folder, notes, seed=crc32(folder.name.encode()))
    sources.add(session.desk(), NewSource("obsidian", str(folder), folder.name), "benchmark")
    time.sleep(_REST)
    run = wait(server, start_sync(server, "obsidian", folder.name))
    with closing(Ledger.inspect(home.database_url)) as ledger:
        (sync,) = ledger.syncs.recent(limit=1)
    if run.state_type != "COMPLETED" or sync.source != folder.name or sync.ended is None:
        raise SystemExit(f"the run {run.name} ended {run.state_name}: {run.message}")
    return (sync.ended - sync.began).total_seconds()


@contextmanager
def _embedding(home: Home, server: Running) -> Iterator[None]:
    """A run of `embed` that works during the block. Raises SystemExit if all embeddings exist at the end."""
    begun = _counts(home).done
    _switch(server, "resume")
    start_background(server, "embed")
    while _counts(home).done == begun:
        time.sleep(0.1)
    yield
    counts = _counts(home)
    if counts.done == counts.total:
        raise SystemExit("all embeddings are made; give a larger --backlog")
    _switch(server, "pause")
    with api(server) as client:
        running = {"flow_runs": {"state": {"type": {"any_": ["RUNNING"]}}}}
        while client.post("/flow_runs/filter", json=running).raise_for_status().json():
            time.sleep(0.5)


def _counts(home: Home) -> EmbeddingCounts:
    with closing(Ledger.inspect(home.database_url)) as ledger:
        return ledger.embeddings.counts(ledger.embeddings.wanted())


def _switch(server: Running, action: str) -> None:
    with api(server) as client:
        deployment = client.get("/deployments/name/embed/embed").raise_for_status().json()["id"]
        client.post(f"/deployments/{deployment}/{action}_deployment").raise_for_status()


if __name__ == "__main__":
    main()
