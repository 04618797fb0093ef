"""Plans: what a sync of a source would do, found out by a rehearsal, and a sync that does just that.

A rehearsal lists the source and records what it says in a scratch ledger; it reads no content and changes nothing. A plan
remembers what the source said of each item, so that a sync that follows it leaves whatever is different by then.
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
from catchment.contracts import Connector
from catchment.errors import BadInput, NotFound
from catchment.ledger import Ledger, Source
from catchment.ledger.admin.plan import PlannedAction, Step, total
from catchment.model import Change, Checkpoint, Failure, Root, Skip, Tombstone, Upsert
from catchment.parser_pool import ParserPool
from catchment.runtime import atomic_files, process
from catchment.settings import Home, Policy
from catchment.sync.batch import Bench
from catchment.sync.discovery import taken_back
from catchment.sync.eta import budget_of, done_at, learned
from catchment.sync.preflight import Permit, admitted, consented, limits_of, paced
from catchment.sync.progress import Progress
from catchment.sync.session import SourceSync

_FORMAT = 1

Said = tuple[str, str, str]
"""What a source said of an item: the kind of change, the locator, and the version."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a sync of a source would do.

    `said` is what it follows, `steps` what that comes to, `waiting` the jobs of earlier syncs that it would do as well.
    `seconds` and `requests` are estimates from earlier syncs, None where there is nothing to learn from, and `requests` also
    where no host is asked; `done` is the moment that the host's budget allows, were it begun at once.
    """

    source: str
    made: datetime
    deep: bool
    said: frozenset[Said]
    steps: tuple[Step, ...]
    waiting: int
    seconds: float | None = None
    requests: int | None = None
    done: datetime | None = None
    changes: tuple[Change, ...] = field(default=(), compare=False, repr=False)
    """What was said, as it was said; only in the process that made the plan."""
    marks: Mapping[str, str | None] = field(default_factory=dict, compare=False, repr=False)
    """The cursor that goes with what was said; there, too."""

    @property
    def totals(self) -> dict[PlannedAction, tuple[int, int]]:
        """Items and bytes to be read, by deed."""
        return total(self.steps)

    @property
    def reads(self) -> int:
        """How many items would be read."""
        return sum(step.reads for step in self.steps)

    def to_json(self) -> dict[str, Any]:
        """The plan for scripts, and for a file to be followed."""
        return {
            "catchment_plan": _FORMAT,
            "source": self.source,
            "made": self.made.isoformat(),
            "deep": self.deep,
            "totals": {deed: {"items": n, "bytes": size} for deed, (n, size) in self.totals.items()},
            "waiting": self.waiting,
            "seconds": self.seconds,
            "requests": self.requests,
            "done": self.done.isoformat() if self.done else None,
            "steps": [_told(step) for step in self.steps],
            "said": sorted(self.said),
        }

    @classmethod
    def from_json(cls, data: bytes) -> Plan:
        """What was written by `to_json`, as far as a sync needs it. Raises BadInput when it is no plan."""
        wrong = BadInput("this is no plan of this version of Catchment; make one with `catchment plan NAME --out FILE`")
        try:
            fields = orjson.loads(data)
            source, made = str(fields["source"]), datetime.fromisoformat(fields["made"])
            if fields["catchment_plan"] != _FORMAT or not source.isprintable() or made.tzinfo is None:
                raise wrong
            said = frozenset((str(kind), str(item), str(version)) for kind, item, version in fields["said"])
            return cls(source, made, bool(fields["deep"]), said, (), 0)
        except (ValueError, KeyError, TypeError):
            raise wrong from None


class Followed:
    """Lets through what a plan foresaw, and keeps a list of the items that are different by now."""

    def __init__(self, plan: Plan, progress: Progress) -> None:
        self._unsaid = set(plan.said)
        self._planned = plan.said
        self._progress = progress
        self._different: set[str] = set()

    def __call__(self, changes: Iterator[Change]) -> Iterator[Change]:
        """The changes that were planned. A mark is kept only while nothing was left, or the rest would not be seen again."""
        for change in changes:
            said = _said(change)
            if self._different and isinstance(change, Checkpoint):
                yield Checkpoint(taken_back(change.marks))
            elif said is None:
                yield change
            elif said in self._planned:
                self._unsaid.discard(said)
                yield change
            else:
                self._different.add(said[1])
                self._progress.left = len(self._different)
        self._different.update(item for _, item, _ in self._unsaid)
        self._progress.left = len(self._different)


class _Heard:
    """Remembers what is said while it passes."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.marks: dict[str, str | None] = {}

    def __call__(self, changes: Iterator[Change]) -> Iterator[Change]:
        for change in changes:
            if isinstance(change, Checkpoint):
                self.marks.update(change.marks)
            else:
                self.changes.append(change)
            yield change


def make_plan(
    home: Home, ledger: Ledger, source: Source, connector: Connector, policy: Policy, *, deep: bool = False
) -> Plan:
    """Find out what a sync of the source would do now.

    Raises NoConsent when nobody has agreed to it, NotNow when a gate is closed, SourceError, TryAgain.
    """
    permit = consented(ledger, source, connector)
    admitted(home, ledger, source, connector)
    with paced(connector, ledger, source):
        plan = _rehearsed(home, ledger, source, connector, policy, permit, deep)
    pace = learned(ledger, source)
    jobs = plan.reads + plan.waiting
    if pace is None or not jobs:
        return plan
    now, limits = ledger.now(), limits_of(connector)
    done = done_at(now, jobs, pace, budget_of(ledger, limits))
    requests = math.ceil(jobs * pace.requests) if limits else None
    return replace(plan, seconds=(done - now) / timedelta(seconds=1), requests=requests, done=done)


def _rehearsed(
    home: Home, ledger: Ledger, source: Source, connector: Connector, policy: Policy, permit: Permit, deep: bool
) -> Plan:
    waiting = ledger.queue.waiting(source.id)
    heard = _Heard()
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
        rehearsal.discovery.through = heard
        try:
            rehearsal.discover(deep=deep)
        finally:
            rehearsal.close()
        steps = tuple(scratch.steps(sync.id))
    said = frozenset(filter(None, map(_said, heard.changes)))
    return Plan(
        source=source.name,
        made=ledger.now(),
        deep=deep,
        said=said,
        steps=steps,
        waiting=waiting.ready + waiting.later,
        changes=tuple(heard.changes),
        marks=heard.marks,
    )


@contextmanager
def _scratch(home: Home) -> Iterator[Path]:
    """A private folder, which is gone afterwards; that of a process that is killed goes with the next plan."""
    folder = atomic_files.unfinished(home.make().run / "plan")
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        atomic_files.remove(folder)


def keep(home: Home, data: bytes) -> str:
    """Put a plan where the run of a sync finds it; the name that it has there. May be called again."""
    Plan.from_json(data)
    name = hashlib.sha256(data).hexdigest()[:16]
    home.plans.mkdir(mode=0o700, exist_ok=True)
    file = home.plans / f"{name}.json"
    atomic_files.write(file, data)
    return name


def kept(home: Home, name: str, source: str) -> Plan:
    """The plan of this name. Raises NotFound, or BadInput when it is one for another source."""
    try:
        plan = Plan.from_json((home.plans / f"{name}.json").read_bytes())
    except FileNotFoundError:
        raise NotFound("the plan is not kept any more; make one with `catchment plan NAME --out FILE`") from None
    if plan.source != source:
        raise BadInput(f"this is a plan for {plan.source}; make one with `catchment plan {source} --out FILE`")
    return plan


def _said(change: Change) -> Said | None:
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


def _told(step: Step) -> dict[str, Any]:
    known = {"do": step.deed, "item": step.item, "was": step.was, "why": step.why}
    return {key: value for key, value in known.items() if value is not None} | (
        {"bytes": step.size} if step.reads else {}
    )
