"""The present state of every series of the catalogue, and the gauges, read from the ledger, the home and the worker."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import chain

from catchment import __version__
from catchment.content.disposable_file import file_size
from catchment.ledger import Incident, Ledger, SinkState, sqlite_file
from catchment.model import JobState
from catchment.pacing.breaker import Position
from catchment.runtime.home import Home
from catchment.runtime.worker_status import WorkerStatus
from catchment.telemetry import catalogue
from catchment.telemetry.catalogue import BY_NAME
from catchment.telemetry.exposition import Series, series
from catchment.telemetry.tally import Tally, label_values
from catchment.views.telemetry.incidents import opened


def current(ledger: Ledger, home: Home, unsaved: Sequence[Incident] = ()) -> list[Series]:
    """Return every series: totals of the counters and histograms since the ledger exists, and the gauges.

    `unsaved`: as for `incidents.opened`.
    """
    sources = {source.id: (source.kind, source.priority.value) for source in ledger.sources.all()}
    present = (
        ((name, label_values(labels), *sources.get(source_id, ("", ""))), figure)
        for (name, labels, source_id), figure in gauges(ledger, home, unsaved)
    )
    return series(chain(ledger.measures.totals().items(), present), {kind for kind, _ in sources.values()})


def sample(ledger: Ledger, home: Home) -> None:
    """Store the gauges of which the ledger keeps a figure for each minute."""
    ledger.measures.tally.merge((key, figure) for key, figure in gauges(ledger, home) if BY_NAME[key[0]].sampled)
    ledger.measures.flush()


def gauges(ledger: Ledger, home: Home, unsaved: Sequence[Incident] = ()) -> Tally:
    """Return the present value of each gauge, by source where it has one. Takes 20 ms with 100,000 jobs in the queue."""
    tally = Tally()
    _queue(tally, ledger)
    _limits(tally, ledger)
    for incident in opened(ledger, unsaved):
        tally.add(catalogue.INCIDENTS, 1, reason=incident.reason)
    embedded = ledger.embeddings.counts(ledger.embeddings.wanted())
    tally.add(catalogue.PASSAGES, embedded.done, state="embedded")
    tally.add(catalogue.PASSAGES, embedded.total - embedded.done, state="waiting")
    recognized, pages = ledger.recognition.counts()
    tally.add(catalogue.PAGES, recognized, state="recognized")
    tally.add(catalogue.PAGES, pages - recognized, state="waiting")
    for sink in ledger.outbox.all():
        state = "paused" if sink.state is SinkState.PAUSED else "failing" if sink.error else "active"
        tally.add(catalogue.SINKS, 1, state=state)
        tally.add(catalogue.COPIES, sink.waiting, state="waiting")
        tally.add(catalogue.COPIES, sink.refused, state="refused")
    for host in ledger.hosts.all():
        tally.add(catalogue.MACHINE_UP, host.is_alive, machine=host.name)
        if host.last_beat:
            age = (ledger.now() - host.last_beat).total_seconds()
            tally.add(catalogue.MACHINE_BEAT, max(0.0, age), machine=host.name)
    _machine(tally, home)
    return tally


def _queue(tally: Tally, ledger: Ledger) -> None:
    backlogs, quarantined, now = ledger.queue.backlogs(), ledger.quarantine.stats(), ledger.now()
    for source in ledger.sources.all():
        backlog = backlogs.get(source.id)
        for state in (JobState.PENDING, JobState.RUNNING, JobState.RETRYING):
            tally.add(catalogue.QUEUE, backlog.jobs.get(state, 0) if backlog else 0, source.id, state=state)
        age = (now - backlog.oldest).total_seconds() if backlog else 0.0
        tally.add(catalogue.QUEUE_AGE, max(0.0, age), source.id)
        for reason, count in quarantined.get(source.name, {}).items():
            tally.add(catalogue.IN_QUARANTINE, count, source.id, reason=reason)
        tally.add(catalogue.SOURCES, 1, source.id, state=source.state)


def _limits(tally: Tally, ledger: Ledger) -> None:
    for breaker in ledger.pacing.breakers():
        if breaker.position is not Position.CLOSED:
            tally.add(catalogue.BREAKERS, 1, of=breaker.key.partition(":")[0])
    shares = [row.left / row.allowed for row in ledger.pacing.buckets() if row.allowed and row.left is not None]
    tally.add(catalogue.REMAINING, min(shares, default=1.0))


def _machine(tally: Tally, home: Home) -> None:
    worker = WorkerStatus.read(home)
    if worker is not None and worker.is_current(datetime.now(UTC)):
        tally.add(catalogue.RUNS, worker.running, state="running")
        tally.add(catalogue.RUNS, worker.waiting, state="waiting")
        tally.add(catalogue.RUNS, worker.limit, state="limit")
        tally.add(catalogue.PARSERS_BUSY, worker.busy_parsers)
    tally.add(catalogue.DISK_FREE, shutil.disk_usage(home.path).free)
    file = sqlite_file(home.database_url)
    tally.add(catalogue.LEDGER_SIZE, 0 if file is None else file_size(file))
    tally.add(catalogue.RAW_SIZE, file_size(home.raw))
    tally.add(catalogue.BUILD, 1, version=__version__)
