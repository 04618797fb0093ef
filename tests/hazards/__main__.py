"""`python -m tests.hazards [--area NAME …] [--only WORDS] [--beside NAME …] [--write FILE]`: run hazards, print a
table.

The results are stored in build/hazards.json. Exits with 1 if a result of Catchment is wrong. `--beside` installs other
libraries, each into a separate environment below build/, and applies the folder mishaps to them too. `--write` writes
tests/hazards/RESULTS.md from all stored results.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

from tests.acceptance.person import Person, upright
from tests.hazards import installed
from tests.hazards.areas import AREAS
from tests.hazards.catchment import Catchment
from tests.hazards.folders import mishaps
from tests.hazards.model import Mishap, System, folder_name, meet
from tests.hazards.paces import paces
from tests.hazards.results import OURS, Results, Row

_BUILD = Path("build").absolute()
_FOLDER = "folder"


def main() -> int:
    """Run the selected hazards; return the exit code."""
    asked = _arguments().parse_args()
    place = _BUILD / "hazards"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    results = Results.kept(_BUILD / "hazards.json")
    wrong = 0
    for row in _rows(place, asked, results):
        print(
            f"{row.area:14}{row.hazard:42}{row.expected:30}{row.system:22}{row.seconds:6.1f} s  {row.seen}", flush=True
        )
        wrong += row.system == OURS and not row.right
        results.add(row)
        results.keep(_BUILD / "hazards.json")
    results.keep(_BUILD / "hazards.json")
    shutil.rmtree(place)
    if asked.write:
        asked.write.write_text(results.document(), encoding="utf-8")
    return 1 if wrong else 0


def _arguments() -> argparse.ArgumentParser:
    names = [_FOLDER, *(area.name for area in AREAS)]
    parser = argparse.ArgumentParser(prog="python -m tests.hazards", description=__doc__)
    parser.add_argument("--area", nargs="*", default=names, choices=[*names, "none"], help="only these")
    parser.add_argument("--only", default="", help="only the hazards whose name has these words")
    parser.add_argument("--beside", nargs="*", default=[], choices=installed.names(), help="other libraries")
    parser.add_argument("--alone", action="store_true", help="only those: Catchment was done before")
    parser.add_argument("--write", type=Path, help="the document to write in the end")
    return parser


def _rows(place: Path, asked: argparse.Namespace, results: Results) -> Iterator[Row]:
    if _FOLDER in asked.area:
        with ExitStack() as stack:
            systems: list[System] = []
            if not asked.alone:
                systems.append(Catchment(stack.enter_context(upright(Person(place / "home")))))
            libraries = (installed.Installed(name, _BUILD / "libraries", place) for name in asked.beside)
            systems += [stack.enter_context(closing(library)) for library in libraries]
            yield from _of_folders(place, systems, asked.only, results)
    for area in AREAS:
        chosen = [hazard for hazard in area.hazards if area.name in asked.area and asked.only in hazard.name]
        if not chosen:
            continue
        with area.scene(place / area.name) as scene:
            for hazard in chosen:
                begun = time.monotonic()
                verdict = hazard.happens(scene)
                took = time.monotonic() - begun
                yield Row(area.name, hazard.name, hazard.expected, OURS, verdict.right, str(verdict), took)


def _of_folders(place: Path, systems: list[System], only: str, results: Results) -> Iterator[Row]:
    for system in systems:
        results.versions[system.name] = system.version
    for mishap in mishaps():
        if only in mishap.name:
            for system in systems:
                yield _met(system, mishap, place / f"{folder_name(mishap.name)}-{system.name.replace('_', '-')}")
    if not only:
        for system in systems:
            for pace in paces(system, place):
                results.measured(pace)


def _met(system: System, mishap: Mishap, folder: Path) -> Row:
    verdict, first, second = meet(system, mishap, folder)
    peak_mb = max(first.peak_mb, second.peak_mb)
    seen = (verdict.right, str(verdict), second.seconds, peak_mb)
    return Row(_FOLDER, mishap.name, mishap.expected, system.name, *seen, policy=mishap.may_refuse)


if __name__ == "__main__":
    sys.exit(main())
