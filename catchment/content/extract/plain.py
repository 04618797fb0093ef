"""What any text may hold: addresses of pages and of people, and dates."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date

from catchment.model import Entity, EntityKind, Link, LinkKind

# Each search starts at a rare literal and looks back over a bounded slice: linear in any text, and fast in most.
_AFTER_SCHEME = re.compile(r"://[^\s<>\"`\x00\[\]{}|\\]++")
_SCHEME = re.compile(r"(?<![A-Za-z0-9])[A-Za-z][A-Za-z0-9+-]{1,15}\Z")
_SENTENCE_MARKS = ".,;:!?'*_~"
_AFTER_AT = re.compile(r"@((?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24})(?![\w-])")
_MAILBOX = re.compile(r"(?<![\w.%+-])[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}\Z")
_MONTH_AND_DAY = re.compile(r"-[01][0-9]-[0-3][0-9](?![0-9-]|[^\WT]|\.[0-9])")
_YEAR = re.compile(r"(?<![\w.-])[12][0-9]{3}\Z")


def urls(text: str) -> Iterator[Link]:
    """Addresses written out in the text, without the punctuation of the sentence around them."""
    if "://" not in text:
        return
    for found in _AFTER_SCHEME.finditer(text):
        scheme = _SCHEME.search(text, max(0, found.start() - 17), found.start())
        address = _without_end_of_sentence(found[0])
        if scheme and len(address) > len("://"):
            yield Link(LinkKind.URL, scheme[0] + address, "", "", scheme.start(), found.start() + len(address))


def _without_end_of_sentence(address: str) -> str:
    """The address without the marks after it, and without the brackets that close what was opened before it."""
    end, surplus = len(address), address.count(")") - address.count("(")
    while address[end - 1] in _SENTENCE_MARKS or (surplus > 0 and address[end - 1] == ")"):
        surplus -= address[end - 1] == ")"
        end -= 1
    return address[:end]


def emails(text: str) -> Iterator[Entity]:
    """E-mail addresses, in lower case."""
    if "@" not in text:
        return
    for found in _AFTER_AT.finditer(text):
        if mailbox := _MAILBOX.search(text, max(0, found.start() - 65), found.start()):
            value = (mailbox[0] + found[0]).lower()
            yield Entity(EntityKind.EMAIL, value, "", mailbox.start(), found.end())


def dates(text: str) -> Iterator[Entity]:
    """Days written as ISO 8601 has it; other ways of writing are ambiguous."""
    if "-" not in text:
        return
    for found in _MONTH_AND_DAY.finditer(text):
        year = _YEAR.search(text, max(0, found.start() - 5), found.start())
        if year is None:
            continue
        value = year[0] + found[0]
        try:
            date.fromisoformat(value)
        except ValueError:
            continue
        yield Entity(EntityKind.DATE, value, "", year.start(), found.end())
