"""`python -m tests.hazards [--only WORDS] [--beside NAME …]`: do every mishap, judge what is held afterwards, print a table.

Writes build/hazards.json. Ends with 1 when Catchment got something wrong. `--beside` installs other libraries, each into an
environment of its own below build/, and lets the same happen to them.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.acceptance.person import Person, upright
from tests.hazards import installed
from tests.hazards.catchment import Catchment
from tests.hazards.folders import mishaps
from tests.hazards.model import Mishap, System, meet

_BUILD = Path("build").absolute()


@dataclass(frozen=True)
class Row:
    """What one system made of one mishap; `seconds` and `peak_mb` of bringing it in afterwards."""

    mishap: str
    expected: str
    system: str
    right: bool
    seen: str
    seconds: float
    peak_mb: float


def main() -> int:
    """Do them all; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.hazards", description=__doc__)
    parser.add_argument("--only", default="", help="only the mishaps whose name has these words")
    parser.add_argument("--beside", nargs="*", default=[], choices=installed.names(), help="other libraries")
    asked = parser.parse_args()
    place = _BUILD / "hazards"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    others = [installed.Installed(name, _BUILD / "libraries", place) for name in asked.beside]
    rows = []
    for row in _rows(place, others, asked.only):
        rows.append(row)
        print(f"{row.mishap:42}{row.expected:30}{row.system:22}{row.seconds:6.1f} s  {row.seen}", flush=True)
    (_BUILD / "hazards.json").write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    shutil.rmtree(place)
    _print_totals(rows)
    return 0 if all(row.right for row in rows if row.system == Catchment.name) else 1


def _rows(place: Path, others: list[installed.Installed], only: str) -> Iterator[Row]:
    with upright(Person(place / "home")) as person:
        systems: list[System] = [Catchment(person), *others]
        for number, mishap in enumerate(one for one in mishaps() if only in one.name):
            for system in systems:
                folder = place / f"{number}-{system.name}-{'-'.join(mishap.name.replace(',', '').split())}".lower()
                yield _row(system, mishap, folder)


def _row(system: System, mishap: Mishap, folder: Path) -> Row:
    verdict, first, second = meet(system, mishap, folder)
    peak_mb = max(first.peak_mb, second.peak_mb)
    return Row(mishap.name, mishap.expected, system.name, verdict.right, str(verdict), second.seconds, peak_mb)


def _print_totals(rows: list[Row]) -> None:
    print()
    for system in dict.fromkeys(row.system for row in rows):
        mine = [row for row in rows if row.system == system]
        seconds = statistics.median(row.seconds for row in mine)
        peak = max(row.peak_mb for row in mine)
        right = sum(row.right for row in mine)
        print(f"{system:22} {right} of {len(mine)} right; a median of {seconds:.1f} s each, at most {peak:.0f} MB")


if __name__ == "__main__":
    sys.exit(main())
