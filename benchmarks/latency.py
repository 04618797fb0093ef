"""`python -m benchmarks.latency [--saves 50]`: the time from saving a note until search finds it, and its parts.

Uses a real `catchment up` with a separate home, a watched vault of 5,000 notes, and saves as editors make them, at random
times, once all notes have embeddings. Reads the library directly every 20 ms. A note is found by meaning from the moment that
its embeddings are stored. Prints a table, and writes build/latency.json.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

from benchmarks.measure import hardware, tree_cpu
from benchmarks.notes import edit_one, generate
from benchmarks.runs import compare_workers
from benchmarks.saving import EDITORS
from benchmarks.system import BUILD, empty, started
from catchment.ledger import Ledger, Query, Term
from catchment.settings import Home
from console import session
from deployments.actions import sources
from deployments.actions.sources import NewSource
from deployments.runs.runs import start_sync, wait
from deployments.server.client import Client, api
from deployments.server.running import Running
from deployments.sources.entries import Timing

_SOURCE = "notes"
_LOOK_SECONDS = 0.02
_PATIENCE = 60.0
_PATIENCE_AT_FIRST = 1_800.0
"""Seconds for the embeddings of the whole vault."""
_PAUSES = (0.5, 4.0)
"""Minimum and maximum seconds between finding one note and saving the next."""
_PARTS = ("debounce", "to the run", "to its begin", "to the listing", "to the library")


@dataclass(frozen=True)
class Save:
    """One save. Times in seconds since 1970: when the editor had written the file, and when a search found it.

    `near`: when it was found by meaning. `cpu`: CPU seconds of the whole system until it was found by words.
    """

    editor: str
    saved: float
    found: float
    cpu: float
    near: float


def main() -> None:
    """Measure, print, and write the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.latency", description=__doc__)
    parser.add_argument("--saves", type=int, default=50, help="how many notes are saved")
    parser.add_argument("--notes", type=int, default=5_000, help="how many notes the vault has")
    parser.add_argument("--runs", type=int, default=10, help="how many empty runs each worker gets; 0: none")
    asked = parser.parse_args()
    # The empty runs import their flow from here.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path.cwd()), os.environ.get("PYTHONPATH")]))
    with empty("latency") as place:
        generate(place / "vault", asked.notes)
        with started(home := Home(place / "home")) as server:
            report = {"hardware": hardware(), **_measure(home, server, place / "vault", asked)}
    (BUILD / "latency.json").write_text(json.dumps(report, indent=2) + "\n")


def _measure(home: Home, server: Running, vault: Path, asked: argparse.Namespace) -> dict[str, Any]:
    new = NewSource("obsidian", str(vault), _SOURCE, timing=Timing(every="1h", watch=True))
    sources.add(session.desk(), new, "benchmark")
    wait(server, start_sync(server, "obsidian", _SOURCE))
    saves = _save(home, server, vault, asked)
    # Queries to the server would slow down a run in progress.
    time.sleep(2)
    parts = [part for save in saves if (part := _parts(server, save))]
    _print(saves, parts)
    report: dict[str, Any] = {"notes": asked.notes, "saves": [asdict(save) for save in saves], "parts": parts}
    report["seconds"] = _figures([save.found - save.saved for save in saves])
    report["seconds_by_meaning"] = _figures([save.near - save.saved for save in saves])
    if asked.runs:
        report["empty_run"] = {
            name: _figures(taken) for name, taken in compare_workers(home, server, asked.runs).items()
        }
        for name, taken in report["empty_run"].items():
            print(f"an empty run, {name}: " + _line(taken))
    return report


def _save(home: Home, server: Running, vault: Path, asked: argparse.Namespace) -> list[Save]:
    """Save notes one after another, each a random time after the previous one was found."""
    chance = random.Random(1)
    ledger = Ledger.inspect(home.database_url)
    made = []
    try:
        _until(partial(_is_embedded, ledger, 0), _PATIENCE_AT_FIRST, look=1.0)
        for number, (editor, save) in zip(range(asked.saves), cycle(EDITORS.items()), strict=False):
            time.sleep(chance.uniform(*_PAUSES))
            word = f"zq{chance.getrandbits(64):016x}"
            note, text = edit_one(vault, chance.randrange(asked.notes), f"Save {number}: {word}.")
            last, cpu = ledger.embeddings.last_passage(), tree_cpu(server.pid)
            save(note, text)
            saved, found = time.time(), _until(partial(_number_with, ledger, word))
            cpu = tree_cpu(server.pid) - cpu
            made.append(Save(editor, saved, found, cpu, _until(partial(_is_embedded, ledger, last))))
    finally:
        ledger.close()
    return made


def _number_with(ledger: Ledger, word: str) -> int:
    return ledger.library.rank(Query(((Term(word, prefix=False),),), ()), limit=1).total


def _until(is_found: Callable[[], object], patience: float = _PATIENCE, *, look: float = _LOOK_SECONDS) -> float:
    """Return the time at which a note is found. Looks every `look` seconds."""
    deadline = time.time() + patience
    while not is_found():
        if time.time() > deadline:
            raise SystemExit(f"a note was not found within {patience:.0f} s")
        time.sleep(look)
    return time.time()


def _is_embedded(ledger: Ledger, after: int) -> bool:
    """Return whether all passages after one have embeddings."""
    space = ledger.embeddings.searched()
    return space is not None and not ledger.embeddings.missing(space, after, 1)


def _parts(server: Running, save: Save) -> dict[str, float] | None:
    """Return the parts of a save's latency; None if a run that was requested earlier delivered the note."""
    with api(server) as client:
        run = next((run for run in _runs(client, save) if _at(run["created"]) > save.saved), None)
        if run is None:
            return None
        event = max((at for at in _events(client, save) if at < _at(run["created"])), default=save.saved)
        subflows = {"flow_runs": {"parent_flow_run_id": {"any_": [run["id"]]}}, "sort": "START_TIME_ASC", "limit": 1}
        (normalize,) = client.post("/flow_runs/filter", json=subflows).raise_for_status().json()
    moments = [save.saved, event, *map(_at, (run["created"], run["start_time"], normalize["start_time"])), save.found]
    return {part: after - before for part, before, after in zip(_PARTS, moments, moments[1:], strict=False)}


def _runs(client: Client, save: Save) -> list[dict[str, Any]]:
    """Return the runs that were in progress when the note was found, in the order of their start."""
    began = {"before_": _written(save.found), "after_": _written(save.saved - _PATIENCE)}
    query = {"flow_runs": {"start_time": began, "deployment_id": {"is_null_": False}}, "sort": "START_TIME_ASC"}
    found: list[dict[str, Any]] = client.post("/flow_runs/filter", json=query).raise_for_status().json()
    return [run for run in found if run["end_time"] is None or _at(run["end_time"]) > save.found - 2 * _LOOK_SECONDS]


def _events(client: Client, save: Save) -> list[float]:
    occurred = {"since": _written(save.saved), "until": _written(save.found)}
    query = {"filter": {"event": {"name": ["catchment.source.changed"]}, "occurred": occurred}, "limit": 50}
    found = client.post("/events/filter", json=query).raise_for_status().json()
    return [_at(event["occurred"]) for event in found["events"]]


def _print(saves: Sequence[Save], parts: Sequence[dict[str, float]]) -> None:
    print(f"from the save until it is found: {_line(_figures([save.found - save.saved for save in saves]))}")
    print(f"  by meaning: {_line(_figures([save.near - save.saved for save in saves]))}")
    cpu = statistics.median(save.cpu for save in saves)
    print(f"  CPU that the system used meanwhile: median {cpu:.2f} s; load {os.getloadavg()[0]:.1f}")
    for editor in EDITORS:
        taken = [save.found - save.saved for save in saves if save.editor == editor]
        if taken:
            print(f"  {editor:16} {_line(_figures(taken))}")
    print(f"where it goes, in {len(parts)} of {len(saves)}:")
    for name in _PARTS if parts else ():
        print(f"  {name:16} {_line(_figures([part[name] for part in parts]))}")


def _figures(taken: Sequence[float]) -> dict[str, float]:
    ordered = sorted(taken)
    return {
        "p50": statistics.median(ordered),
        "p95": ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))],
        "max": ordered[-1],
        "count": len(ordered),
    }


def _line(figures: dict[str, float]) -> str:
    return "p50 {p50:.3f} s, p95 {p95:.3f} s, longest {max:.3f} s".format_map(figures)


def _at(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


def _written(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat()


if __name__ == "__main__":
    main()
