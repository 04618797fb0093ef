"""`python -m benchmarks.relevance [--documents N] [--missed]`: measure the quality of search.

For each class of query: how often the first hit is an expected document, the share of expected documents in the first five
hits, the mean reciprocal rank, and the duration of a query. Compares words and meaning, words alone, plain FTS5 and ripgrep.
Writes build/relevance.json.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict

from benchmarks.relevance.corpus import ingested
from benchmarks.relevance.engines import embedded, grep, ours, plain_fts5
from benchmarks.relevance.scores import Score, queries, score
from benchmarks.system import BUILD, empty

DOCUMENTS = 2_400


def main() -> None:
    """Measure each engine, print a table, and write the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.relevance", description=__doc__)
    parser.add_argument("--documents", type=int, default=DOCUMENTS, help="generated ones (default: %(default)s)")
    parser.add_argument("--missed", action="store_true", help="name the queries whose documents we do not find")
    chosen = parser.parse_args()
    with (
        empty("relevance") as place,
        ingested(place, chosen.documents) as (home, folders, ledger),
        plain_fts5(home) as fts5,
    ):
        begun = time.perf_counter()
        meaning = embedded(ledger)
        count = ledger.embeddings.counts(ledger.embeddings.searched()).done
        print(f"{count:,} passages embedded in {time.perf_counter() - begun:.0f} s\n", flush=True)
        tool, find = grep(folders)
        engines = {"Catchment": ours(ledger, meaning), "by words": ours(ledger), "plain FTS5": fts5, tool: find}
        scores = {
            kind: {name: score(engine, asked) for name, engine in engines.items()} for kind, asked in queries().items()
        }
    _show(scores, missed=chosen.missed)
    figures = {kind: {name: asdict(one) for name, one in by_engine.items()} for kind, by_engine in scores.items()}
    (BUILD / "relevance.json").write_text(json.dumps(figures, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _show(scores: dict[str, dict[str, Score]], *, missed: bool) -> None:
    print(f"{'':18}{'':12}{'recall@1':>10}{'recall@5':>10}{'MRR':>7}{'p50 ms':>9}{'p95 ms':>9}")
    for kind, by_engine in scores.items():
        for number, (name, one) in enumerate(by_engine.items()):
            print(
                f"{kind if not number else '':18}{name:12}{one.first:10.2f}{one.recall:10.2f}"
                f"{one.reciprocal_rank:7.2f}{one.p50:9.1f}{one.p95:9.1f}"
            )
        if missed:
            print(*(f"    {text}" for text in by_engine["Catchment"].missed), sep="\n")


if __name__ == "__main__":
    main()
