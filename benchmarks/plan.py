"""What is compared with what. In each comparison the first case is the yardstick of the others."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import Case
from benchmarks.notes import generate


@dataclass(frozen=True)
class Comparison:
    """Cases that do the same work."""

    title: str
    cases: Sequence[Case]


def comparisons(place: Path, *, notes: int) -> Iterator[Comparison]:
    """Everything that is measured; `place` is an empty folder on a real disk. Made one by one, so that each finds it clean."""
    vault = place / "vault"
    size = generate(vault, notes)
    database = place / "bare.db"
    yield Comparison(
        f"First ingest of {notes:,} notes ({size / 1e6:.1f} MB)",
        [Case("bare loop", _python("benchmarks.bare", "ingest", vault, database), prepare=_remover(database))],
    )
    yield Comparison(
        f"Nothing changed in {notes:,} notes",
        [Case("bare walk, every file's stat", _python("benchmarks.bare", "walk", vault))],
    )
    yield Comparison(
        "The sandbox, 10,000 tasks that do nothing",
        [Case("2 KB in, 3 KB out", [sys.executable, "-c", "from benchmarks.parsers import main; main(10_000)"])],
    )


def _python(module: str, *arguments: object) -> list[str]:
    return [sys.executable, "-m", module, *map(str, arguments)]


def _remover(database: Path) -> Callable[[], None]:
    def remove() -> None:
        for suffix in ("", "-wal", "-shm"):
            database.with_name(database.name + suffix).unlink(missing_ok=True)

    return remove
