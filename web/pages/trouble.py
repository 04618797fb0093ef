"""Trouble: what needs a person, and their number, which each page shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from catchment.ledger import Ledger
from catchment.runtime.home import Home
from catchment.views.health import HealthReport, Verdict
from catchment.views.sources import standings
from web.site import Data, WebPage
from web.warm_library import WarmLibrary


@dataclass(frozen=True, slots=True)
class Problem:
    """An open problem: its title, the number of items, the facts, and what helps."""

    state: str
    title: str
    number: int | None
    facts: str
    remedy: str


def count(library: WarmLibrary) -> int:
    """Return the number of open problems."""
    return len(_problems(library))


def _data(library: WarmLibrary, _parameters: Mapping[str, str]) -> Data:
    report = HealthReport.read(library.home)
    return {"problems": _problems(library), "report": report, "checks": report.findings if report else ()}


def _problems(library: WarmLibrary) -> list[Problem]:
    ledger, home = library.ledger, library.home
    return [*_of_sources(ledger, home), *_of_items(ledger), *_of_checks(home)]


def _of_sources(ledger: Ledger, home: Home) -> Iterator[Problem]:
    for source in standings(ledger, home):
        if source.state == "held":
            reason, resume = source.state_reason or "", f"catchment sources resume {source.name}"
            yield Problem("held", f"{source.name}: held", None, reason, resume)
        if source.held_deletions:
            text = "deletions wait for a decision"
            see = f"catchment deletions list {source.name}"
            yield Problem("held", f"{source.name}: {text}", source.held_deletions, "Nothing is deleted until then", see)


def _of_items(ledger: Ledger) -> Iterator[Problem]:
    for cluster in ledger.quarantine.clusters():
        facts = f"{cluster.reason.replace('_', ' ')} · {', '.join(cluster.sources)}"
        see = "catchment quarantine list"
        yield Problem("fail", cluster.message or cluster.error, cluster.count, facts, see)


def _of_checks(home: Home) -> Iterator[Problem]:
    """Yield the failed checks of what belongs to no source: the others are there already."""
    report = HealthReport.read(home)
    for finding in report.findings if report else ():
        if finding.verdict is Verdict.FAIL and not finding.probe.startswith("source "):
            yield Problem("fail", f"{finding.probe}: {finding.message}", None, "", finding.remedy)


PAGES = (WebPage("/trouble", "trouble.html", _data, ("queue",)),)
