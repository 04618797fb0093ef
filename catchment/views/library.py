"""The library at a glance: its sources and their problems; the latest documents, and the numbers beside the filters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from catchment.content.disposable_file import file_size
from catchment.ledger import Incident, LatestDocument, Ledger, ListPage
from catchment.pacing.waits import WaitKind
from catchment.runtime.home import Home
from catchment.runtime.server_report import ServerReport
from catchment.runtime.worker_status import WorkerStatus
from catchment.search.meaning.meaning_status import MeaningStatus
from catchment.telemetry.incidents import FAIL
from catchment.views import hosts as joined
from catchment.views import sources, throttling, trouble
from catchment.views.health import HealthReport
from catchment.views.status import BackfillProgress, Overview, ServerStanding
from catchment.views.telemetry import conditions, incidents


@dataclass(frozen=True, slots=True)
class DocumentCounts:
    """Number of documents by source, kind of source and media type; most first."""

    sources: Mapping[str, int]
    kinds: Mapping[str, int]
    types: Mapping[str, int]


def overview(
    ledger: Ledger | None,
    home: Home,
    url: str | None,
    report: ServerReport | None,
    unsaved: Sequence[Incident] = (),
) -> Overview:
    """Return the overview of a home. `ledger`: None before the first source. `unsaved`: as for `incidents.opened`.

    `url`: the address of the server; None if Catchment does not run. `report`: the present one of the server; None if it does
    not answer.
    """
    checks = HealthReport.read(home)
    failed = sum(condition.verdict is FAIL for condition in checks.current(datetime.now(UTC))) if checks else 0
    server = ServerStanding(url is not None, report is not None, url)
    worker = WorkerStatus.read(home) if url else None
    opened = incidents.opened(ledger, unsaved) if ledger and url else ()
    sentence = f"{WaitKind.STOPPED.why}; {WaitKind.STOPPED.remedy}."
    if url:
        sentence = incidents.sentence(opened, trouble.number(ledger, unsaved) if ledger else 0)
    head = Overview(server, worker, failed, checks.at if checks else None, sentence)
    if ledger is None:
        return head
    return replace(
        head,
        meaning=MeaningStatus.read(home, ledger),
        sources=tuple(sources.standings(ledger, home, report)),
        hosts=tuple(throttling.hosts(ledger)),
        sinks=tuple(ledger.outbox.all()),
        incidents=opened,
        problems=tuple(conditions.present(ledger, home)),
        is_restore_unfinished=ledger.is_restore_unfinished,
        raw_bytes=file_size(home.raw),
        backfills=tuple(
            BackfillProgress(backfill.id, backfill.source, backfill.state, backfill.done, backfill.total)
            for backfill in ledger.backfills.unfinished()
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
