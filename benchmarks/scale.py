"""`python -m benchmarks.scale [--quick] [--postgres]`: the cost of a run.

For syncs with and without changes, for `embed` and `deliver` without work, and for an idle minute: rows in Prefect's database
and in the ledger, writing transactions of the ledger, requests to Prefect's server, and CPU seconds of each process. The idle
share of each figure is subtracted. With `--postgres`, the ledger is on a private PostgreSQL server; only that counts
transactions. Writes build/scale.json.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from functools import partial
from pathlib import Path

from sqlalchemy import Engine, create_engine, inspect, text

from benchmarks.measure import hardware
from benchmarks.notes import generate
from benchmarks.system import BUILD, by_role, empty, started
from catchment.ledger import Ledger
from catchment.settings import Home
from console import session
from deployments.actions import sinks, sources
from deployments.actions.sources import NewSource
from deployments.runs.deliveries import start_delivery
from deployments.runs.runs import start_background, start_sync
from deployments.server.running import Running
from tests.connectors.web.server import SmallWeb
from tests.postgres_server import PostgresServer

_ALTERED = Path(__file__).parents[1] / "tests" / "altered"
_SETTLE_SECONDS = 8.0
"""Prefect writes events up to a second later, and the worker looks for more work after a run."""
_NOTES = 200
Figures = dict[str, float]


def main() -> None:
    """Measure each case, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="half a minute idle, two syncs, no 1,000 changes")
    parser.add_argument("--postgres", action="store_true", help="the ledger on PostgreSQL")
    given = parser.parse_args()
    with empty("scale") as place, _postgres() if given.postgres else nullcontext() as ledger, SmallWeb() as web:
        home = Home(place / "home").make()
        log = place / "requests"
        os.environ.update(PYTHONPATH=str(_ALTERED), COUNTED_REQUESTS=str(log))
        with started(home) as state:
            meter = Meter(state, home, log, create_engine(f"sqlite:///{home.prefect}/prefect.db"), ledger)
            cases = dict(measure(meter, place, web, quick=given.quick))
    report = {"hardware": hardware(), "postgres": given.postgres, "cases": cases}
    (BUILD / "scale.json").write_text(json.dumps(report, indent=2) + "\n")


@contextmanager
def _postgres() -> Iterator[Engine]:
    """Put the ledger of every home on a private PostgreSQL server."""
    # A socket's path must be short.
    with tempfile.TemporaryDirectory(prefix="scale-") as folder:
        Path(folder).chmod(0o755)
        server = PostgresServer(Path(folder))
        server.start()
        try:
            os.environ["CATCHMENT_DATABASE_URL"] = server.url
            yield create_engine(server.url)
        finally:
            server.stop()


class Meter:
    """Measures the cost of an action, less the cost of an idle system in the same time."""

    def __init__(self, state: Running, home: Home, log: Path, prefect: Engine, ledger: Engine | None) -> None:
        self.state, self.home = state, home
        self._log = log
        self._prefect = prefect
        self._ledger = ledger or create_engine(f"sqlite:///{home.path}/ledger.db")
        self.idle: Figures = {}

    def cost(self, act: Callable[[], object], times: int = 1) -> Figures:
        """Return the figures of one action, from the difference after `times` of them."""
        before, began = self._read(), time.monotonic()
        for _ in range(times):
            act()
        time.sleep(_SETTLE_SECONDS)
        minutes = (time.monotonic() - began) / 60
        after = self._read()
        return {
            name: round((after[name] - before.get(name, 0) - self.idle.get(name, 0) * minutes) / times, 3)
            for name in after
        }

    def rest(self, seconds: float) -> Figures:
        """Measure an idle minute."""
        figures = self.cost(lambda: time.sleep(seconds - _SETTLE_SECONDS))
        self.idle = {name: round(value * 60 / seconds, 3) for name, value in figures.items()}
        return self.idle

    def sync(self, kind: str, name: str) -> None:
        """Sync a source, watching its ledger only: requests would be counted."""
        run = start_sync(self.state, kind, name)
        self._until(lambda ledger: any(row.run == run and row.ended for row in ledger.syncs.recent(limit=10)))

    def _until(self, is_over: Callable[[Ledger], bool]) -> None:
        with closing(Ledger.inspect(self.home)) as ledger:
            while not is_over(ledger):
                time.sleep(0.05)

    def _read(self) -> Figures:
        figures: Figures = {}
        for name, database in (("prefect", self._prefect), ("ledger", self._ledger)):
            rows = _rows(database)
            figures[f"{name} rows"] = sum(rows.values())
            figures |= {f"{name}.{table}": count for table, count in rows.items()}
        figures["requests"] = self._log.read_text().count("\n") if self._log.exists() else 0
        if self._ledger.dialect.name == "postgresql":
            with self._ledger.connect() as connection:
                figures["ledger commits"] = int(connection.execute(text("SELECT txid_current()")).scalar_one())
        for process, role in by_role(self.state).items():
            figures[f"cpu {role}"] = figures.get(f"cpu {role}", 0.0) + sum(process.cpu_times()[:4])
        return figures


def _rows(engine: Engine) -> Mapping[str, int]:
    with engine.connect() as connection:
        names = inspect(connection).get_table_names()
        return {
            name: int(connection.execute(text(f'SELECT count(*) FROM "{name}"')).scalar_one())
            for name in names
            # Full-text indexes of SQLite need functions of ours.
            if "index" not in name
        }


def measure(meter: Meter, place: Path, web: SmallWeb, *, quick: bool) -> Mapping[str, Figures]:
    """Measure all cases, the idle minute first."""
    times = 2 if quick else 10
    folders = {kind: place / kind for kind in ("local_files", "obsidian")}
    for folder in folders.values():
        generate(folder, _NOTES)
    locations = {kind: str(folder) for kind, folder in folders.items()}
    host = web.hosts[0]
    locations["web"] = host.put("/page", "<html><body><p>One page.</p></body></html>")
    for kind, location in locations.items():
        sources.add(session.desk(), NewSource(kind, location, kind), "benchmark", consented=True)
        meter.sync(kind, kind)
    time.sleep(60)  # embeddings are made after the first syncs
    cases = {"idle minute": meter.rest(30 if quick else 120)}
    _show("idle minute", cases["idle minute"])

    def case(name: str, act: Callable[[], object], times: int = 1) -> None:
        cases[name] = meter.cost(act, times)
        _show(name, cases[name])

    for kind in locations:
        case(f"{kind}, no change", partial(meter.sync, kind, kind), times)
    notes = sorted(folders["local_files"].rglob("*.md"))
    for changes in (1, 100) if quick else (1, 100, 1_000):
        while len(notes) < changes:
            new = folders["local_files"] / f"more-{len(notes)}.md"
            new.write_text(f"# Note {len(notes)}\n")
            notes.append(new)
        for note in notes[:changes]:
            note.write_text(note.read_text() + f"\nchange {changes}\n")
        case(f"local_files, {changes:,} changes", lambda: meter.sync("local_files", "local_files"))
    time.sleep(_SETTLE_SECONDS)
    case("embed, nothing to do", lambda: start_background(meter.state, "embed"))
    sinks.add(session.desk(), "folder", str(place / "sink"), "copy", "benchmark")
    time.sleep(2 * _SETTLE_SECONDS)
    case("deliver, nothing to do", lambda: start_delivery(meter.home, "copy"))
    return cases


def _show(name: str, figures: Figures) -> None:
    shown = {key: value for key, value in figures.items() if value and "." not in key}
    print(f"{name:28}{json.dumps(shown)}", flush=True)
    print("   ", json.dumps({key: value for key, value in figures.items() if value and "." in key}), flush=True)


if __name__ == "__main__":
    main()
