"""Find URLs, e-mail addresses and dates in text of any format."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date

from catchment.model import Entity, EntityKind, Link, LinkKind

# Each search starts at a rare literal and looks back over a bounded slice: always linear, and fast in most texts.
_AFTER_SCHEME = re.compile(r"://[^\s<>\"`\x00\[\]{}|\\]++")
_SCHEME = re.compile(r"(?<![A-Za-z0-9])[A-Za-z][A-Za-z0-9+-]{1,15}\Z")
_SENTENCE_MARKS = ".,;:!?'*_~"
_AFTER_AT = re.compile(r"@((?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24})(?![\w-])")
_MAILBOX = re.compile(r"(?<![\w.%+-])[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}\Z")
_MONTH_AND_DAY = re.compile(r"-[01][0-9]-[0-3][0-9](?![0-9-]|[^\WT]|\.[0-9])")
_YEAR = re.compile(r"(?<![\w.-])[12][0-9]{3}\Z")


def urls(text: str) -> Iterator[Link]:
    """Yield the URLs in the text, without the punctuation of the sentence around them."""
    if "://" not in text:
        return
    for match in _AFTER_SCHEME.finditer(text):
        scheme = _SCHEME.search(text, max(0, match.start() - 17), match.start())
        address = _without_end_of_sentence(match[0])
        if scheme and len(address) > len("://"):
            yield Link(LinkKind.URL, scheme[0] + address, "", "", scheme.start(), match.start() + len(address))


def _without_end_of_sentence(address: str) -> str:
    """Return the URL without trailing punctuation and without closing parentheses that have no partner in it."""
    end, surplus = len(address), address.count(")") - address.count("(")
    while address[end - 1] in _SENTENCE_MARKS or (surplus > 0 and address[end - 1] == ")"):
        surplus -= address[end - 1] == ")"
        end -= 1
    return address[:end]


def emails(text: str) -> Iterator[Entity]:
    """Yield the e-mail addresses in lower case."""
    if "@" not in text:
        return
    for match in _AFTER_AT.finditer(text):
        if mailbox := _MAILBOX.search(text, max(0, match.start() - 65), match.start()):
            value = (mailbox[0] + match[0]).lower()
            yield Entity(EntityKind.EMAIL, value, "", mailbox.start(), match.end())


def dates(text: str) -> Iterator[Entity]:
    """Yield dates in ISO 8601 form; other notations are ambiguous."""
    if "-" not in text:
        return
    for match in _MONTH_AND_DAY.finditer(text):
        year = _YEAR.search(text, max(0, match.start() - 5), match.start())
        if year is None:
            continue
        value = year[0] + match[0]
        try:
            date.fromisoformat(value)
        except ValueError:
            continue
        yield Entity(EntityKind.DATE, value, "", year.start(), match.end())
