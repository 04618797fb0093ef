"""Plans: a dry run records the changes that a sync would make; a later sync can apply exactly those.

The dry run lists the source into a scratch ledger. It reads no content and changes nothing. A plan stores the source's report
on each item, so that the sync skips items that have changed since.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import orjson

from catchment import __version__
from catchment.content.cache import Cache
from catchment.content.parts.containers import is_list
from catchment.contracts import Connector, Known, Unhurried
from catchment.errors import BadInput, NotFound
from catchment.ledger import Ledger, PlannedAction, Source, Step
from catchment.model import PARTS, Change, Checkpoint, Failure, Root, Skip, Tombstone, Upsert
from catchment.parser_pool import ParserPool
from catchment.runtime import atomic_files, heartbeat, process
from catchment.settings import Home, Policy
from catchment.sync.batch import Bench
from catchment.sync.discovery import removed_marks
from catchment.sync.eta import budget_of, completion_time, mean_pace
from catchment.sync.preflight import Permit, admitted, consented, limited, limits_of, paced
from catchment.sync.progress import Progress
from catchment.sync.source_sync import SourceSync

_FORMAT = 1

ReportedChange = tuple[str, str, str]
"""A source's report on an item: kind of change, locator, version."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The changes that a sync would make.

    Attributes:
        reports: The reports that a sync applying this plan accepts.
        steps: The resulting actions.
        waiting: Jobs of earlier syncs, which the sync would process too.
        seconds, requests: Estimates from earlier syncs; None if unknown. `requests` is also None without a host.
        done: ETA of a sync started now, within the host's budget.
    """

    source: str
    made: datetime
    deep: bool
    reports: frozenset[ReportedChange]
    steps: tuple[Step, ...]
    waiting: int
    seconds: float | None = None
    requests: int | None = None
    done: datetime | None = None
    changes: tuple[Change, ...] = field(default=(), compare=False, repr=False)
    """The reported changes; set only in the process that made the plan."""
    marks: Mapping[str, str | None] = field(default_factory=dict, compare=False, repr=False)
    """The matching cursor; set only in the process that made the plan."""

    @property
    def totals(self) -> dict[PlannedAction, tuple[int, int]]:
        """Number of items and bytes to read, by action."""
        sums: dict[PlannedAction, tuple[int, int]] = {}
        for step in self.steps:
            number, size = sums.get(step.action, (0, 0))
            sums[step.action] = number + 1, size + (step.size or 0 if step.reads else 0)
        return {action: sums[action] for action in PlannedAction if action in sums}

    @property
    def reads(self) -> int:
        """Number of items to read."""
        return sum(step.reads for step in self.steps)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON-compatible data, for scripts and for applying it later."""
        return {
            "catchment_plan": _FORMAT,
            "source": self.source,
            "made": self.made.isoformat(),
            "deep": self.deep,
            "totals": {action: {"items": n, "bytes": size} for action, (n, size) in self.totals.items()},
            "waiting": self.waiting,
            "seconds": self.seconds,
            "requests": self.requests,
            "done": self.done.isoformat() if self.done else None,
            "steps": [_step_json(step) for step in self.steps],
            "said": sorted(self.reports),
        }

    @classmethod
    def from_json(cls, data: bytes) -> Plan:
        """Parse the fields that a sync needs from the output of `to_json`. Raises BadInput if it is not a plan."""
        wrong = BadInput(
            "plan: not a plan of this version of Catchment; make one with `catchment plan NAME --out FILE`"
        )
        try:
            fields = orjson.loads(data)
            source, at = str(fields["source"]), datetime.fromisoformat(fields["made"])
            if fields["catchment_plan"] != _FORMAT or not source.isprintable() or at.tzinfo is None:
                raise wrong
            reports = frozenset((str(kind), str(item), str(version)) for kind, item, version in fields["said"])
            return cls(source, at, bool(fields["deep"]), reports, (), 0)
        except (ValueError, KeyError, TypeError):
            raise wrong from None


class PlanFilter:
    """Filter that passes the planned changes and counts the items that differ from the plan."""

    def __init__(self, plan: Plan, progress: Progress) -> None:
        self._not_seen = set(plan.reports)
        self._planned = plan.reports
        self._progress = progress
        self._different: set[str] = set()

    def __call__(self, changes: Iterator[Change]) -> Iterator[Change]:
        """Yield the planned changes. After a difference, new marks are dropped; otherwise the next sync would miss the item."""
        for change in changes:
            report = _report(change)
            if self._different and isinstance(change, Checkpoint):
                yield replace(change, marks=removed_marks(change.marks))
            elif report is None:
                yield change
            elif report in self._planned:
                self._not_seen.discard(report)
                yield change
            else:
                self._different.add(report[1])
                self._progress.left = len(self._different)
        self._different.update(item for _, item, _ in self._not_seen)
        self._progress.left = len(self._different)


class _Recorder:
    """Filter that records all changes passing through it. `known`: number of marks of the last listing."""

    def __init__(self, known: int) -> None:
        self._known = known
        self.changes: list[Change] = []
        self.marks: dict[str, str | None] = {}

    def __call__(self, changes: Iterator[Change]) -> Iterator[Change]:
        for change in changes:
            if isinstance(change, Checkpoint):
                self.marks.update(change.marks)
                heartbeat.report("listing", min(len(self.marks), self._known), self._known + 1)
            else:
                self.changes.append(change)
            yield change


def make_plan(
    home: Home,
    ledger: Ledger,
    source: Source,
    connector: Connector,
    policy: Policy,
    *,
    deep: bool = False,
    window: tuple[datetime, datetime] | None = None,
    seconds: float | None = None,
) -> Plan:
    """Determine the changes that a sync of the source, or a backfill of a window, would make now.

    Raises NoConsent, NotNow if a preflight check fails, SourceError, TryAgain, or Stopped after `seconds`.
    """
    permit = consented(ledger, source, connector)
    admitted(home, ledger, source, connector)
    with limited(permit, seconds), paced(connector, ledger, source):
        plan = _rehearsed(home, ledger, source, connector, policy, permit, deep, window)
    # A listing that was stopped between two changes ends without an error.
    permit.check()
    pace = mean_pace(ledger, source)
    jobs = plan.reads + plan.waiting
    if pace is None or not jobs:
        return plan
    now, limits = ledger.now(), limits_of(connector)
    completion = completion_time(now, jobs, pace, budget_of(ledger, limits))
    requests = math.ceil(jobs * pace.requests) if limits else None
    return replace(plan, seconds=(completion - now) / timedelta(seconds=1), requests=requests, done=completion)


def _rehearsed(
    home: Home,
    ledger: Ledger,
    source: Source,
    connector: Connector,
    policy: Policy,
    permit: Permit,
    deep: bool,
    window: tuple[datetime, datetime] | None,
) -> Plan:
    waiting = ledger.queue.waiting(source.id)
    recorder = _Recorder(len(ledger.intake.known(source.id).marks()))
    heartbeat.report("listing")
    with (
        _scratch(home) as folder,
        closing(ledger.scratch(source.id, folder / "ledger.db")) as scratch,
        closing(Cache(folder / "cache.db")) as cache,
        closing(ParserPool(1)) as idle,
    ):
        sync = scratch.syncs.begin(
            source.id, run=None, owner=process.identity(), code_version=__version__, alive=lambda _owner: False
        )
        rehearsal = SourceSync(Bench(scratch, cache, idle, connector, policy, permit), source, sync, None)
        rehearsal.discovery.through, rehearsal.discovery.window = recorder, window
        try:
            rehearsal.discover(deep=deep)
        finally:
            rehearsal.close()
        # An ordinary look at a page changes its attributes, and with the same version nothing in the library.
        unseen = {PlannedAction.RELABEL} if isinstance(connector, Unhurried) and not deep else {}
        # The parts of a container follow it.
        planned = [step for step in scratch.steps(sync.id) if not step.container.endswith(PARTS)]
        known = ledger.intake.known(source.id)
        steps = tuple(_with_parts(step, known) for step in planned if step.action not in unseen)
    heartbeat.report("listing", 1)
    reports = frozenset(filter(None, map(_report, recorder.changes)))
    return Plan(
        source=source.name,
        made=ledger.now(),
        deep=deep,
        reports=reports,
        steps=steps,
        waiting=waiting.ready + waiting.later,
        changes=tuple(recorder.changes),
        marks=recorder.marks,
    )


@contextmanager
def _scratch(home: Home) -> Iterator[Path]:
    """Yield a temporary private folder. If the process is killed, the next plan removes it."""
    folder = atomic_files.unfinished(home.run / "plan")
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        atomic_files.remove(folder)


def save_plan(home: Home, data: bytes) -> str:
    """Save a plan for a sync run and return its ID. Idempotent. Raises BadInput, HomeUnavailable."""
    Plan.from_json(data)
    name = hashlib.sha256(data).hexdigest()[:16]
    with atomic_files.explained():
        home.plans.mkdir(mode=0o700, exist_ok=True)
        atomic_files.write(home.plans / f"{name}.json", data)
    return name


def load_plan(home: Home, name: str, source: str) -> Plan:
    """Return a saved plan. Raises NotFound, or BadInput if it belongs to another source."""
    try:
        plan = Plan.from_json((home.plans / f"{name}.json").read_bytes())
    except FileNotFoundError:
        raise NotFound("plan: expired; make a new one with `catchment plan NAME --out FILE`") from None
    if plan.source != source:
        raise BadInput(f"plan: made for {plan.source}; make one with `catchment plan {source} --out FILE`")
    return plan


def _with_parts(step: Step, known: Known) -> Step:
    """Return a step on a container with how many files are inside of it, as far as that is known."""
    if not step.reads or step.why or not is_list(step.item):
        return step
    number = len(known.within(step.item + PARTS))
    return replace(step, why=f"{number:,} files inside until now" if number else "files inside: unknown until read")


def _report(change: Change) -> ReportedChange | None:
    match change:
        case Root() | Checkpoint():
            return None
        case Tombstone(locator=locator):
            return "gone", locator, ""
        case Upsert(item=item):
            return "there", item.locator, item.version
        case Skip(item=item, reason=reason):
            return f"skip {reason}", item.locator, item.version
        case Failure(item=item):
            return "failure", item.locator, item.version


def _step_json(step: Step) -> dict[str, Any]:
    known = {"do": step.action, "item": step.item, "was": step.was, "why": step.why}
    return {key: value for key, value in known.items() if value is not None} | (
        {"bytes": step.size} if step.reads else {}
    )
