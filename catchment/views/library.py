"""The library at a glance: its sources and what is wrong; the latest documents, and the numbers beside the filters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from catchment.content.disposable_file import file_size
from catchment.ledger import Incident, LatestDocument, Ledger, ListPage, SinkRow
from catchment.runtime.home import Home
from catchment.runtime.server_report import ServerReport
from catchment.search.meaning.meaning_status import MeaningStatus
from catchment.telemetry.incidents import FAIL, Condition
from catchment.views import hosts as joined
from catchment.views import sources, throttling, trouble
from catchment.views.health import HealthReport
from catchment.views.hosts import HostStanding
from catchment.views.sources import SourceStanding
from catchment.views.telemetry import conditions, incidents
from catchment.views.telemetry.incidents import IncidentView
from catchment.views.throttling import HostStatus


@dataclass(frozen=True, slots=True)
class BackfillProgress:
    """A backfill that runs or is paused, with the numbers of its jobs."""

    id: int
    source: str
    state: str
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Overview:
    """What `catchment status` shows.

    Attributes:
        answers: Whether the Prefect server answered.
        failed_checks, checked: Number of checks that failed when they last ran in the background, and when that was.
        sentence: Whether all is well, or the worst incident.
        meaning, meaning_text: How far the embeddings are, also in words. None before the first source, as the fields below.
        problems: What is wrong with sources, hosts and sinks now, worst first; also while nothing runs and judges incidents.
        raw_bytes: Size of the raw content that is kept.
        backfills: Those that run or are paused.
        machines: The hosts that share the ledger; none if this home runs alone. `hosts` are those of the sources.
    """

    answers: bool
    failed_checks: int
    checked: datetime | None
    sentence: str
    meaning: MeaningStatus | None = None
    meaning_text: str = ""
    sources: tuple[SourceStanding, ...] = ()
    hosts: tuple[HostStatus, ...] = ()
    sinks: tuple[SinkRow, ...] = ()
    incidents: tuple[IncidentView, ...] = ()
    problems: tuple[Condition, ...] = ()
    is_restore_unfinished: bool = False
    raw_bytes: int = 0
    backfills: tuple[BackfillProgress, ...] = ()
    machines: tuple[HostStanding, ...] = ()


@dataclass(frozen=True, slots=True)
class DocumentCounts:
    """Number of documents by source, kind of source and media type; most first."""

    sources: Mapping[str, int]
    kinds: Mapping[str, int]
    types: Mapping[str, int]


def overview(
    ledger: Ledger | None, home: Home, report: ServerReport | None, unsaved: Sequence[Incident] = ()
) -> Overview:
    """Return the overview of a home. `ledger`: None before the first source. `unsaved`: as for `incidents.opened`.

    `report`: the present one of the server; None if it does not answer.
    """
    checks = HealthReport.read(home)
    failed = sum(one.verdict is FAIL for one in checks.current(datetime.now(UTC))) if checks else 0
    head = Overview(report is not None, failed, checks.at if checks else None, incidents.sentence(()))
    if ledger is None:
        return head
    opened, meaning = incidents.opened(ledger, unsaved), MeaningStatus.read(home, ledger)
    return replace(
        head,
        sentence=incidents.sentence(opened, trouble.number(ledger, unsaved)),
        meaning=meaning,
        meaning_text=str(meaning),
        sources=tuple(sources.standings(ledger, home, report)),
        hosts=tuple(throttling.hosts(ledger)),
        sinks=tuple(ledger.outbox.all()),
        incidents=opened,
        problems=tuple(conditions.present(ledger, home)),
        is_restore_unfinished=ledger.is_restore_unfinished,
        raw_bytes=file_size(home.raw),
        backfills=tuple(
            BackfillProgress(one.id, one.source, one.state, one.done, one.total)
            for one in ledger.backfills.unfinished()
        ),
        machines=tuple(joined.hosts(ledger, report or ServerReport.read(home))),
    )


def latest(ledger: Ledger, *, after: str | None = None, limit: int = 50) -> ListPage[LatestDocument]:
    """Return the documents with a date in parts, latest first."""
    return ledger.library.latest(after=after, limit=limit)


def counts(ledger: Ledger) -> DocumentCounts:
    """Return the number of documents for each value of the filters."""
    sizes = Counter(ledger.library.sizes())
    kinds: Counter[str] = Counter()
    for source in ledger.sources.all():
        kinds[source.kind] += sizes[source.name]
    return DocumentCounts(dict(sizes.most_common()), dict(kinds.most_common()), ledger.library.types())
