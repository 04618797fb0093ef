"""The process that makes missing embeddings: `python -P -m catchment.search.meaning`, started by a run of the flow `embed`.

Each line of its output is a JSON object: `{}` between two steps, the counts after a transaction, `{"off": reason}`,
`{"stopped": reason}` or `{"error": …}`. None contains text of the library. After each `{}` it waits for a line of input, so
that the run can let syncs pass. It exits when its input is closed, so that it does not outlive its run.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from catchment.errors import MeaningOff, ModelChanged, NotFound
from catchment.ledger import EmbeddingCounts, Ledger
from catchment.runtime.home import Home
from catchment.search.meaning.choice import load
from catchment.search.meaning.fill import fill

_NICENESS = 10
"""Syncs run at 5."""


def main() -> int:
    """Make the missing embeddings. Returns 1 after an error."""
    os.setpriority(os.PRIO_PROCESS, 0, max(_NICENESS, os.getpriority(os.PRIO_PROCESS, 0)))
    try:
        _fill()
    except ModelChanged:
        _tell(stopped="the model was changed")
    except MeaningOff as reason:
        _tell(off=str(reason))
    except Exception as error:  # noqa: BLE001 - the message of an error may contain text of the library
        _tell(error=f"{type(error).__name__} at {_location(error)}")
        return 1
    return 0


def _fill() -> None:
    with suppress(NotFound), closing(Ledger.inspect(Home.default())) as ledger, ledger.alone("embed") as is_alone:
        if not is_alone:
            _tell(elsewhere=True)
            return
        model = load(ledger.embeddings.setting, os.cpu_count() or 1)
        space = ledger.embeddings.space(model.name, model.setting, model.dimensions)
        _report(ledger.embeddings.counts(space))
        _report(fill(ledger, model, _report, _permission))


def _report(counts: EmbeddingCounts) -> None:
    _tell(**asdict(counts))


def _tell(**values: object) -> None:
    sys.stdout.write(f"{json.dumps(values)}\n")
    sys.stdout.flush()


@contextmanager
def _permission() -> Iterator[None]:
    """Wait for permission. No lock of the ledger is held meanwhile."""
    _tell()
    if not sys.stdin.readline():
        sys.exit(1)
    yield


def _location(error: BaseException) -> str:
    """Return the file and line that raised the error."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "?" if trace is None else f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"


if __name__ == "__main__":
    sys.exit(main())
