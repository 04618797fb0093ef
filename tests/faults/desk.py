"""A desk: a folder of papers and a home on which the engine works without a server, and the checks of their final
state.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from sqlalchemy import select

from catchment.content.cache import Cache
from catchment.ledger import Ledger, Source
from catchment.ledger.db.schema import history
from catchment.ledger.jobs.auto_retry import Circumstances
from catchment.model import JobState, Priority
from catchment.runtime import atomic_files
from catchment.runtime.process import alive
from catchment.settings import Home, Policy, RetryPolicy
from catchment.sync.batch import forget_done
from catchment.sync.plan import Plan, PlanFilter
from catchment.sync.source_sync import SourceSync, open_sync
from tests.documents import document_named
from tests.engine.hostile import Hostile
from tests.hits import find_hits

BATCH = 4
SOURCE = "papers"
POLICY = Policy(retry=RetryPolicy(backoff="immediate", attempts=20))
"""More attempts than a life has kills: an item whose process dies too often is rightly quarantined."""
PATIENT = Policy(retry=RetryPolicy(backoff="fixed", initial=600, maximum=600))
"""The backoff exceeds the duration of any test."""
_FINAL = frozenset(
    {JobState.SUCCEEDED, JobState.SKIPPED, JobState.QUARANTINED, JobState.CANCELLED, JobState.SUPERSEDED}
)
_TEMPORARY = (".unfinished", ".new", "-journal", "etilqs")


class Desk:
    """One folder contains everything, so that each life starts at a separate desk."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.papers = place / "papers"
        self.home = Home(place / "home")
        self.reads = place / "reads"
        self.aside = place / "aside"
        self.temporary = place / "tmp"
        for folder in (self.papers, self.reads, self.aside, self.temporary):
            folder.mkdir(parents=True, exist_ok=True)
        tempfile.tempdir = str(self.temporary)
        os.environ["CATCHMENT_HOME"] = str(self.home.path)
        os.environ.pop("CATCHMENT_DATABASE_URL", None)

    # The folder

    def write(self, name: str, text: str) -> None:
        """Write a paper; a paper that already has this text is left unchanged."""
        file = self.papers / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")

    def remove(self, *names: str) -> None:
        """Remove papers from the folder, if present."""
        for name in names:
            (self.papers / name).unlink(missing_ok=True)

    def rename(self, old: str, new: str) -> None:
        """Rename a paper, if present."""
        if (self.papers / old).exists():
            (self.papers / old).rename(self.papers / new)

    def times_read(self) -> Counter[str]:
        """Return the number of reads of each paper."""
        return Counter({file.name: file.stat().st_size for file in self.reads.iterdir()})

    # The engine

    @property
    def connector(self) -> Hostile:
        return Hostile(Hostile.settings(root=self.papers))

    @property
    def circumstances(self) -> Circumstances:
        """Return the current circumstances; a scene can change the settings."""
        file = self.aside / "settings"
        return {"program": "1", "settings": file.read_text() if file.exists() else "1", "login": ""}

    @contextmanager
    def ledger(self) -> Iterator[Ledger]:
        with closing(Ledger.open(self.home.make())) as ledger:
            yield ledger

    def source(self, ledger: Ledger) -> Source:
        return ledger.sources.put(SOURCE, Hostile.kind, Priority.NORMAL)

    @contextmanager
    def syncing(self, policy: Policy = POLICY, backfill: int | None = None) -> Iterator[SourceSync]:
        """Open a sync as a run of the warm worker does."""
        of_source = (self.home, self.connector, SOURCE, policy, Priority.NORMAL)
        with open_sync(*of_source, now=self.circumstances, backfill=backfill) as sync:
            yield sync

    def sync(self, policy: Policy = POLICY, plan: Plan | None = None) -> dict[str, int]:
        """Sync the source in small batches; failing items are processed alone until they are out of attempts."""
        with self.syncing(policy) as sync:
            if plan is not None:
                sync.discovery.through = PlanFilter(plan, sync.progress)
            sync.discover(deep=plan is not None and plan.deep)
            work_through(sync)
            return sync.finish("completed")

    def last_sync(self) -> int:
        """Return the number of the last sync."""
        with self.ledger() as ledger:
            last = ledger.syncs.last(self.source(ledger).id)
            assert last is not None
            return last.id


def work_through(sync: SourceSync) -> None:
    """Process the jobs of a sync, in small batches; the failing ones alone until they are out of attempts."""
    while (token := sync.claim(BATCH)) is not None:
        sync.normalize(token)
        sync.process(token)
    for job in dict.fromkeys([*sync.jobs_to_process_alone(100), *sync.troubles]):
        while (trouble := sync.process_alone(job)) and (sync.waits(trouble, at_most=1) is not None):
            pass


def all_is_well(desk: Desk, expected: Mapping[str, str], quarantined: frozenset[str]) -> None:
    """Check that every document exists once with the expected text, every job is finished, and no remains are left.

    `expected`: the text of each document of the source; `quarantined`: the unreadable items.
    """
    with desk.ledger() as ledger:
        source = desk.source(ledger)
        same(ledger.check(deep=True), [])
        same(sorted(name.locator for name in ledger.library.names(source.id)), sorted(expected))
        for name, text in expected.items():
            same(document_named(ledger, name).content.text.strip(), text.strip())
            hits = [place for hit in find_hits(ledger, text.split()[-1], limit=100) for place in hit.places]
            word = text.split()[-1]
            alike = {other for other, said in expected.items() if word in said.split() or other.endswith(f"!/{word}")}
            same(sorted(hits), sorted((SOURCE, other) for other in alike))
        same(ledger.proof.index(source.id), [])
        rows = ledger.queue.jobs(limit=10_000)
        same([row for row in rows if row.state not in _FINAL], [])
        current = Counter(row.item_id for row in rows if row.current)
        same([item for item, number in current.items() if number > 1], [])
        same({row.item for row in rows if row.state is JobState.QUARANTINED}, quarantined)
        same(_done_twice(ledger), {})
        same([sync for sync in ledger.syncs.recent(limit=1_000) if sync.outcome is None], [])
        # The next caller takes over the resources of dead processes.
        same([place for place in ledger.pacing.places() if alive(place.owner)], [])
        with closing(Cache(desk.home.cache)) as cache:
            forget_done(cache, ledger)
            same(cache.keys(), [])
    _nothing_lies_about(desk)


def same(found: object, wanted: object) -> None:
    """Assert equality with a message."""
    assert found == wanted, f"{found} is not {wanted}"


def _done_twice(ledger: Ledger) -> dict[int, int]:
    with ledger._store.read() as reading:
        done = select(history.c.job_id).where(history.c.event == JobState.SUCCEEDED.value)
        times = Counter(reading.execute(done).scalars())
    return {job: number for job, number in times.items() if number > 1}


def _nothing_lies_about(desk: Desk) -> None:
    for folder in (desk.home.path, desk.home.run, desk.home.path / "backups", desk.aside):
        # The next writer in the folder removes temporary files.
        atomic_files.unfinished(folder / "any")
    files = [*desk.home.path.rglob("*"), *desk.temporary.rglob("*"), *desk.aside.rglob("*")]
    # A restore keeps the replaced ledger with its companion files.
    names = [str(file.relative_to(desk.place)) for file in files if not file.parent.name.startswith("replaced-")]
    same([name for name in names if any(ending in name for ending in _TEMPORARY)], [])
    same(list(desk.temporary.iterdir()), [])
