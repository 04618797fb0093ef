"""The entry of a feed as the content of an item. Pure."""

from __future__ import annotations

import hashlib
from datetime import datetime
from html import escape

from connectors.web.feeds import FeedEntry
from connectors.web.store import StoredResponse


def stored_entry(entry: FeedEntry, locator: str, feed: str, asked: datetime, replaces: str | None) -> StoredResponse:
    """Return the content of an entry, as if its page had been requested. `feed`: the address of the feed."""
    dates = {"article:published_time": entry.published, "article:modified_time": entry.updated}
    meta = [f'<meta name="author" content="{escape(entry.author)}">'] if entry.author else []
    meta += [f'<meta property="{name}" content="{day.isoformat()}">' for name, day in dates.items() if day]
    # Without the tags of a whole page all of it counts as its text.
    body = f"{''.join(meta)}<article>{entry.html}</article>".encode(errors="replace")
    return StoredResponse(
        key=locator,
        asked=asked,
        body=body,
        version=version_of(entry),
        address=entry.address or feed,
        media_type="text/html",
        charset="utf-8",
        title=entry.title,
        replaces=replaces,
    )


def version_of(entry: FeedEntry) -> str:
    """Return a hash of what a reader sees of an entry."""
    seen = "\0".join((entry.title, entry.author, str(entry.published), entry.html))
    return hashlib.blake2b(seen.encode(errors="replace"), digest_size=16).hexdigest()
