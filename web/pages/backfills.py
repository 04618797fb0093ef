"""Backfills: all, with a form for a new one, and one with its progress and what it changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from catchment.content.parsing import CODE
from catchment.ledger import Backfill, ListPage, TextChange
from catchment.model import ReplayStage
from web.site import Data, WebPage
from web.warm_library import WarmLibrary


@dataclass(frozen=True, slots=True)
class BackfillList:
    """A part of the backfills, newest first, and the number of documents by source that newer code could read again."""

    page: ListPage[Backfill]
    outdated: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class BackfillAndChanges:
    """A backfill, the number of texts that it changed, and those that it changed most."""

    backfill: Backfill
    changed: int
    largest: list[TextChange]


def _list(library: WarmLibrary, parameters: Mapping[str, str]) -> Data:
    source = parameters.get("source") or None
    ledger = library.ledger
    page = ledger.backfills.page(source, after=parameters.get("after"))
    return {
        "view": BackfillList(page, ledger.backfills.outdated(CODE)),
        "page": page,
        "source": source,
        "names": [one.name for one in ledger.sources.all()],
        "query": {"source": source},
        "stages": [stage for stage in ReplayStage if stage is not ReplayStage.FETCH],
    }


def _one(library: WarmLibrary, parameters: Mapping[str, str]) -> Data:
    number = int(parameters["number"])
    backfills = library.ledger.backfills
    view = BackfillAndChanges(backfills.get(number), *backfills.changes(number))
    return {"view": view, "one": view.backfill}


PAGES = (
    WebPage("/backfills", "backfills.html", _list, ("backfills",), shared=BackfillList, query=("source", "after")),
    WebPage("/backfills/{number:number}", "backfill.html", _one, ("backfill",), shared=BackfillAndChanges),
)
