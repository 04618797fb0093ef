"""`python -m benchmarks.relevance.scale [COUNT …] [--parts N]`: the duration of searches in libraries of generated passages.

Passages of sixty words by Zipf's law, in a separate library for each count. `cpu ms` is the median processor time. Then the
same searches by words and meaning, with N random vectors for each passage.
Writes build/search_scale.json.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime

from benchmarks.engine import ingest
from benchmarks.generated import Generated, GeneratedSettings, vocabulary
from benchmarks.relevance import vectors
from benchmarks.relevance.scores import percentiles
from benchmarks.system import BUILD, empty
from catchment.ledger import Ledger
from catchment.search.search import search
from catchment.settings import Home

COUNTS = (10_000, 100_000)
_VOCABULARY, _LENGTH = 50_000, 60
_EACH = 40
_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_WITH_MEANING = ("two words", "three words", "a sentence of 14 words", "a common word", "a word and a filter")


def main() -> None:
    """Measure each count, and print and write the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.relevance.scale", description=__doc__)
    parser.add_argument("counts", nargs="*", type=int, default=COUNTS, help="passages (default: %(default)s)")
    parser.add_argument("--parts", type=int, default=1, help="vectors of a passage (default: %(default)s)")
    asked = parser.parse_args()
    report = {}
    print(f"{'':22}{'passages':>10}{'p50 ms':>9}{'p95 ms':>9}{'cpu ms':>9}{'hits':>10}")
    for count in asked.counts:
        with empty("search_scale") as place:
            home, settings = Home(place), GeneratedSettings(notes=count, vocabulary=_VOCABULARY, length=_LENGTH)
            took = ingest(Generated(settings), settings, home, "notes")["seconds"]
            print(f"{'ingested':22}{count:10,} in {took:.0f} s", flush=True)
            with closing(Ledger.open(home.database_url)) as ledger:
                report[count] = {kind: _measure(ledger, kind, count, group) for kind, group in queries().items()}
                report[count] |= _by_meaning(ledger, home, count, asked.parts)
    (BUILD / "search_scale.json").write_text(json.dumps(report, indent=2) + "\n")


def _by_meaning(ledger: Ledger, home: Home, count: int, parts: int) -> Mapping[str, Mapping[str, float]]:
    vectors.make(ledger, parts)
    with_words = {kind: group for kind, group in queries().items() if kind in _WITH_MEANING}
    figures = vectors.measure(home.database_url, with_words)
    print(f"by words and meaning: {count * parts:,} vectors")
    for name, value in figures.items():
        print(f"    {name:28}{value:9.1f}", flush=True)
    return {"by words and meaning": figures}


def _measure(ledger: Ledger, kind: str, count: int, asked: Sequence[str]) -> Mapping[str, float]:
    seconds, work, hits = [], [], 0
    for query in asked:
        begun, worked = time.perf_counter(), time.process_time()
        hits += search(ledger, query, _NOW).total
        seconds.append(time.perf_counter() - begun)
        work.append(time.process_time() - worked)
    (p50, p95), (cpu, _) = percentiles(seconds), percentiles(work)
    print(f"{kind:22}{count:10,}{p50:9.1f}{p95:9.1f}{cpu:9.1f}{hits / len(asked):10,.0f}", flush=True)
    return {"p50": p50, "p95": p95, "cpu": cpu, "hits": hits / len(asked)}


def queries() -> dict[str, list[str]]:
    """Return the queries by kind. Deterministic."""
    words, chance = vocabulary(_VOCABULARY), random.Random("queries")

    def draw(first: int, last: int, length: int = 1) -> str:
        return " ".join(chance.sample(words[first:last], length))

    kinds: dict[str, Callable[[], str]] = {
        "a rare word": lambda: draw(2_000, 20_000),
        "two words": lambda: draw(100, 1_000, 2),
        "three words": lambda: draw(50, 500, 3),
        "a common word": lambda: draw(0, 20),
        "a sentence of 14 words": lambda: f"{draw(0, 20, 5)} {draw(50, 2_000, 9)}",
        "a phrase": lambda: f'"{draw(50, 500, 2)}"',
        "a typo": lambda: _misspelled(chance, draw(1_000, 10_000)),
        "a word and a filter": lambda: f"{draw(100, 1_000)} tag:river after:2020",
        "tag": lambda: f"tag:{chance.choice(('river', 'valley', 'rain', 'bridge'))}",
        "dates": lambda: f"after:{chance.randint(2016, 2024)} before:2025-03",
        "type and language": lambda: (
            f"type:{chance.choice(('note', 'mail', 'pdf'))} lang:{chance.choice(('en', 'de'))}"
        ),
        "folder": lambda: f"in:000{chance.randint(0, 9)}",
    }
    return {kind: [draw_one() for _ in range(_EACH)] for kind, draw_one in kinds.items()}


def _misspelled(chance: random.Random, word: str) -> str:
    place = chance.randrange(1, len(word) - 1)
    return f"{word[:place]}x{word[place + 1 :]}"


if __name__ == "__main__":
    main()
