"""Search by the web process of a running system, which has the model and the vectors in memory. Quick to import."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from catchment.errors import PageSilent, TookTooLong
from catchment.runtime import web_process
from catchment.runtime.home import Home
from catchment.search.results import MEANING_LATE, Results

SECONDS = 4.0
"""Time limit of a search for which a person waits."""


def search(
    home: Home,
    text: str,
    now: datetime,
    *,
    lanes: str = "both",
    limit: int = 20,
    offset: int = 0,
    by_conversation: bool = False,
    only: Collection[str] | None = None,
    seconds: float = SECONDS,
) -> Results:
    """Call `search.search` in the web process. Raises PageSilent if it does not answer, or finds nothing in time.

    `only`: as if the library had no other sources. Raises BadInput for a query with an error.
    """
    query = {"text": text, "now": now.isoformat(), "lanes": lanes, "limit": limit, "offset": offset}
    limits = {"by_conversation": by_conversation, "only": None if only is None else sorted(only), "seconds": seconds}
    try:
        return web_process.post(home, "/search", query | limits, Results, seconds)
    except TookTooLong:
        # This process may take longer.
        raise PageSilent(MEANING_LATE) from None
