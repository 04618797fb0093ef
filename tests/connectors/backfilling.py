"""Backfills of a host's older items by real syncs, each in a process that may be killed at any moment of its work."""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from catchment.contracts import Connector
from catchment.errors import NotFound, SourceError
from catchment.ledger import Backfill, BackfillSelection, Ledger, Survey
from catchment.model import Priority, ReplayStage
from catchment.pacing.boot_clock import ClockReading, boot_clock
from catchment.settings import Home, Policy, RetryPolicy
from catchment.sync.source_sync import SourceSync, open_sync
from tests.faults.crashes import WITHIN, End, killing, listen, lived
from tests.faults.rehearsal import rehearse

NAME = "remote"
_BATCH = 2
_POLICY = Policy(retry=RetryPolicy(backoff="immediate", attempts=20))
_MOST_SYNCS = 20
_SOME = 9


@dataclass
class Backfilling:
    """A home with one source. `connector` makes its connector, in the process that syncs."""

    home: Home
    connector: Callable[[], Connector]
    scratch: Path
    ahead: timedelta = timedelta(0)
    """How much time has passed that no test waits for."""
    wrong: timedelta = timedelta(0)
    """By how much the clock of the system is wrong."""

    # In this process

    def agree(self) -> None:
        """Add the source with its consent."""
        with self.ledger() as ledger, closing(self.connector()) as connector:  # type: ignore[type-var]
            source = ledger.sources.put(NAME, connector.kind, Priority.NORMAL)
            ledger.consents.give(source.id, set(connector.scopes()), "operator", None)  # type: ignore[attr-defined]

    def sync(self, backfill: int | None = None, *, batches: int | None = None) -> SourceError | None:
        """Run one sync as a run does. Return why it failed. `batches`: finish early, as a backfill that gives way."""
        with self.opened(backfill) as opened:
            try:
                opened.discover()
                while batches != 0 and (token := opened.claim(_BATCH)) is not None:
                    opened.normalize(token)
                    opened.process(token)
                    batches = None if batches is None else batches - 1
                for job in dict.fromkeys([*opened.jobs_to_process_alone(100), *opened.troubles]):
                    while (trouble := opened.process_alone(job)) and opened.waits(trouble, at_most=1) is not None:
                        pass
            except SourceError as error:
                opened.finish("failed", error)
                return error
            opened.finish("completed")
        return None

    @contextmanager
    def opened(self, backfill: int | None) -> Iterator[SourceSync]:
        """Open a sync, for a backfill if `backfill` names one."""
        with closing(self.connector()) as connector, self.ledger() as ledger:  # type: ignore[type-var]
            settings = (self.home, connector, NAME, _POLICY, Priority.NORMAL)
            with open_sync(*settings, ledger=ledger, backfill=backfill) as opened:
                yield opened

    def finish(self, *, ordinary: bool = True) -> None:
        """Sync until no running backfill has work left, as the worker does."""
        if ordinary:
            assert self.sync() is None
        for _ in range(_MOST_SYNCS):
            with self.ledger() as ledger:
                left = [one.id for one in ledger.backfills.unfinished() if one.is_running]
            if not left:
                return
            assert self.sync(left[0]) is None
        raise AssertionError("the backfill never ends")

    def start(self, since: datetime, until: datetime) -> int:
        """Plan and start the backfill of a window. Return its number."""
        with self.ledger() as ledger:
            source = ledger.sources.get(NAME)
            what = BackfillSelection(ReplayStage.FETCH, since, until)
            number = ledger.backfills.plan(source.id, what, Survey(1, 0, "a window"), "operator:ada")
            ledger.backfills.start(number, "a window", "operator:ada")
            return number

    def undo(self, number: int) -> None:
        """Undo a backfill, as `deployments.actions.backfills` does."""
        with self.ledger() as ledger:
            ledger.backfills.cancel(number, "operator:ada")
            with suppress(NotFound):
                ledger.undo.undo_backfill(number, "operator:ada", "", ledger.alive)

    def get(self, number: int) -> Backfill:
        with self.ledger() as ledger:
            return ledger.backfills.get(number)

    def documents(self) -> dict[str, int]:
        """Return the document of each item; check that the ledger is sound and has each item once."""
        with self.ledger() as ledger:
            assert ledger.check(deep=True) == []
            source = ledger.sources.get(NAME).id
            assert ledger.proof.index(source) == []
            named = list(ledger.library.names(source))
            assert len({one.locator for one in named}) == len(named), "an item is there twice"
            done = Counter(job.item_id for job in ledger.queue.jobs(limit=10_000) if job.current)
            assert max(done.values(), default=1) == 1
            return {one.locator: one.document for one in named}

    def ledger(self) -> closing[Ledger]:
        return closing(Ledger.open(self.home.make(), clock=self._now, monotonic=self._boot_clock))

    def _now(self) -> float:
        return time.time() + (self.ahead + self.wrong).total_seconds()

    def _boot_clock(self) -> ClockReading:
        now = boot_clock()
        return ClockReading(now.boot, now.micros + self.ahead // timedelta(microseconds=1))

    # In processes that may be killed

    def killed_in(self, work: Callable[[], object], moment: str, occurrence: int) -> bool:
        """Run a function in another process, which is killed at a moment; return whether it was."""

        def listening() -> None:
            listen(killing(moment, occurrence))
            work()

        end = lived(listening, self.scratch / "note")
        assert end.code in (0, -9), end.said
        return end.code == -9

    def moments(self, work: Callable[[], object]) -> dict[str, int]:
        """Run a function in another process; return the number of each moment at which it can be killed."""
        heard: Counter[str] = Counter()

        def counting() -> None:
            listen(lambda moment: heard.update((moment,)))
            work()
            (self.scratch / "heard").write_text(json.dumps(heard))

        self.expect(lived(counting, self.scratch / "note"))
        found: dict[str, int] = json.loads((self.scratch / "heard").read_text())
        return found

    def expect(self, end: End) -> None:
        assert end.code == 0, end.said

    def each_kill(self, work: Callable[[], object], *, every: bool) -> Iterator[tuple[str, int]]:
        """Yield each moment at which a process was killed in this work, with the home as that left it.

        The first and the last of each moment, of which only some are taken unless `every`.
        """
        rehearse()
        before = self.scratch / "before"
        shutil.copytree(self.home.path, before, symlinks=True)
        heard = self.moments(work)
        points = [(name, n) for name, number in heard.items() for n in sorted({1, number})]
        points = [point for point in points if not point[0].endswith(WITHIN)]
        number = 0
        for name, occurrence in points if every else points[::_SOME]:
            shutil.rmtree(self.home.path)
            shutil.copytree(before, self.home.path, symlinks=True)
            if self.killed_in(work, name, occurrence):
                number += 1
                yield name, occurrence
        assert number > 4, "hardly any process was killed"
