"""The rules of a site for robots (RFC 9309)."""

from __future__ import annotations

import re
from typing import Self

from protego import Protego

TOKEN = "catchment"
"""Our product token, which site owners address in robots.txt."""
_MOST_BYTES = 500 * 1024
_MOST_DELAY = 60.0
_AGENT = re.compile(r"^[^\S\n]*user[- ]?agent[^\S\n]*:?[^\S\n]*([^\s/;#]*).*$", re.IGNORECASE | re.MULTILINE)


class Robots:
    """The rules of one site for our requests."""

    def __init__(self, rules: Protego | None) -> None:
        self._rules = rules

    @classmethod
    def of(cls, status: int, body: bytes = b"") -> Self:
        """Read the answer to a request for robots.txt; a `status` of 500 stands for an unreachable site.

        A site without the file allows everything; a site that fails or throttles allows nothing for now.
        """
        if status >= 500 or status == 429:
            return cls(None)
        text = body[:_MOST_BYTES].decode("utf-8-sig", "replace") if 200 <= status < 300 else ""
        # Protego gives each agent its own rules: thousands of agents times thousands of rules would take gigabytes.
        return cls(Protego.parse(_AGENT.sub(_agent, "\n".join(text.splitlines()))))

    def allows(self, address: str) -> bool:
        """Return whether we may request the address."""
        return self._rules is not None and self._rules.can_fetch(address, TOKEN)

    @property
    def delay(self) -> float | None:
        """Seconds between two requests, at most 60; None if the site names none."""
        delay = self._rules.crawl_delay(TOKEN) if self._rules else None
        return None if delay is None else min(delay, _MOST_DELAY)


def _agent(match: re.Match[str]) -> str:
    name = match[1].lower()
    return f"User-agent: {name if name in ('*', TOKEN) else 'other'}"
