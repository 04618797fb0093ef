"""The state of an address after each look at it, the time of the next look, and the test whether it was removed. No I/O."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urldefrag, urljoin

from catchment.content.normalize.decode import charset_of, decode
from catchment.content.normalize.html import page_of, tree_of
from catchment.content.normalize.html.bylines import is_past
from catchment.model import WARNING, time_of
from connectors.web.client import WebResponse

FIRST_INTERVAL = timedelta(days=1)
_LEAST, _LONGEST = timedelta(minutes=30), timedelta(days=7)
_LOOKS, _DAYS = 3, timedelta(days=3)
"""An address counts as removed if this number of looks in a row, over at least this time, found it missing."""
_MISSED_INTERVAL = _DAYS / (_LOOKS - 1)
_REFRESH = re.compile(
    r"""\s*(?P<seconds>\d{0,4})[\d.]*\s*[;,\s]\s*(?>(?:url\s*=\s*)?)(?:(?P<mark>["'])(?P<quoted>.*?)(?:(?P=mark).*)?|(?P<plain>.+))\Z""",
    re.IGNORECASE | re.DOTALL,
)
"""HTML Living Standard, "shared declarative refresh steps"."""
_MOST_WAIT, _MOST_TEXT = 10, 500
"""Seconds and characters of a page that only leads to another one."""
_INVISIBLE_TAGS = ["script", "style", "template"]


@dataclass(frozen=True, slots=True)
class PageState:
    """The state of an address, stored as attributes of its item. Times are aware UTC.

    Attributes:
        next: Time of the next look. `interval`: between the last look and the next.
        looks: Number of looks that got an answer.
        etag, modified, validated: For the next conditional request.
        size, dated: Of the latest content.
        followed: Most pages of its site when the ledger had all its links; 0 if it may lack some, or need not have them.
        missing: Time of the first look since the last content that found no such address. `missed`: number of such looks.
        warning: Reason that the text is older than the last look; "" if it is not.
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
    warning: str = ""

    @classmethod
    def of(cls, attributes: Mapping[str, Any]) -> PageState | None:
        """Return the state in the attributes of an item; None if it was never looked at as a page."""
        if not attributes.get("next"):
            return None
        fields: dict[str, Any] = {name: attributes[name] for name in _PLAIN if name in attributes}
        fields |= {name: datetime.fromisoformat(attributes[name]) for name in _TIMES if name in attributes}
        return cls(datetime.fromisoformat(attributes["next"]), timedelta(seconds=attributes["interval"]), **fields)

    def attributes(self) -> dict[str, Any]:
        """Return it as attributes of an item."""
        facts = {name: getattr(self, name) for name in _PLAIN if getattr(self, name)}
        facts |= {name: getattr(self, name).isoformat() for name in _TIMES if getattr(self, name)}
        return {"next": self.next.isoformat(), "interval": self.interval.total_seconds(), **facts}

    @property
    def last_look(self) -> datetime:
        """Time of the last look."""
        return self.next - self.interval

    @property
    def is_gone(self) -> bool:
        """Whether it was missing long enough to be deleted."""
        return self.missing is not None and self.missed >= _LOOKS and self.last_look - self.missing >= _DAYS

    def after_same_content(self, now: datetime, response: WebResponse) -> PageState:
        """Return the state after a look that had the same content."""
        interval = min(self.interval * 1.5, _LONGEST)
        state = replace(self, looks=self.looks + 1, missing=None, missed=0, next=now + interval, interval=interval)
        validators = {name: value for name, value in _validators(response).items() if value or response.status != 304}
        return replace(state, **validators, warning="")

    def after_miss(self, now: datetime, warning: str) -> PageState:
        """Return the state after a look that found the address missing."""
        interval = min(self.interval * 1.5, _LONGEST) if self.is_gone else _MISSED_INTERVAL
        state = replace(self, looks=self.looks + 1, missing=self.missing or now, missed=self.missed + 1)
        return replace(state, next=now + interval, interval=interval, warning=warning)

    def after_failure(self, now: datetime, warning: str) -> PageState:
        """Return the state after a look without an answer that could be used."""
        interval = min(max(self.interval * 1.5, FIRST_INTERVAL), _LONGEST)
        return replace(self, looks=self.looks + 1, next=now + interval, interval=interval, warning=warning)

    def without_validators(self) -> PageState:
        """Return the state after which the next request is unconditional."""
        return replace(self, etag=None, modified=None)


_PLAIN = ("looks", "etag", "modified", "validated", "size", "missed", "followed", WARNING)
_TIMES = ("dated", "missing")


def after_new_content(previous: PageState | None, now: datetime, response: WebResponse) -> PageState:
    """Return the state after a look that had new content."""
    interval = max(previous.interval / 2, _LEAST) if previous else FIRST_INTERVAL
    state = PageState(now + interval, interval, (previous.looks if previous else 0) + 1, **_validators(response))
    dated = time_of(response.modified, parsedate_to_datetime)
    return replace(state, size=len(response.body), dated=dated if is_past(dated) else None)


def digest(body: bytes, media_type: str) -> str:
    """Return the version of a page: of HTML, a hash of the visible text, with its title and the texts of its pictures.

    Scripts, other attributes and comments often differ from answer to answer. Call it in a parser process.
    """
    text = " ".join(_visible(body, media_type).split()).encode() if "html" in media_type else b""
    return hashlib.blake2b(text or body, digest_size=16).hexdigest()


def _visible(body: bytes, media_type: str) -> str:
    # Latin-1 reads each byte of any encoding as one character.
    tree = tree_of(page_of(body.decode("latin-1"), media_type))
    pictures = [node.attributes.get("alt") or "" for node in tree.css("img[alt]")]
    tree.strip_tags(_INVISIBLE_TAGS)
    return " ".join((tree.root.text(separator=" ") if tree.root else "", *pictures))


def leads_to(body: bytes, media_type: str, charset: str | None, address: str, header: str) -> str:
    """Return the address to which a page without much text leads at once, or "". `header`: its `Refresh` header.

    Call it in a parser process.
    """
    text = decode(body, charset, charset_of(body)).text
    tree = tree_of(page_of(text, media_type))
    targets = [header, *(node.attributes.get("content") or "" for node in tree.css("meta[http-equiv=refresh i]"))]
    refresh = next(filter(None, map(_REFRESH.match, targets)), None)
    tree.strip_tags([*_INVISIBLE_TAGS, "title", "noscript"])
    words = " ".join(tree.root.text(separator=" ").split()) if tree.root else ""
    if refresh is None or int(refresh["seconds"] or 0) > _MOST_WAIT or len(words) > _MOST_TEXT:
        return ""
    target = (refresh["quoted"] or refresh["plain"] or "").strip()
    # A page that reloads itself leads to no other page.
    return "" if not target or urldefrag(urljoin(address, target)).url == address else target


def _validators(response: WebResponse) -> dict[str, Any]:
    return {"etag": response.etag, "modified": response.modified, "validated": response.address}
