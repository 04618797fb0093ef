"""`python -m benchmarks.relevance [--documents N] [--missed]`: measure the quality of search.

For each class of query: how often the first hit is an expected document, the share of expected documents in the first five
hits, the mean reciprocal rank, and the duration of a query. Compares words and meaning, each alone, plain FTS5 and ripgrep.
The held-out queries have separate rows. Writes build/relevance.json.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict

from benchmarks.relevance.corpus import ingested
from benchmarks.relevance.engines import embedded, grep, ours, plain_fts5
from benchmarks.relevance.scores import Answer, answer, held_out, queries, score
from benchmarks.system import BUILD, empty
from catchment.search.results import Lanes

DOCUMENTS = 2_400
_ByEngine = Mapping[str, Sequence[Answer]]


def main() -> None:
    """Measure each engine, print a table, and write the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.relevance", description=__doc__)
    parser.add_argument("--documents", type=int, default=DOCUMENTS, help="generated ones (default: %(default)s)")
    parser.add_argument("--missed", action="store_true", help="show the places of queries whose first hit is wrong")
    chosen = parser.parse_args()
    tuned, others = queries(), {f"{kind}, held out": group for kind, group in held_out().items()}
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
        engines = {
            "Catchment": ours(ledger, meaning),
            "by words": ours(ledger),
            "by meaning": ours(ledger, meaning, Lanes.MEANING),
            "plain FTS5": fts5,
            tool: find,
        }
        answers: dict[str, _ByEngine] = {
            kind: {name: [answer(engine, query) for query in group] for name, engine in engines.items()}
            for kind, group in {**tuned, **others}.items()
        }
    answers |= {"all": _joined(answers, tuned), "all, held out": _joined(answers, others)}
    _show(answers, missed=chosen.missed)
    figures = {kind: {name: asdict(score(one)) for name, one in group.items()} for kind, group in answers.items()}
    (BUILD / "relevance.json").write_text(json.dumps(figures, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _joined(answers: Mapping[str, _ByEngine], kinds: Iterable[str]) -> _ByEngine:
    engines = next(iter(answers.values()))
    return {engine: [one for kind in kinds for one in answers[kind][engine]] for engine in engines}


def _show(answers: Mapping[str, _ByEngine], *, missed: bool) -> None:
    print(f"{'':28}{'':12}{'recall@1':>10}{'recall@5':>10}{'MRR':>7}{'p50 ms':>9}{'p95 ms':>9}")
    for kind, by_engine in answers.items():
        for number, (name, group) in enumerate(by_engine.items()):
            one = score(group)
            print(
                f"{kind if not number else '':28}{name:12}{one.first:10.2f}{one.recall:10.2f}"
                f"{one.reciprocal_rank:7.2f}{one.p50:9.1f}{one.p95:9.1f}"
            )
        if missed and "held out" not in kind and kind != "all":
            _show_missed(by_engine)


def _show_missed(by_engine: _ByEngine) -> None:
    for number, one in enumerate(by_engine["Catchment"]):
        if one.place != 1:
            places = (f"{name} {group[number].place or '-'}" for name, group in by_engine.items())
            print(f"    {one.query}: {', '.join(places)}")


if __name__ == "__main__":
    main()
