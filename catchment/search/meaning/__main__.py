"""The process that makes missing embeddings: `python -P -m catchment.search.meaning`, started by a run of the flow `embed`."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict

from catchment.errors import MeaningOff, ModelChanged
from catchment.ledger import EmbeddingCounts, Ledger
from catchment.search.background_child import permission, run, tell
from catchment.search.meaning.choice import load
from catchment.search.meaning.fill import fill


def main() -> int:
    """Make the missing embeddings. Returns 1 after an error."""
    return run("embed", _fill)


def _fill(ledger: Ledger) -> None:
    try:
        model = load(ledger.embeddings.setting, os.cpu_count() or 1)
        space = ledger.embeddings.space(model.name, model.setting, model.dimensions)
        _report(ledger.embeddings.counts(space))
        _report(fill(ledger, model, _report, permission))
    except ModelChanged:
        tell(stopped="the model was changed")
    except MeaningOff as reason:
        tell(off=str(reason))


def _report(counts: EmbeddingCounts) -> None:
    tell(**asdict(counts))


if __name__ == "__main__":
    sys.exit(main())
