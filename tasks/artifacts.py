"""The artifacts of sources and of the library in the Prefect UI: their keys and texts.

Imports no Prefect: the health page and commands use it, too.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from catchment.ledger import Ledger, ListPage, QuarantineEntry
from catchment.runtime.home import Home
from catchment.runtime.web_process import page_address
from catchment.views.sources import SourceStanding, shown_state, standings
from catchment.views.trouble import problem_and_remedy

OF_SOURCE = ("quarantine", "summary", "progress")
"""The artifacts of each source; `artifact_key` makes their keys."""
_MARKUP = re.compile(r"[\\`*_\[\]<>|~&!#]")


class MarkdownText(NamedTuple):
    """The Markdown and the description of an artifact."""

    data: str
    description: str


DONE, ENDED_EARLY = 100.0, "ended early"
"""The percentage of a completed sync, and the description of the progress of a sync that has ended in another state."""
NOTHING = "Nothing is in quarantine."
SHOWN = 100
"""Maximum number of items that the quarantine lists."""


def artifact_key(source: str, content: str) -> str:
    """Return the artifact key of a source, unique per source, in lower-case letters, digits and dashes."""
    name = source
    if "_" in source:
        # Prefect allows no underscore. The digest distinguishes `my_notes` from `my-notes`.
        digest = hashlib.sha256(source.encode()).hexdigest()[:8]
        name = f"{source.replace('_', '-')}-{digest}"
    return f"{name}-{content}"


def quarantine(home: Home, source: str, page: ListPage[QuarantineEntry]) -> MarkdownText:
    """Return the items of a source in quarantine, by the number of their job, with the remedy and the page."""
    if not page.total:
        return MarkdownText(NOTHING, f"{source}: nothing in quarantine")
    rows = []
    for entry in page.rows:
        address = page_address(home, f"/jobs/{entry.job}")
        number = f"[{entry.job}]({address})" if address else str(entry.job)
        rows.append((number, entry.reason, *map(as_text, problem_and_remedy(entry.message, entry.reason))))
    more = f"The latest {len(rows)} of {page.total:,} items. " if page.total > len(rows) else ""
    text = (
        f"{table(('item', 'reason', 'problem', 'what helps'), rows)}\n\n{more}Retry: `catchment quarantine retry ITEM`."
    )
    return MarkdownText(text, f"{source}: {page.total:,} in quarantine")


def library(ledger: Ledger, home: Home) -> MarkdownText:
    """Return the sources with their numbers, and the totals."""
    sources = standings(ledger, home)
    rows = [
        (
            as_text(source.name),
            source.kind,
            shown_state(ledger, ledger.sources.get(source.name).id, source.state),
            *map("{:,}".format, _numbers(source)),
        )
        for source in sources
    ]
    totals = [sum(numbers) for numbers in zip(*map(_numbers, sources), strict=True)] or [0, 0, 0]
    total = ("**all**", "", "", *(f"**{number:,}**" for number in totals))
    headers = ("source", "kind", "state", "documents", "waiting", "in quarantine")
    return MarkdownText(table(headers, [*rows, total]), f"Library: {totals[0]:,} documents of {len(sources)} sources")


def _numbers(standing: SourceStanding) -> tuple[int, int, int]:
    return standing.documents, standing.waiting, standing.quarantined


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [headers, ["---"] * len(headers), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def as_text(cell: str) -> str:
    """Return a table cell without Markdown markup: a message may contain the name of a folder."""
    return _MARKUP.sub(r"\\\g<0>", " ".join(cell.splitlines()))
