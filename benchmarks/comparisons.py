"""The comparisons. The first case of each is the baseline."""

from __future__ import annotations

import shutil
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import create_engine

from benchmarks import documents
from benchmarks.measure import Case
from benchmarks.notes import edit, generate
from benchmarks.system import started
from catchment.ledger import OFF, Ledger
from catchment.settings import Home
from console import session
from deployments.actions import sources
from deployments.actions.sources import NewSource
from tests.postgres_server import PostgresServer, is_installed

_CHANGED_EVERY = 67
"""Every 67th note: 1.5 %."""
_WALK, ALONE, _PREFECT = "bare walk, every file's stat", "the engine alone", "through Prefect"
_DOCUMENTATION = (Path("/usr/share/doc"), Path(sysconfig.get_path("purelib")))
_TEXTS = frozenset({".md", ".rst", ".txt", ".html"})
_MOST_TEXTS = 3_000


@dataclass(frozen=True)
class Comparison:
    """Cases that do the same work. `rounds`: fewer rounds for cases that take long."""

    title: str
    cases: Sequence[Case]
    rounds: int | None = None


def comparisons(place: Path, *, notes: int) -> Iterator[Comparison]:
    """Yield all comparisons. `place` is an empty folder on a real disk. Each comparison starts from a clean folder."""
    vault, tree = place / "vault", place / "documentation"
    size, files = generate(vault, notes), _copy_documentation(tree)
    home, alone = Home(place / "home"), Home(place / "alone")
    with started(home):
        add("obsidian", vault, "notes")
        yield _first(f"First ingest of {notes:,} notes ({size / 1e6:.1f} MB)", "obsidian", vault, "notes", home, alone)
        bare = python("benchmarks.bare", "walk", vault)
        engine = python("benchmarks.engine", "obsidian", vault, alone.path)
        prefect = python("benchmarks.through_prefect", home.path, "obsidian", "notes")
        yield Comparison(
            f"Nothing changed in {notes:,} notes",
            [Case(_WALK, bare), Case(ALONE, engine), Case(_PREFECT, prefect)],
        )
        yield Comparison(
            f"1.5 % changed of {notes:,} notes",
            [
                Case(_WALK, bare),
                Case(ALONE, engine, prepare=editor(vault, notes)),
                Case(_PREFECT, prefect, prepare=editor(vault, notes)),
            ],
        )
    yield from _databases(vault, notes, alone)
    # `forget` replaced the ledger, and the web process of the last start still has the old one open.
    with started(home):
        yield _commands(vault, notes)
        add("local_files", tree, "documentation")
        title = f"First ingest of {files:,} files of documentation that were found on this machine"
        yield _first(title, "local_files", tree, "documentation", home, alone)
        yield from _pdfs(place / "documents", home, alone)
        yield _scaling(place, notes, home)
    yield from _many_files(place, notes * 10)
    yield _claims(place, notes * 10)
    yield _recovery(place, notes)
    yield Comparison(
        "The parser pool, 10,000 tasks that do nothing",
        [Case("2 KB in, 3 KB out", [sys.executable, "-c", "from benchmarks.parsers import main; main(10_000)"])],
    )


def _first(title: str, kind: str, folder: Path, name: str, home: Home, alone: Home) -> Comparison:
    database = home.path.with_name("bare.db")
    return Comparison(
        title,
        [
            Case("bare loop", python("benchmarks.bare", "ingest", folder, database), prepare=remover(database)),
            Case(ALONE, python("benchmarks.engine", kind, folder, alone.path), prepare=forget(alone)),
            Case(_PREFECT, python("benchmarks.through_prefect", home.path, kind, name), prepare=forget(home)),
            Case("at the command", by_command("sync", name, "--wait"), prepare=forget(home)),
        ],
    )


def _pdfs(folder: Path, home: Home, alone: Home) -> Iterator[Comparison]:
    """Yield the first ingest of PDFs, if the program of the baseline is installed."""
    if not documents.require("pdftotext", "poppler-utils"):
        return
    size = documents.generate(folder, documents.COUNT)
    add("local_files", folder, "documents")
    yield Comparison(
        f"First ingest of {documents.COUNT} PDFs ({size / 1e6:.1f} MB)",
        [
            Case("pdftotext, file by file", python("benchmarks.documents", folder)),
            Case(ALONE, python("benchmarks.engine", "local_files", folder, alone.path), prepare=forget(alone)),
            Case(
                _PREFECT,
                python("benchmarks.through_prefect", home.path, "local_files", "documents"),
                prepare=forget(home),
            ),
        ],
        rounds=3,
    )


def _databases(vault: Path, notes: int, home: Home) -> Iterator[Comparison]:
    """Yield the same work on both databases, if PostgreSQL is installed."""
    if not is_installed():
        return
    engine = python("benchmarks.engine", "obsidian", vault, home.path)
    # The socket of a server has a short path.
    with TemporaryDirectory(prefix="bench-", dir="/var/tmp") as folder:
        server = PostgresServer(Path(folder))
        server.start()

        def empty() -> None:
            database = create_engine(server.url)
            with database.begin() as connection:
                connection.exec_driver_sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
            database.dispose()
            Ledger.open(server.url).close()

        try:
            for title, on_sqlite, on_postgres in (
                ("First ingest of", forget(home), empty),
                ("Nothing changed in", home.make, home.make),
            ):
                yield Comparison(
                    f"{title} {notes:,} notes, by database",
                    [
                        Case("SQLite", engine, on_sqlite),
                        Case("PostgreSQL", engine, on_postgres, {"CATCHMENT_DATABASE_URL": server.url}),
                    ],
                )
        finally:
            server.stop()


def by_command(*arguments: str) -> list[str]:
    return python("benchmarks.command", Path(sys.executable).with_name("catchment"), *arguments)


def _commands(vault: Path, notes: int) -> Comparison:
    """The commands of every day, from their start to their exit, beside the start of the interpreter."""
    return Comparison(
        f"Commands, {notes:,} notes",
        [
            Case("python -c pass", python("benchmarks.command", sys.executable, "-c", "pass")),
            Case("sync, no change", by_command("sync", "notes", "--wait")),
            Case("sync, one note", by_command("sync", "notes", "--wait"), prepare=lambda: edit(vault, 1, 1)),
            Case("status", by_command("status")),
            Case("search", by_command("search", "keeper", "lamp")),
            Case("why", by_command("why", "Note 000005")),
        ],
    )


def _scaling(place: Path, notes: int, home: Home) -> Comparison:
    """A tenth and ten times the number of notes: the cost per item and the memory of the run should stay the same."""
    cases = []
    for number in (notes // 10, notes * 10):
        vault = place / f"vault-{number}"
        generate(vault, number)
        add("obsidian", vault, f"notes-{number}")
        command = python("benchmarks.through_prefect", home.path, "obsidian", f"notes-{number}")
        cases.append(Case(f"{number:,} notes", command, prepare=forget(home)))
    return Comparison("First ingest of fewer and of more, through Prefect", cases, rounds=1)


def _copy_documentation(folder: Path) -> int:
    """Copy real texts, so that they do not change meanwhile. Returns their number. Duplicate names get a number."""
    folder.mkdir(parents=True)
    number = 0
    for place in _DOCUMENTATION:
        for file in sorted(place.rglob("*")):
            if file.suffix in _TEXTS and file.is_file() and number < _MOST_TEXTS:
                target = folder / str(number // 100) / f"{file.stem}-{number}{file.suffix}"
                target.parent.mkdir(exist_ok=True)
                shutil.copyfile(file, target)
                number += 1
    return number


def _many_files(place: Path, files: int) -> Iterator[Comparison]:
    """List a large unchanged folder. The contents of its files do not matter."""
    folder, home = place / "many", Home(place / "many-home")
    (folder / ".obsidian").mkdir(parents=True)
    for number in range(files):
        if number % 100 == 0:
            (folder / str(number // 100)).mkdir()
        (folder / str(number // 100) / f"{number}.md").touch()
    yield Comparison(
        f"Nothing changed in {files:,} files: the listing",
        [
            Case(_WALK, python("benchmarks.bare", "walk", folder)),
            Case("the engine's listing", python("benchmarks.engine", "obsidian", folder, home.path, "list")),
        ],
    )


def _claims(place: Path, pending: int) -> Comparison:
    """The baseline is the limit for a claim: 10 ms (p99)."""
    database = place / "claims.db"
    return Comparison(
        f"Claims with {pending:,} jobs pending: work is the p99 of 400 claims (of 1 000: of 99)",
        [
            Case(f"of {batch}", python("benchmarks.claims", database, pending, batch), prepare=remover(database))
            for batch in (50, 200, 1_000)
        ],
        rounds=3,
    )


def _recovery(place: Path, interrupted: int) -> Comparison:
    """The baseline is the limit for recovery: one second until all jobs wait again."""
    database = place / "recovery.db"
    command = python("benchmarks.recovery", database, interrupted)
    return Comparison(
        f"Recovery of {interrupted:,} jobs whose process died",
        [Case("found and waiting again", command, prepare=remover(database))],
    )


def add(kind: str, folder: Path, name: str) -> None:
    sources.add(session.desk(), NewSource(kind, str(folder), name), "benchmark")


def python(module: str, *arguments: object) -> list[str]:
    return [sys.executable, "-m", module, *map(str, arguments)]


def forget(home: Home) -> Callable[[], None]:
    """Return a function that empties the library.

    It has no model: embeddings are made later, at low priority, and would take a processor from the next measurement.
    """

    def forget() -> None:
        for name in ("ledger.db", "ledger.db-wal", "ledger.db-shm", "cache.db", "cache.db-wal", "cache.db-shm"):
            (home.path / name).unlink(missing_ok=True)
        shutil.rmtree(home.prefect / "storage", ignore_errors=True)
        with closing(Ledger.open(home.make())) as ledger:
            ledger.embeddings.setting = OFF

    return forget


def editor(vault: Path, notes: int) -> Callable[[], object]:
    return lambda: edit(vault, notes, _CHANGED_EVERY)


def remover(database: Path) -> Callable[[], None]:
    def remove() -> None:
        for suffix in ("", "-wal", "-shm"):
            database.with_name(database.name + suffix).unlink(missing_ok=True)

    return remove
