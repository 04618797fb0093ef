"""`python -m benchmarks.peers [NOTES]`: Catchment beside dlt, CocoIndex and, for PDFs, Recoll, each with its own abilities.

Each run is a new process, measured from its start to its exit. The bare loop stores everything anew in each step. The
programs of the others are in benchmarks/peers; `make bench-peers` installs their requirements into build/peers-venv.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks import documents
from benchmarks.comparison_table import show
from benchmarks.comparisons import ALONE, add, by_command, editor, forget, python, remover
from benchmarks.measure import Case, Result, hardware, in_turn
from benchmarks.notes import generate
from benchmarks.system import BUILD, empty, started
from catchment.settings import Home

_PROGRAMS = Path(__file__).with_suffix("")
_PYTHON = BUILD / "peers-venv" / "bin" / "python"
_PEERS = {"dlt to DuckDB": "dlt_duckdb", "CocoIndex to SQLite": "cocoindex_sqlite"}
_NO_TELEMETRY = {"COCOINDEX_DISABLE_USAGE_TRACKING": "1", "RUNTIME__DLTHUB_TELEMETRY": "false"}


def main(notes: int) -> None:
    """Measure the three steps in two rounds after one warm-up round, and print them."""
    print("{processor}, {cores} cores, {memory_gb} GB, {system}, Python {python}".format_map(hardware()))
    with empty("peers") as place:
        vault, home, database = place / "vault", Home(place / "home"), place / "bare.db"
        size = generate(vault, notes)
        edited = editor(vault, notes)
        bare = python("benchmarks.command", *python("benchmarks.bare", "ingest", vault, database))
        sync = by_command("sync", "notes", "--wait")
        loop = Case("bare loop", bare, remover(database))
        first = [loop, Case("catchment sync", sync, forget(home))]
        later, changed = [loop, Case("catchment sync", sync)], [loop, Case("catchment sync", sync, edited)]
        for name, program in _PEERS.items():
            state = place / program
            command = [str(part) for part in (_PYTHON, _PROGRAMS / f"{program}.py", vault, state)]
            first.append(Case(name, command, _emptier(state), _NO_TELEMETRY))
            later.append(Case(name, command, environment=_NO_TELEMETRY))
            changed.append(Case(name, command, edited, _NO_TELEMETRY))
        with started(home):
            add("obsidian", vault, "notes")
            steps = {"first": first, "no change": later, "1.5 % changed": changed}
            measured = {step: in_turn(cases, 2) for step, cases in steps.items()}
            pdfs = _pdfs(place, home)
    print(f"{notes:,} notes ({size / 1e6:.1f} MB): seconds, × bare loop")
    _show(measured, notes)
    if pdfs:
        show(f"First ingest of {documents.COUNT} PDFs", pdfs)


def _pdfs(place: Path, home: Home) -> list[Result]:
    """Measure the first ingest of PDFs; no result if one of the others is not installed."""
    if not (documents.require("pdftotext", "poppler-utils") and documents.require("recollindex", "recollcmd")):
        return []
    folder, recoll, alone = place / "documents", place / "recoll", Home(place / "alone")
    documents.generate(folder, documents.COUNT)
    add("local_files", folder, "documents")
    empty_recoll = _emptier(recoll)

    def configure() -> None:
        empty_recoll()
        (recoll / "recoll.conf").write_text(f"topdirs = {folder}\n")

    return in_turn(
        [
            Case("pdftotext, file by file", python("benchmarks.documents", folder)),
            Case(ALONE, python("benchmarks.engine", "local_files", folder, alone.path), forget(alone)),
            Case("catchment sync", by_command("sync", "documents", "--wait"), forget(home)),
            Case("recollindex", python("benchmarks.command", "recollindex", "-c", recoll), configure),
        ],
        2,
    )


def _emptier(state: Path) -> Callable[[], None]:
    def empty_state() -> None:
        shutil.rmtree(state, ignore_errors=True)
        state.mkdir()

    return empty_state


def _show(measured: Mapping[str, Sequence[Result]], notes: int) -> None:
    """Print a line for each program. Raises SystemExit if one has not stored all notes."""
    print(" " * 22 + "".join(f"{step:>20}" for step in measured))
    for steps in zip(*measured.values(), strict=True):
        figures = ""
        for result, (baseline, *_) in zip(steps, measured.values(), strict=True):
            if result.said.get("stored", notes) != notes:
                sys.exit(f"{result.name} stored {result.said['stored']:,} of {notes:,} notes")
            figures += f"{result.work:12.2f} s {result.work / baseline.work:5.2f}×"
        print(f"{steps[0].name:22}{figures}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
