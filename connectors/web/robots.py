"""The rules of a site for robots (RFC 9309)."""

from __future__ import annotations

import re

from protego import Protego

TOKEN = "catchment"
"""Our product token, which site owners address in robots.txt."""
_MOST_BYTES = 500 * 1024
_MOST_DELAY = 60.0
_AGENT = re.compile(r"^[^\S\n]*user[- ]?agent[^\S\n]*:?[^\S\n]*([^\s/;#]*).*$", re.IGNORECASE | re.MULTILINE)


class Robots:
    """The rules of one site for our requests."""

    def __init__(self, file: bytes) -> None:
        """Read a robots.txt. An empty one allows everything."""
        text = file[:_MOST_BYTES].decode("utf-8-sig", "replace")
        # Protego gives each agent its own rules: thousands of agents times thousands of rules would take gigabytes.
        self._rules = Protego.parse(_AGENT.sub(_agent, "\n".join(text.splitlines())))

    def allows(self, address: str) -> bool:
        """Return whether we may request the address."""
        return bool(self._rules.can_fetch(address, TOKEN))

    @property
    def delay(self) -> float | None:
        """Seconds between two requests, at most 60; None if the site names none."""
        delay = self._rules.crawl_delay(TOKEN)
        return None if delay is None else min(delay, _MOST_DELAY)


def _agent(match: re.Match[str]) -> str:
    name = match[1].lower()
    return f"User-agent: {name if name in ('*', TOKEN) else 'other'}"
