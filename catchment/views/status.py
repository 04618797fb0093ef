"""The content of `catchment status`. Quick to import."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from catchment.records.standing import SinkRow
from catchment.runtime.worker_status import WorkerStatus
from catchment.search.meaning.meaning_status import MeaningStatus
from catchment.telemetry.incidents import Condition
from catchment.views.hosts import HostStanding
from catchment.views.sources import SourceStanding
from catchment.views.telemetry.incidents import IncidentView
from catchment.views.throttling import HostStatus
from catchment.views.work.recognition import RecognitionStatus


@dataclass(frozen=True, slots=True)
class ServerStanding:
    """The Prefect server: whether Catchment runs here, whether the server answers, and its address, if Catchment runs."""

    running: bool
    answers: bool
    url: str | None


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
        worker: Its last report; None unless it lives.
        failed_checks, checked: Number of checks that failed when they last ran in the background, and when that was.
        sentence: Whether all is well, or the worst incident.
        meaning: How far the embeddings are. None before the first source, as the fields below.
        recognition: How far the recognition of text on pictures is.
        incidents: The open incidents; none while Catchment is stopped, because the page judges them.
        problems: The problems of sources, hosts and sinks now, worst first; also while Catchment is stopped.
        raw_bytes: Size of the raw content that is kept.
        backfills: Those that run or are paused.
        machines: The hosts that share the ledger; none if this home runs alone. `hosts` are those of the sources.
    """

    server: ServerStanding
    worker: WorkerStatus | None
    failed_checks: int
    checked: datetime | None
    sentence: str
    meaning: MeaningStatus | None = None
    recognition: RecognitionStatus | None = None
    sources: tuple[SourceStanding, ...] = ()
    hosts: tuple[HostStatus, ...] = ()
    sinks: tuple[SinkRow, ...] = ()
    incidents: tuple[IncidentView, ...] = ()
    problems: tuple[Condition, ...] = ()
    is_restore_unfinished: bool = False
    raw_bytes: int = 0
    backfills: tuple[BackfillProgress, ...] = ()
    machines: tuple[HostStanding, ...] = ()
