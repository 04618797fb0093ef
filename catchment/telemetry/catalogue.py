"""The catalogue of metrics. Storage, the Prometheus text, OTLP, docs/telemetry.md and the tests are made from it.

Names follow OpenTelemetry ("catchment.sync.duration", in s); `Metric.prometheus` is the other form. No label names a source,
path, address or host of a source: the ledger stores figures by source, and they are summed by connector and priority before
they leave it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from catchment.errors import FailureClass, Reason
from catchment.model import JobState
from catchment.telemetry.incidents import ReasonCode

BOUNDS = (0.005, 0.02, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 20.0, 60.0, 300.0, 900.0, 3600.0)
"""Upper bounds in seconds of the buckets of every histogram; one more bucket holds the rest. Objectives use 2 and 300."""


class Kind(StrEnum):
    """Kind of a metric."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Unit(StrEnum):
    """Unit of a metric. Counts have none."""

    ONE = "1"
    SECONDS = "s"
    BYTES = "By"


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric.

    Attributes:
        labels: The values of each label that is stored with a figure. All series exist from the start.
        of_source: Figures are stored by source, and exported with the label `connector`.
        priority: Whether they are exported with the label `priority` as well.
        sampled: A gauge that is stored every minute; other gauges are only read when they are exported.
        largest: Of the sources of a connector, the largest value is exported instead of the sum.
    """

    name: str
    kind: Kind
    help: str
    unit: Unit = Unit.ONE
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    of_source: bool = True
    priority: bool = False
    sampled: bool = False
    largest: bool = False

    @property
    def prometheus(self) -> str:
        """The name in Prometheus: with the unit, and `_total` for counters."""
        name = self.name.replace(".", "_")
        name += {Unit.ONE: "", Unit.SECONDS: "_seconds", Unit.BYTES: "_bytes"}[self.unit]
        return f"{name}_total" if self.kind is Kind.COUNTER else name


_REASONS = tuple(Reason)

JOBS = Metric(
    "catchment.jobs",
    Kind.COUNTER,
    "Jobs that left the queue, by outcome; `retrying` counts failed attempts that are tried again.",
    labels={"outcome": tuple(state for state in JobState if state not in (JobState.PENDING, JobState.RUNNING))},
)
JOB_WAIT = Metric(
    "catchment.job.wait",
    Kind.HISTOGRAM,
    "Time from when a job was due until it was claimed.",
    Unit.SECONDS,
    priority=True,
)
JOB_DURATION = Metric(
    "catchment.job.duration",
    Kind.HISTOGRAM,
    "Time of a stage for each item: that of its batch, divided by the items of the batch that the stage worked on.",
    Unit.SECONDS,
    {"stage": ("normalize", "extract", "deliver")},
)
SYNC_DURATION = Metric(
    "catchment.sync.duration",
    Kind.HISTOGRAM,
    "Time of a sync from its start to its end, by outcome; the first sync of a source is `first`.",
    Unit.SECONDS,
    {"outcome": ("completed", "first", "yielded", "cancelled", "failed", "crashed", "quarantined")},
)
FAILURES = Metric(
    "catchment.failures",
    Kind.COUNTER,
    "Failed attempts at an item, by reason and class.",
    labels={"reason": _REASONS, "failure_class": tuple(FailureClass)},
)
RETRY_DELAY = Metric(
    "catchment.retry.delay",
    Kind.HISTOGRAM,
    "Time until the next attempt at an item that failed, by the reason of the failure.",
    Unit.SECONDS,
    {"reason": _REASONS},
)
RECOVERED = Metric(
    "catchment.retry.recovered",
    Kind.COUNTER,
    "Items that succeeded after failed attempts, by the reason of the last failure.",
    labels={"reason": _REASONS},
)
BYTES_READ = Metric(
    "catchment.read", Kind.COUNTER, "Bytes of the items that were read, as far as their sources tell it.", Unit.BYTES
)
CACHE = Metric(
    "catchment.cache.lookups",
    Kind.COUNTER,
    "Items whose parsed document an earlier attempt had left in the cache (hit), or that were read (miss).",
    labels={"outcome": ("hit", "miss")},
)
LIMITED = Metric(
    "catchment.rate_limit.hits",
    Kind.COUNTER,
    "Times that a limit made a sync wait or stop: the rate of requests, a pause or quota of the host, an open breaker, a rule "
    "of an operator (a pause, a blackout window), or a quota of jobs.",
    labels={"limit": ("rate", "host", "breaker", "rule", "quota")},
)
SAVE_TO_FOUND = Metric(
    "catchment.change.latency",
    Kind.HISTOGRAM,
    "Time from the first change of a watched folder that a sync answers until each of its items can be found.",
    Unit.SECONDS,
)
EMBEDDED = Metric("catchment.embeddings", Kind.COUNTER, "Embeddings that were stored.", of_source=False)
SEARCH = Metric(
    "catchment.search.duration", Kind.HISTOGRAM, "Time of a search in the web process.", Unit.SECONDS, of_source=False
)

QUEUE = Metric(
    "catchment.queue.jobs",
    Kind.GAUGE,
    "Jobs in the queue, by state.",
    labels={"state": (JobState.PENDING, JobState.RUNNING, JobState.RETRYING)},
    sampled=True,
)
QUEUE_AGE = Metric(
    "catchment.queue.oldest_age",
    Kind.GAUGE,
    "Age of the oldest job that is pending, running or retrying; 0 without one.",
    Unit.SECONDS,
    sampled=True,
    largest=True,
)
IN_QUARANTINE = Metric(
    "catchment.quarantine.items", Kind.GAUGE, "Items in quarantine, by reason.", labels={"reason": _REASONS}
)
BREAKERS = Metric(
    "catchment.breakers.open",
    Kind.GAUGE,
    "Circuit breakers of sources and of hosts that are open.",
    labels={"of": ("source", "host")},
    of_source=False,
)
REMAINING = Metric(
    "catchment.rate_limit.remaining",
    Kind.GAUGE,
    "Share of the hourly quota that is left, 0 to 1, of the host with the smallest share; 1 without a quota.",
    of_source=False,
)
SOURCES = Metric(
    "catchment.sources",
    Kind.GAUGE,
    "Sources by state.",
    labels={"state": ("active", "paused", "held")},
)
RUNS = Metric(
    "catchment.runs",
    Kind.GAUGE,
    "Runs that work, due runs that wait for a slot, and how many may work at once; 0 without a worker.",
    labels={"state": ("running", "waiting", "limit")},
    of_source=False,
)
PARSERS_BUSY = Metric("catchment.parsers.busy", Kind.GAUGE, "Parser processes that work.", of_source=False)
PASSAGES = Metric(
    "catchment.passages",
    Kind.GAUGE,
    "Passages of the library with an embedding, and those that wait for one.",
    labels={"state": ("embedded", "waiting")},
    of_source=False,
)
PAGES = Metric(
    "catchment.pages",
    Kind.GAUGE,
    "Pages with text on a picture: those whose text is recognized, and those that wait for it.",
    labels={"state": ("recognized", "waiting")},
    of_source=False,
)
SINKS = Metric(
    "catchment.sinks",
    Kind.GAUGE,
    "Places that documents are copied to, by state.",
    labels={"state": ("active", "paused", "failing")},
    of_source=False,
)
COPIES = Metric(
    "catchment.sinks.documents",
    Kind.GAUGE,
    "Changed documents that a sink has not received, and those that it refused; of all sinks.",
    labels={"state": ("waiting", "refused")},
    of_source=False,
)
DISK_FREE = Metric(
    "catchment.disk.free", Kind.GAUGE, "Free space on the disk of the home.", Unit.BYTES, of_source=False
)
LEDGER_SIZE = Metric(
    "catchment.ledger.size", Kind.GAUGE, "Size of the ledger's files; 0 on PostgreSQL.", Unit.BYTES, of_source=False
)
RAW_SIZE = Metric(
    "catchment.raw.size", Kind.GAUGE, "Size of the raw content that is kept.", Unit.BYTES, of_source=False
)
MACHINE_UP = Metric(
    "catchment.machine.up",
    Kind.GAUGE,
    "Whether each host that shares the ledger works (1) or not (0), by its name; no series if the home runs alone.",
    labels={"machine": ()},
    of_source=False,
)
MACHINE_BEAT = Metric(
    "catchment.machine.beat_age",
    Kind.GAUGE,
    "Time since the last beat of each host that shares the ledger; without a host that has stopped in order.",
    Unit.SECONDS,
    {"machine": ()},
    of_source=False,
)
INCIDENTS = Metric(
    "catchment.incidents.open",
    Kind.GAUGE,
    "Open incidents by reason code; see `catchment incidents list`.",
    labels={"reason": tuple(ReasonCode)},
    of_source=False,
)
BUILD = Metric(
    "catchment.build.info", Kind.GAUGE, "1, with the version as a label.", labels={"version": ()}, of_source=False
)

CATALOGUE = tuple(metric for metric in vars().copy().values() if isinstance(metric, Metric))
"""All of the above."""
BY_NAME = {metric.name: metric for metric in CATALOGUE}
