"""What is known of an address: the state that a look at it leaves, when to look again, and when it counts as gone. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from catchment.model import time_of
from connectors.web.client import WebResponse

FIRST_INTERVAL = timedelta(days=1)
_LEAST, _LONGEST = timedelta(minutes=30), timedelta(days=7)
_LOOKS, _DAYS = 3, timedelta(days=3)
"""An address is gone after so many looks over so many days."""
_MISSED_INTERVAL = _DAYS / (_LOOKS - 1)


@dataclass(frozen=True, slots=True)
class PageState:
    """What is known of an address, kept as attributes of its item. Times are aware UTC.

    Attributes:
        next: When to look again. `interval`: between the last look and that.
        looks: Looks that had an answer.
        etag, modified, validated: For the next conditional request.
        size, dated: Of the latest content.
        followed: Most pages of its site when the ledger had all its links; 0 if it may lack some, or need not have them.
        missing: Since when the host says that there is no such address, and `missed` how often.
    """

    next: datetime
    interval: timedelta = FIRST_INTERVAL
    looks: int = 0
    etag: str | None = None
    modified: str | None = None
    validated: str | None = None
    size: int | None = None
    dated: datetime | None = None
    missing: datetime | None = None
    missed: int = 0
    followed: int = 0

    @classmethod
    def of(cls, attributes: Mapping[str, Any]) -> PageState | None:
        """Return the state in the attributes of an item; None if it was never looked at as a page."""
        if not attributes.get("next"):
            return None
        given: dict[str, Any] = {name: attributes[name] for name in _PLAIN if name in attributes}
        given |= {name: datetime.fromisoformat(attributes[name]) for name in _TIMES if name in attributes}
        return cls(datetime.fromisoformat(attributes["next"]), timedelta(seconds=attributes["interval"]), **given)

    def attributes(self) -> dict[str, Any]:
        """Return it as attributes of an item."""
        given = {name: getattr(self, name) for name in _PLAIN if getattr(self, name)}
        given |= {name: getattr(self, name).isoformat() for name in _TIMES if getattr(self, name)}
        return {"next": self.next.isoformat(), "interval": self.interval.total_seconds(), **given}

    @property
    def looked(self) -> datetime:
        """When it was last looked at."""
        return self.next - self.interval

    @property
    def is_gone(self) -> bool:
        """Whether it was missing long enough to be deleted."""
        return self.missing is not None and self.missed >= _LOOKS and self.looked - self.missing >= _DAYS

    def unchanged(self, now: datetime, response: WebResponse) -> PageState:
        """Return the state after a look that had the same content."""
        interval = min(self.interval * 1.5, _LONGEST)
        state = replace(self, looks=self.looks + 1, missing=None, missed=0, next=now + interval, interval=interval)
        return state if response.status == 304 else replace(state, **_validators(response))

    def missed_at(self, now: datetime) -> PageState:
        """Return the state after a look that found nothing."""
        interval = _MISSED_INTERVAL
        missed = replace(self, looks=self.looks + 1, missing=self.missing or now, missed=self.missed + 1)
        return replace(missed, next=now + interval, interval=interval)

    def failed(self, now: datetime) -> PageState:
        """Return the state after a look without an answer that could be used."""
        interval = min(max(self.interval * 1.5, FIRST_INTERVAL), _LONGEST)
        return replace(self, looks=self.looks + 1, next=now + interval, interval=interval)


_PLAIN = ("looks", "etag", "modified", "validated", "size", "missed", "followed")
_TIMES = ("dated", "missing")


def changed(before: PageState | None, now: datetime, response: WebResponse) -> PageState:
    """Return the state after a look that had new content."""
    interval = max(before.interval / 2, _LEAST) if before else FIRST_INTERVAL
    state = PageState(now + interval, interval, (before.looks if before else 0) + 1, **_validators(response))
    return replace(state, size=len(response.body), dated=time_of(response.modified, parsedate_to_datetime))


def digest(body: bytes, media_type: str) -> str:
    """Return the version of a page: of HTML, a hash of the text alone.

    Scripts, attributes and comments often differ from answer to answer.
    """
    text = _visible(body) if "html" in media_type else b""
    return hashlib.blake2b(text or body, digest_size=16).hexdigest()


def _visible(body: bytes) -> bytes:
    first, *pieces = body.split(b"<")
    parts, hidden = [first], b""
    for piece in pieces:
        tag, _, text = piece.partition(b">")
        name = tag[:8].lower()
        if hidden and not name.startswith(b"/" + hidden):
            continue
        hidden = next((kind for kind in (b"script", b"style") if name.startswith(kind)), b"")
        parts.append(b"" if hidden or name.startswith(b"!") else text)
    return b" ".join(b" ".join(parts).split())


def _validators(response: WebResponse) -> dict[str, Any]:
    return {"etag": response.etag, "modified": response.modified, "validated": response.address}
