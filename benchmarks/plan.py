"""What is compared with what. In each comparison the first case is the yardstick of the others."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import Case
from benchmarks.notes import edit, generate
from catchment.settings import Home
from console.adding import Timing, commit, prepare
from deployments.server import running
from deployments.supervisor import down, up

_CHANGED_EVERY = 67
"""One note in 67 is 1.5 %."""


@dataclass(frozen=True)
class Comparison:
    """Cases that do the same work."""

    title: str
    cases: Sequence[Case]


def comparisons(place: Path, *, notes: int) -> Iterator[Comparison]:
    """Everything that is measured; `place` is an empty folder on a real disk. Made one by one, so that each finds it clean."""
    vault = place / "vault"
    size = generate(vault, notes)
    database, home, alone = place / "bare.db", Home(place / "home"), Home(place / "alone")
    with _server(home, vault):
        bare = Case("bare loop", _python("benchmarks.bare", "ingest", vault, database), prepare=_remover(database))
        walk = Case("bare walk, every file's stat", _python("benchmarks.bare", "walk", vault))
        engine = _python("benchmarks.engine", vault, alone.path)
        prefect = _python("benchmarks.through_prefect", home.path, "notes")
        yield Comparison(
            f"First ingest of {notes:,} notes ({size / 1e6:.1f} MB)",
            [
                bare,
                Case("the engine alone", engine, prepare=_forget(alone)),
                Case("through Prefect", prefect, prepare=_forget(home)),
            ],
        )
        yield Comparison(
            f"Nothing changed in {notes:,} notes",
            [walk, Case("the engine alone", engine), Case("through Prefect", prefect)],
        )
        yield Comparison(
            f"1.5 % changed of {notes:,} notes",
            [
                walk,
                Case("the engine alone", engine, prepare=_editor(vault, notes)),
                Case("through Prefect", prefect, prepare=_editor(vault, notes)),
            ],
        )
    yield from _many_files(place, notes * 10)
    yield _claims(place, notes * 10)
    yield _recovery(place, notes)
    yield Comparison(
        "The sandbox, 10,000 tasks that do nothing",
        [Case("2 KB in, 3 KB out", [sys.executable, "-c", "from benchmarks.parsers import main; main(10_000)"])],
    )


def _many_files(place: Path, files: int) -> Iterator[Comparison]:
    """Listing a folder that did not change; what is in the files does not matter for that."""
    folder, home = place / "many", Home(place / "many-home")
    (folder / ".obsidian").mkdir(parents=True)
    for number in range(files):
        if number % 100 == 0:
            (folder / str(number // 100)).mkdir()
        (folder / str(number // 100) / f"{number}.md").touch()
    yield Comparison(
        f"Nothing changed in {files:,} files: the listing",
        [
            Case("bare walk, every file's stat", _python("benchmarks.bare", "walk", folder)),
            Case("the engine's listing", _python("benchmarks.engine", folder, home.path, "list")),
        ],
    )


def _claims(place: Path, pending: int) -> Comparison:
    """The yardstick is the 10 ms that a claim may take (p99)."""
    database = place / "claims.db"
    return Comparison(
        f"Claims with {pending:,} jobs pending: work is the p99 of 100 claims",
        [
            Case(f"of {batch}", _python("benchmarks.claims", database, pending, batch), prepare=_remover(database))
            for batch in (200, 500, 1_000)
        ],
    )


def _recovery(place: Path, interrupted: int) -> Comparison:
    """The yardstick is the second in which all must wait again."""
    database = place / "recovery.db"
    command = _python("benchmarks.recovery", database, interrupted)
    return Comparison(
        f"Recovery of {interrupted:,} jobs whose process died",
        [Case("found and waiting again", command, prepare=_remover(database))],
    )


@contextmanager
def _server(home: Home, vault: Path) -> Iterator[None]:
    """A server and a worker with the vault as the source `notes`."""
    os.environ["CATCHMENT_HOME"] = str(home.path)
    up(home, detach=True, announce=print)
    try:
        commit(prepare("obsidian", str(vault), "notes", {}, Timing()))
        yield
    finally:
        if running(home):
            down(home)


def _python(module: str, *arguments: object) -> list[str]:
    return [sys.executable, "-m", module, *map(str, arguments)]


def _forget(home: Home) -> Callable[[], None]:
    """Begin with an empty library."""

    def forget() -> None:
        for name in ("ledger.db", "ledger.db-wal", "ledger.db-shm", "cache.db", "cache.db-wal", "cache.db-shm"):
            (home.path / name).unlink(missing_ok=True)
        shutil.rmtree(home.prefect / "storage", ignore_errors=True)

    return forget


def _editor(vault: Path, notes: int) -> Callable[[], None]:
    return lambda: edit(vault, notes, _CHANGED_EVERY)


def _remover(database: Path) -> Callable[[], None]:
    def remove() -> None:
        for suffix in ("", "-wal", "-shm"):
            database.with_name(database.name + suffix).unlink(missing_ok=True)

    return remove
