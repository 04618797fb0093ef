"""Backfills: a list with a form for a new one, and a page for each with its progress and changes."""

from __future__ import annotations

from collections.abc import Mapping

from catchment.model import ReplayStage
from catchment.views.work import backfills
from catchment.views.work.backfills import BackfillAndChanges, BackfillList
from web.site import Data, WebPage
from web.warm_library import WarmLibrary


def _list(library: WarmLibrary, parameters: Mapping[str, str]) -> Data:
    source = parameters.get("source") or None
    ledger = library.ledger
    view = backfills.backfills(ledger, source, after=parameters.get("after"))
    return {
        "view": view,
        "source": source,
        "names": [source_row.name for source_row in ledger.sources.all()],
        "query": {"source": source},
        "stages": [stage for stage in ReplayStage if stage is not ReplayStage.FETCH],
    }


def _backfill(library: WarmLibrary, parameters: Mapping[str, str]) -> Data:
    view = backfills.backfill(library.ledger, int(parameters["number"]))
    return {"view": view, "backfill": view.backfill}


PAGES = (
    WebPage("/backfills", "backfills.html", _list, ("backfills",), shared=BackfillList, query=("source", "after")),
    WebPage("/backfills/{number:number}", "backfill.html", _backfill, ("backfill",), shared=BackfillAndChanges),
)
