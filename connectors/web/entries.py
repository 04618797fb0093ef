"""The entry of a feed as a page of its own. Pure."""

from __future__ import annotations

import hashlib
from datetime import datetime
from html import escape

from connectors.web.feeds import Entry


def page_of(entry: Entry) -> bytes:
    """Return the content of an entry as HTML, with its title, author and dates."""
    dates = {"article:published_time": entry.published, "article:modified_time": entry.updated}
    meta = [f'<meta name="author" content="{escape(entry.author)}">'] if entry.author else []
    meta += [f'<meta property="{name}" content="{day.isoformat()}">' for name, day in dates.items() if day]
    title = f"<title>{escape(entry.title)}</title>"
    return f"{title}{''.join(meta)}<article>{entry.html}</article>".encode(errors="replace")


def version_of(entry: Entry) -> str:
    """Return a hash of what a reader sees of an entry."""
    seen = "\0".join((entry.title, entry.author, str(entry.published), entry.html))
    return hashlib.blake2b(seen.encode(errors="replace"), digest_size=16).hexdigest()


def date_of(entry: Entry) -> datetime | None:
    """Return when an entry was last changed."""
    return entry.updated or entry.published
