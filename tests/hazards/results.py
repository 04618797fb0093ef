"""The results: one row per hazard and system, stored in a file, and the document generated from it."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.measure import hardware

_HEAD = Path(__file__).with_name("head.md")
OURS = "catchment"


@dataclass(frozen=True)
class Row:
    """The result of one hazard on one system; `seconds` and `peak_mb` of the later ingestion, or of the whole hazard.

    `policy`: the expected outcome is a rule of Catchment that other systems need not share.
    """

    area: str
    hazard: str
    expected: str
    system: str
    right: bool
    seen: str
    seconds: float
    peak_mb: float = 0.0
    policy: bool = False


@dataclass(frozen=True)
class Pace:
    """The duration of one step with a larger folder on one system."""

    step: str
    system: str
    seconds: float
    peak_mb: float


@dataclass(frozen=True)
class Results:
    """All results so far; a repeated hazard replaces its earlier result."""

    rows: dict[str, Row]
    paces: dict[str, Pace]
    versions: dict[str, str]

    @classmethod
    def kept(cls, file: Path) -> Results:
        """Read the results from a file; empty without a file."""
        has = json.loads(file.read_text()) if file.exists() else {"rows": [], "paces": [], "versions": {}}
        results = cls({}, {}, has["versions"])
        for row in has["rows"]:
            results.add(Row(**row))
        for pace in has["paces"]:
            results.measured(Pace(**pace))
        return results

    def add(self, row: Row) -> None:
        self.rows[f"{row.area}/{row.hazard}/{row.system}"] = row

    def measured(self, pace: Pace) -> None:
        self.paces[f"{pace.step}/{pace.system}"] = pace

    def keep(self, file: Path) -> None:
        """Write the results to a file."""
        rows, paces = [asdict(row) for row in self.rows.values()], [asdict(pace) for pace in self.paces.values()]
        file.write_text(json.dumps({"rows": rows, "paces": paces, "versions": self.versions}, indent=1) + "\n")

    def document(self) -> str:
        """Return the generated tables, after the text written by hand."""
        tables = [*_on(), *self._ours(), *self._beside(), *self._measured()]
        return _HEAD.read_text(encoding="utf-8") + "\n".join(tables) + "\n"

    def _ours(self) -> Iterator[str]:
        mine = [row for row in self.rows.values() if row.system == OURS]
        yield f"## Catchment: {sum(row.right for row in mine)} of {len(mine)} as expected"
        for area in dict.fromkeys(row.area for row in mine):
            yield from ("", f"### {area.capitalize()}", "")
            cells = [(row.hazard, row.expected, row.seen, _seconds(row.seconds)) for row in mine if row.area == area]
            yield from _table(("hazard", "expected", "seen", "seconds"), cells)

    def _beside(self) -> Iterator[str]:
        systems = [OURS, *sorted({row.system for row in self.rows.values()} - {OURS})]
        seen = {(row.hazard, row.system): row for row in self.rows.values() if row.area == "folder"}
        met = {hazard: [seen[hazard, system] for system in systems if (hazard, system) in seen] for hazard, _ in seen}
        compared = {hazard: rows for hazard, rows in met.items() if len(rows) == len(systems)}
        if len(systems) == 1 or not compared:
            return
        yield from (
            "",
            "## Side by side",
            "",
            "Versions: " + ", ".join(self.versions[system] for system in systems) + ".",
            "",
        )
        cells = [
            (f"{hazard} \\*" if rows[0].policy else hazard, *(row.seen for row in rows))
            for hazard, rows in compared.items()
        ]
        mine = {system: [seen[hazard, system] for hazard in compared] for system in systems}
        binding = {system: [row for row in rows if not row.policy] for system, rows in mine.items()}
        cells += [
            ("**right**", *(_right(mine[system]) for system in systems)),
            ("**right, without \\***", *(_right(binding[system]) for system in systems)),
            ("median seconds", *(_seconds(statistics.median(row.seconds for row in mine[s])) for s in systems)),
            ("peak memory, MB", *(f"{max(row.peak_mb for row in mine[s]):.0f}" for s in systems)),
        ]
        yield from _table(("hazard", *systems), cells)

    def _measured(self) -> Iterator[str]:
        if not self.paces:
            return
        yield from ("", "## A thousand notes", "")
        cells = [
            (pace.step, pace.system, _seconds(pace.seconds), f"{pace.peak_mb:.0f}")
            for pace in sorted(self.paces.values(), key=lambda pace: pace.step)
        ]
        yield from _table(("step", "system", "seconds", "memory, MB"), cells)


def _on() -> Iterator[str]:
    machine = hardware()
    where = f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gb']} GB, {machine['system']}"
    yield from (f"Measured on: {where}, Python {machine['python']}.", "")


def _right(rows: list[Row]) -> str:
    return f"**{sum(row.right for row in rows)} of {len(rows)}**"


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f}"


def _table(head: tuple[str, ...], cells: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield "|---" * len(head) + "|"
    for row in cells:
        yield f"| {' | '.join(cell.replace('|', '/') for cell in row)} |"
