"""`python -m benchmarks.programs [--quick]`: records of a program, beside a bare loop that parses them and writes rows.

The program prints the same Singer messages each time. Processor time of this process alone, as the bare loop makes no
documents; memory of all processes.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import orjson

from benchmarks.measure import Peak
from catchment.ledger import Ledger
from catchment.model import Priority
from catchment.settings import Home
from catchment.sync.source_sync import SourceSync, open_sync
from connectors.programs import Program
from connectors.programs.settings import ProgramSettings

_BATCH = 1_000
_ROWS = 2_000


def main() -> None:
    """Measure the bare loop, a first sync and one without changes; print a line for each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.programs", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="10 000 records, not 100 000")
    number = 10_000 if parser.parse_args().quick else 100_000
    with tempfile.TemporaryDirectory(prefix="catchment-") as name:
        folder = Path(name)
        records, command = folder / "records.jsonl", folder / "tap.sh"
        _write(records, number)
        command.write_text(f"#!/bin/sh\nexec cat {records}\n")
        command.chmod(0o755)
        print(f"{number:,} records, {records.stat().st_size / 1e6:.0f} MB")
        _measured("bare loop: parse, write a row", lambda: _bare(records, folder / "bare.db"))
        home, connector = Home(folder / "home").make(), Program(ProgramSettings(command=(str(command),)))
        with closing(Ledger.open(home.database_url)) as ledger:
            source = ledger.sources.put("records", "program", Priority.NORMAL)
            ledger.consents.give(source.id, frozenset(connector.scopes()), "bench", None)
        for label in ("first sync", "no change"):
            with open_sync(home, connector, "records", connector.policy, Priority.NORMAL) as sync:
                _measured(f"{label}: listing", sync.discover)
                _measured(f"{label}: documents", lambda sync=sync: _read(sync))  # type: ignore[misc]
                sync.finish("completed")


def _write(file: Path, number: int) -> None:
    with file.open("w", encoding="utf-8") as lines:
        lines.write('{"type":"SCHEMA","stream":"people","schema":{},"key_properties":["id"]}\n')
        for key in range(number):
            facts = {"id": key, "name": f"Person {key}", "town": f"Town {key % 977}", "since": f"20{key % 26:02}-03-01"}
            values = {**facts, **{f"field_{place}": f"value {key * place % 10_007}" for place in range(12)}}
            lines.write(json.dumps({"type": "RECORD", "stream": "people", "record": values}) + "\n")


def _bare(file: Path, database: Path) -> None:
    rows: list[tuple[str, bytes]] = []
    with closing(sqlite3.connect(database)) as connection, file.open("rb") as lines:
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute("CREATE TABLE records(id TEXT PRIMARY KEY, data BLOB) WITHOUT ROWID")
        for line in lines:
            if (message := orjson.loads(line))["type"] == "RECORD":
                data = orjson.dumps(message["record"], option=orjson.OPT_SORT_KEYS)
                rows.append((str(message["record"]["id"]), data))
            if len(rows) >= _ROWS:
                connection.executemany("INSERT INTO records VALUES (?, ?)", rows)
                connection.commit()
                rows = []
        connection.executemany("INSERT INTO records VALUES (?, ?)", rows)
        connection.commit()


def _read(sync: SourceSync) -> None:
    while (token := sync.claim(_BATCH)) is not None:
        sync.process(token)


def _measured(label: str, work: Callable[[], object]) -> None:
    before, began = os.times(), time.perf_counter()
    with Peak(os.getpid(), look=True) as peak:
        work()
    after = os.times()
    processor = after.user + after.system - before.user - before.system
    print(
        f"{label:32} {processor:6.2f} s processor, {time.perf_counter() - began:6.1f} s, {peak.mb:4.0f} MB", flush=True
    )


if __name__ == "__main__":
    main()
