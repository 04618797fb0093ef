"""Completion of words in a shell, by the web process or, without it, by reading the ledger, which takes half a second."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress

import typer

from catchment.errors import PageSilent
from catchment.runtime.home import Home

_SPECIAL = re.compile(r"([^\w@%+=:,./-])")
"""Characters that bash would not take as part of a word."""


def names(kind: str) -> Callable[[str], list[str]]:
    """Return the completion of a "document", or of the values of a filter such as "tag"."""

    def complete(incomplete: str) -> list[str]:
        return _for_shell(_words(kind, incomplete))

    return complete


def query(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete a filter of a search, or its value."""
    before = list(ctx.params.get("words") or ())
    # For bash, a colon is a separate word, and only the part behind it is replaced.
    if incomplete == ":":
        return _values(before[-1:], "")
    if before[-1:] == [":"]:
        return _values(before[-2:-1], incomplete)
    name, colon, start = incomplete.partition(":")
    if not colon:
        if len(filters := _words("filter", incomplete)) != 1:
            return filters
        # With its values: shells put a space behind a single completion.
        name = filters[0].rstrip(":")
    return [f"{name}:{value}" for value in _values([name], start)] or [f"{name}:"]


def _values(name: Iterable[str], start: str) -> list[str]:
    words = [word for each in name for word in _words(each.lstrip("-"), start.lstrip('"'))]
    return _for_shell(f'"{word}"' if " " in word else word for word in words)


def _words(kind: str, start: str) -> list[str]:
    from catchment.runtime import web_process

    home = Home.default()
    with suppress(PageSilent):
        return web_process.fetch(home, "/completions", list[str], name=kind, start=start)
    from catchment.ledger import Ledger
    from catchment.search.completions import completions

    return Ledger.ask(home, lambda ledger: completions(ledger, kind, start), [])


class _Offered(str):
    """A word that typer does not compare with the typed text, which may differ in case or be the colon before the word."""

    __slots__ = ()

    def startswith(self, *_: object) -> bool:
        return True


def _for_shell(words: Iterable[str]) -> list[str]:
    """Quote words for bash; other shells do it themselves."""
    is_bash = os.environ.get("_CATCHMENT_COMPLETE") == "complete_bash"
    return [_Offered(_SPECIAL.sub(r"\\\1", word) if is_bash else word) for word in words]
