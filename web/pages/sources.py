"""Sources: the standing of each, the hosts that are paused, and a page for each source."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from catchment.actions.desk import Desk
from catchment.views import sources, throttling
from catchment.views.sources import SourceLine, SourceView
from web.site import Data, WebPage
from web.warm_library import WarmLibrary


def pages(desk: Desk[Any]) -> tuple[WebPage, ...]:
    """Return the pages: all sources, and one."""
    return (
        WebPage("/sources", "sources.html", _list, ("sources",), shared=list[SourceLine]),
        WebPage("/sources/{name}", "source.html", partial(_one, desk), ("source", "runs"), shared=SourceView),
    )


def _list(library: WarmLibrary, _parameters: Mapping[str, str]) -> Data:
    lines = sources.lines(library.ledger, library.home)
    return {
        "view": lines,
        "lines": lines,
        "documents": sum(line.standing.documents for line in lines),
        "hosts": throttling.hosts(library.ledger),
    }


def _one(desk: Desk[Any], library: WarmLibrary, parameters: Mapping[str, str]) -> Data:
    name = parameters["name"]
    settings = desk.entry(name).settings.model_dump(mode="json", exclude_none=True)
    view = sources.source(library.ledger, library.home, name, settings)
    last = view.line.standing.last_sync
    return {
        "view": view,
        "line": view.line,
        "source": view.line.standing,
        "runs": view.syncs,
        "is_running": last is not None and last.ended is None,
    }
