"""`python -m tests.pairs [--pair FIRST+SECOND …] [--kills N] [--seed N] [--trial TRIAL]`: try the pairs, print one table.

Exits with 1 if a trial is broken. The first broken trial of each pair is followed by its command and its problem.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from tests.faults.lives import a_place
from tests.pairs.matrix import PAIRS
from tests.pairs.players import Fate
from tests.pairs.trials import Arena, Result, Trial

_COLUMNS = "{:18} {:>6} {:>7} {:>6} {:>9} {:>6} {:>7} {:>8}"


@dataclass(frozen=True, slots=True)
class Row:
    """The results of a pair. `steps`: of its first act."""

    pair: str
    steps: int
    results: tuple[Result, ...]
    seconds: float

    @property
    def broken(self) -> tuple[Result, ...]:
        """The trials after which something did not hold."""
        return tuple(result for result in self.results if result.problem)

    def __str__(self) -> str:
        refusals = sum(answer.fate is Fate.REFUSED for result in self.results for answer in result.answers)
        kills = sum(result.killed for result in self.results)
        held = len(self.results) - len(self.broken)
        numbers = (self.steps, len(self.results), kills, refusals, held, len(self.broken))
        return _COLUMNS.format(self.pair, *map(str, numbers), f"{self.seconds:.0f} s")


def main() -> int:
    """Try the selected pairs; return the exit code."""
    asked = _arguments().parse_args()
    names = asked.pair or [pair.name for pair in PAIRS]
    print(f"seed {asked.seed}")
    print(_COLUMNS.format("PAIR", "STEPS", "TRIALS", "KILLS", "REFUSALS", "HELD", "BROKEN", "TIME"))
    broken = 0
    with a_place() as places, ProcessPoolExecutor(asked.processes) as pool:
        for row in pool.map(partial(_tried, places, asked.kills, asked.seed, asked.trial), names):
            print(row, flush=True)
            broken += len(row.broken)
            for result in row.broken[: None if asked.all else 1]:
                print(f"    python -m tests.pairs --pair {row.pair} --trial {result.trial}    ({result.step})")
                for answer in result.answers:
                    print(f"    | {answer.fate} {answer.error} {' '.join(answer.text.splitlines()[-1:])}")
                for line in result.problem.splitlines()[-asked.lines :]:
                    print(f"    | {line}")
    return 1 if broken else 0


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.pairs", description=__doc__)
    parser.add_argument("--pair", nargs="*", choices=[pair.name for pair in PAIRS], help="only these")
    parser.add_argument("--kills", type=int, default=20, help="kills of each pair; half as many trials have none")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000), help="of the choice of steps")
    parser.add_argument("--trial", help="only this trial, as a broken one is named")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="trials at a time")
    parser.add_argument("--lines", type=int, default=12, help="lines of each problem")
    parser.add_argument("--all", action="store_true", help="print every broken trial, not only the first")
    return parser


def _tried(places: Path, kills: int, seed: int, trial: str | None, name: str) -> Row:
    pair = next(pair for pair in PAIRS if pair.name == name)
    arena = _arena(places)
    begun = time.monotonic()
    trials = [Trial.parse(trial)] if trial else arena.chosen(pair, kills, random.Random(f"{seed} {name}"))
    results = tuple(arena.run(pair, one) for one in trials)
    return Row(name, len(arena.steps(pair.acts[0], pair.state)), results, time.monotonic() - begun)


@cache
def _arena(places: Path) -> Arena:
    """Return the arena of this process."""
    place = places / str(os.getpid())
    place.mkdir()
    return Arena(place)


if __name__ == "__main__":
    sys.exit(main())
