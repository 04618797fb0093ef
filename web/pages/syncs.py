"""Syncs: the latest runs, with what each did."""

from __future__ import annotations

from collections.abc import Mapping

from web.site import Data, WebPage
from web.warm_library import WarmLibrary

_SHOWN = 50


def _data(library: WarmLibrary, _parameters: Mapping[str, str]) -> Data:
    return {"runs": library.ledger.syncs.recent(limit=_SHOWN)}


PAGES = (WebPage("/syncs", "syncs.html", _data, ("runs",)),)
