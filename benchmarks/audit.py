"""A check and a bundle of a long history, beside a bare loop that reads the same rows and only hashes them. Prints JSON.

`seconds` are those of the processor, because a busy machine changes them least.
"""

from __future__ import annotations

import json
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import orjson

from catchment.audit import chain, comparison, export
from catchment.ledger import Ledger
from catchment.ledger.db.schema import items, jobs
from catchment.model import Priority
from catchment.settings import Home

_JOBS_AT_ONCE = 5_000
_STEPS = ("pending", "running", "succeeded")


def fill(home: Home, rows: int) -> None:
    """Fill the ledger of a new home with jobs of one source. Each has a row of the history for each of its three states."""
    with closing(Ledger.open(home.make())) as ledger:
        source, count = ledger.sources.put("notes", "obsidian", Priority.NORMAL).id, rows // len(_STEPS)
        for first in range(1, count + 1, _JOBS_AT_ONCE):
            numbers = range(first, min(first + _JOBS_AT_ONCE, count + 1))
            with ledger._store.write() as writing:
                at = writing.now
                stored = {"source_id": source, "version": "1", "state": "succeeded"}
                item = stored | {"container": "", "first_seen_at": at, "changed_at": at, "state": "present"}
                job = stored | {"current": True, "attempt": 1, "due": at, "enqueued_at": at, "not_before": at}
                writing.insert_named(items, [item | {"id": n, "locator": f"{n}.md"} for n in numbers])
                writing.insert_named(jobs, [job | {"id": n, "item_id": n, "finished_at": at} for n in numbers])
                for state in _STEPS:
                    for n in numbers:
                        writing.record(
                            state,
                            actor="2acd54ff:17170:193156",
                            source_id=source,
                            item_id=n,
                            job_id=n,
                            sync_id=1,
                            attempt=int(state != "pending"),
                            reason="new" if state == "pending" else None,
                        )


def bare(home: Home) -> None:
    """Read the rows with the driver, and compute their hashes. Raises SystemExit if they differ."""
    previous = b""
    with closing(sqlite3.connect(home.path / "ledger.db")) as connection:
        for *row, proof in connection.execute("SELECT * FROM history ORDER BY id"):
            previous = sha256(previous + orjson.dumps(row)).digest()
            if previous != proof:
                raise SystemExit(f"row {row[0]} differs")


def check(home: Home) -> None:
    """Do the work of `catchment audit verify`."""
    with closing(Ledger.open(home)) as ledger:
        if problems := chain.verify(home, ledger).problems:
            raise SystemExit(problems[0])


def bundle(home: Home) -> None:
    """Do the work of `catchment audit export` of everything."""
    target = bundle_of(home)
    target.unlink(missing_ok=True)
    with closing(Ledger.open(home)) as ledger:
        export.export(home, ledger, target)


def unpacked(home: Home) -> None:
    """Verify that bundle with Python alone, after it was unpacked."""
    subprocess.run([sys.executable, "-I", bundle_of(home).with_suffix("") / "verify.py"], check=True, stdout=sys.stderr)


def bundle_of(home: Home) -> Path:
    """Return the bundle of a home, which is unpacked beside it."""
    return home.path.with_name("bundle.tar")


def unpack(home: Home) -> None:
    """Unpack the bundle of a home."""
    folder = bundle_of(home).with_suffix("")
    folder.mkdir()
    comparison.unpack(bundle_of(home), folder)


CASES: dict[str, Callable[[Home], None]] = {"bare": bare, "check": check, "bundle": bundle, "unpacked": unpacked}


def main(case: str, home: Home) -> None:
    """Carry out a case, and print the seconds that its processes used."""
    before = _used()
    CASES[case](home)
    print(json.dumps({"seconds": _used() - before}))


def _used() -> float:
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, who))


if __name__ == "__main__":
    main(sys.argv[1], Home(Path(sys.argv[2])))
