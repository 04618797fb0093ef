"""Sources: the standing of each, and the hosts that are paused."""

from __future__ import annotations

from collections.abc import Mapping

from catchment.views import throttling
from catchment.views.sources import standings
from web.site import Data, WebPage
from web.warm_library import WarmLibrary


def _data(library: WarmLibrary, _parameters: Mapping[str, str]) -> Data:
    found = standings(library.ledger, library.home)
    return {
        "sources": found,
        "documents": sum(one.documents for one in found),
        "hosts": throttling.hosts(library.ledger),
    }


PAGES = (WebPage("/sources", "sources.html", _data, ("sources",)),)
