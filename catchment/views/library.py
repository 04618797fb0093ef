"""The library at a glance: its sources and their problems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from catchment.content.disposable_file import file_size
from catchment.ledger import Incident, Ledger
from catchment.pacing.waits import WaitKind
from catchment.records import record_of
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
from catchment.views.work.recognition import RecognitionStatus


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
        recognition=RecognitionStatus.read(ledger),
        sources=tuple(sources.standings(ledger, home, report)),
        hosts=tuple(throttling.hosts(ledger)),
        sinks=tuple(ledger.outbox.all()),
        incidents=opened,
        problems=tuple(conditions.present(ledger, home)),
        is_restore_unfinished=ledger.is_restore_unfinished,
        raw_bytes=file_size(home.raw),
        backfills=tuple(record_of(BackfillProgress, backfill) for backfill in ledger.backfills.unfinished()),
        machines=tuple(joined.hosts(ledger, report or ServerReport.read(home))),
    )
