"""Recognize answers that a host gives for many addresses instead of their pages: logins, requests for consent, error pages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from catchment.errors import FetchFailed
from catchment.model import KnownItem
from connectors.web.address import host_of
from connectors.web.client import WebResponse
from connectors.web.store import parts_of

_WAITING = 8
"""New texts of known pages of a host that wait for a second answer with the same text."""


class SharedAnswer(FetchFailed):
    """The host gives this answer for other addresses, too."""

    def __str__(self) -> str:
        return f"{self.args[0]}: answers with the same text for several addresses, such as a login or a request for consent"


class WaitingAnswer(NamedTuple):
    """An answer that waits. `text`: the hash of its text."""

    locator: str
    text: str
    response: WebResponse


class SharedAnswers:
    """The texts that addresses of a host answered with. `items`: the items in the ledger."""

    def __init__(self, items: Mapping[str, KnownItem]) -> None:
        self._items = items
        self._places: dict[tuple[str, str], str] = {}
        """A place of each text: host and hash to locator."""
        self._waiting: defaultdict[str, list[WaitingAnswer]] = defaultdict(list)

    def is_shared(self, host: str, text: str, locator: str) -> bool:
        """Note the text of an address, and return whether another address of its host has it or had it before.

        Not so of addresses that had equal texts before.
        """
        if not self._places:
            for place, item in self._items.items():
                self._places.setdefault((host_of(place), parts_of(item.version)[0]), place)
        place_of_text = self._places.setdefault((host, text), locator)
        # Two addresses of one page change together.
        return place_of_text != locator and self._known_text(place_of_text) != self._known_text(locator)

    def _known_text(self, locator: str) -> str:
        return parts_of(self._items[locator].version)[0] if locator in self._items else ""

    def hold(self, host: str, answer: WaitingAnswer) -> list[WaitingAnswer]:
        """Add a waiting answer. Return the answers that need not wait longer."""
        waiting = self._waiting[host]
        waiting.append(answer)
        return [waiting.pop(0)] if len(waiting) > _WAITING else []

    def release(self, host: str, text: str) -> list[WaitingAnswer]:
        """Return the waiting answers with a text, which turned out to be shared."""
        matches = [answer for answer in self._waiting[host] if answer.text == text]
        self._waiting[host] = [answer for answer in self._waiting[host] if answer.text != text]
        return matches

    def settle(self) -> list[WaitingAnswer]:
        """Return the answers that still wait: no other address has their texts."""
        waiting = [answer for answers in self._waiting.values() for answer in answers]
        self._waiting.clear()
        return waiting
