"""Why an item is in the library, or why not: by its name, as `catchment why`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from catchment.model import ago
from catchment.views import items, resolver
from catchment.views.items import WhyView
from deployments.actions.desk import Desk
from web.site import Data, WebPage
from web.warm_library import WarmLibrary

_ITEMS = 5


def pages(desk: Desk) -> tuple[WebPage, ...]:
    """Return the page."""
    return (WebPage("/why", "why.html", partial(_why, desk), shared=WhyView, query=("item", "source")),)


def _why(desk: Desk, library: WarmLibrary, parameters: Mapping[str, str]) -> Data:
    name, source = parameters.get("item", "").strip(), parameters.get("source") or None

    def settings() -> Mapping[str, Any]:
        return {source_name: entry.settings for source_name, entry in desk.entries().items()}

    # A relative path is a name: this process was started in some folder.
    is_path = name.startswith(("/", "~"))
    matches = resolver.find(library.ledger, name, settings, source, looks_at_disk=is_path).listed if name else ()
    explained = tuple(items.why(library.ledger, desk.home, row, ago) for row in matches[:_ITEMS])
    return {
        "view": WhyView(name, explained),
        "name": name,
        "items": explained,
        "more": len(matches) - len(explained),
    }
