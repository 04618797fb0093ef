"""The audit history of actions, with the same filters as `catchment audit list`."""

from __future__ import annotations

from collections.abc import Mapping

from catchment.audit.acts import Act, acts
from web.site import Data, WebPage
from web.warm_library import WarmLibrary

_FILTERS = ("source", "actor")


def _acts(library: WarmLibrary, parameters: Mapping[str, str]) -> Data:
    source, actor = (parameters.get(name) or None for name in _FILTERS)
    view = acts(library.ledger, source, actor)
    return {"view": view, "source": source, "actor": actor}


PAGES = (WebPage("/audit", "audit.html", _acts, ("acts",), shared=list[Act], query=_FILTERS),)
"""The page."""
