"""The entry of a feed as a page of its own. Pure."""

from __future__ import annotations

import hashlib
from datetime import datetime
from html import escape

from connectors.web.feeds import FeedEntry


def page_of(entry: FeedEntry) -> bytes:
    """Return the content of an entry as HTML with its author and dates. It has no tags of a whole page: all of it counts."""
    dates = {"article:published_time": entry.published, "article:modified_time": entry.updated}
    meta = [f'<meta name="author" content="{escape(entry.author)}">'] if entry.author else []
    meta += [f'<meta property="{name}" content="{day.isoformat()}">' for name, day in dates.items() if day]
    return f"{''.join(meta)}<article>{entry.html}</article>".encode(errors="replace")


def version_of(entry: FeedEntry) -> str:
    """Return a hash of what a reader sees of an entry."""
    seen = "\0".join((entry.title, entry.author, str(entry.published), entry.html))
    return hashlib.blake2b(seen.encode(errors="replace"), digest_size=16).hexdigest()


def date_of(entry: FeedEntry) -> datetime | None:
    """Return when an entry was last changed."""
    return entry.updated or entry.published
