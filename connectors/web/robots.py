"""The rules of a site for robots (RFC 9309)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from protego import Protego

TOKEN = "catchment"
"""Our product token, which site owners address in robots.txt."""
_MOST_BYTES = 500 * 1024
_MOST_DELAY = 60.0
_AGENT = re.compile(r"^[^\S\n]*user[- ]?agent[^\S\n]*:?[^\S\n]*([^\s/;#]*).*$", re.IGNORECASE | re.MULTILINE)


class RobotsVerdict(NamedTuple):
    """Whether a robots.txt lets us request an address.

    `delay`: seconds between two requests, at most 60; None if the site names none.
    """

    allows: bool
    delay: float | None


def verdict(file: bytes, address: str) -> RobotsVerdict:
    """Return the rules of a robots.txt for an address. An empty file allows everything.

    Call it in a parser process: rules with many wildcards can take for ever.
    """
    rules = _rules(file)
    delay = rules.crawl_delay(TOKEN)
    return RobotsVerdict(bool(rules.can_fetch(address, TOKEN)), None if delay is None else min(delay, _MOST_DELAY))


@lru_cache(maxsize=64)
def _rules(file: bytes) -> Protego:
    text = file[:_MOST_BYTES].decode("utf-8-sig", "replace")
    # Protego gives each agent its own rules: thousands of agents times thousands of rules would take gigabytes.
    return Protego.parse(_AGENT.sub(_agent, "\n".join(text.splitlines())))


def _agent(match: re.Match[str]) -> str:
    name = match[1].lower()
    return f"User-agent: {name if name in ('*', TOKEN) else 'other'}"
