"""The ledger matches a simple model after any sequence of events, and every invariant holds after each step."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from catchment.errors import IllegalTransition, SkipReason, StaleLease
from catchment.ledger import Batch, Ledger, SkippedOutcome
from catchment.model import Entity, EntityKind, Tombstone, Upsert
from tests.ledger.world import PARSE_ERROR, TIMEOUT, Clock, World, content, delivered, note

pytestmark = pytest.mark.long

NAMES = ("a.md", "b.md", "c.md", "d.md")
LEASE = timedelta(minutes=5)
MOST = 3


@dataclass
class Job:
    """The model of a job."""

    item: str
    version: str
    state: str = "pending"
    attempt: int = 0
    token: int | None = None
    owner: str = ""
    ready_at: float = 0
    lease_until: float = 0


@dataclass
class Thing:
    """The model of an item."""

    version: str
    job: int
    present: bool = True
    text: str | None = None


class Model(RuleBasedStateMachine):
    """Rules that act on the ledger and on the model alike."""

    template: Path
    claims: Bundle[tuple[Batch, dict[int, int]]] = Bundle("claims")

    @initialize()
    def start(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        file = self.folder / "ledger.db"
        shutil.copy2(self.template, file)
        self.clock = Clock()
        url = f"sqlite:///{file}"
        self.world = World(url, self.clock, Ledger.open(url, clock=self.clock, monotonic=self.clock.steady))
        self.jobs: dict[int, Job] = {}
        self.items: dict[str, Thing] = {}

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.ledger.queue.recover(None, lambda _: False, MOST)
            assert self.world.ledger.check(deep=True) == []
            self.world.ledger.close()
            shutil.rmtree(self.folder)

    # Connector actions

    @rule(name=st.sampled_from(NAMES), version=st.sampled_from(["v1", "v2"]))
    def enqueue(self, name: str, version: str) -> None:
        counts = self.world.record(Upsert(note(name, version)))
        thing = self.items.get(name)
        wanted = (
            thing is None
            or thing.version != version
            or (not thing.present and self.jobs[thing.job].state in ("cancelled", "gone"))
        )
        assert counts.enqueued == wanted
        if wanted:
            if thing is not None and self.jobs[thing.job].state in ("pending", "running", "retrying", "quarantined"):
                self.jobs[thing.job].state = "superseded"
            number = max(self.jobs, default=0) + 1
            self.jobs[number] = Job(name, version, ready_at=self.clock.now)
            self.items[name] = Thing(version, number, text=thing.text if thing else None)
        elif thing is not None:
            thing.present = True

    @rule(name=st.sampled_from(NAMES))
    def lose(self, name: str) -> None:
        self.world.record(Tombstone(name))
        self.world.settle()
        thing = self.items.get(name)
        if thing is not None and thing.present:
            thing.present = False
            if self.jobs[thing.job].state in ("pending", "running", "retrying", "quarantined"):
                self.jobs[thing.job].state = "cancelled"

    # Worker actions

    def _ready(self) -> list[int]:
        waiting = ("pending", "retrying")
        return [n for n, job in self.jobs.items() if job.state in waiting and job.ready_at <= self.clock.now]

    @rule(target=claims, limit=st.integers(1, 3), owner=st.sampled_from(["one", "two"]))
    def claim(self, limit: int, owner: str) -> object:
        ready = self._ready()
        batch = self.world.claim(limit, owner=owner)
        taken = [job.id for job in batch.jobs]
        assert len(taken) == min(limit, len(ready))
        assert set(taken) <= set(ready)
        for claimed in batch.jobs:
            job = self.jobs[claimed.id]
            job.state, job.attempt, job.token, job.owner = "running", job.attempt + 1, batch.token, owner
            job.lease_until = self.clock.now + LEASE.total_seconds()
            assert (claimed.attempt, claimed.item.locator, claimed.item.version) == (job.attempt, job.item, job.version)
            assert claimed.content_hash == (content(text) if (text := self.items[job.item].text) else None)
        return batch if taken else multiple()

    def _mine(self, batch: Batch) -> list[int]:
        jobs = (job.id for job in batch.jobs)
        return [n for n in jobs if self.jobs[n].state == "running" and self.jobs[n].token == batch.token]

    @rule(batch=claims, words=st.sampled_from(["same words", None]))
    def acknowledge(self, batch: Batch, words: str | None) -> None:
        mine = self._mine(batch)
        texts = {job.id: words or f"{job.item.locator} {job.item.version}" for job in batch.jobs}
        done = [delivered(n, text, entities=[Entity(EntityKind.TAG, f"Übung/{text}")]) for n, text in texts.items()]
        acks = self.world.ledger.queue.deliver(batch.token, done)
        assert acks.succeeded == mine
        assert set(acks.stale) == set(texts) - set(mine)
        for number in mine:
            self.jobs[number].state = "succeeded"
            self.items[self.jobs[number].item].text = texts[number]

    @rule(batch=claims, reason=st.sampled_from([SkipReason.UNCHANGED, SkipReason.UNSUPPORTED]))
    def skip(self, batch: Batch, reason: SkipReason) -> None:
        mine = self._mine(batch)
        acks = self.world.ledger.queue.deliver(batch.token, [SkippedOutcome(job.id, reason) for job in batch.jobs])
        assert acks.skipped == mine
        for number in mine:
            self.jobs[number].state = "skipped"
            if reason is SkipReason.UNSUPPORTED:
                self.items[self.jobs[number].item].text = None

    @rule(batch=claims, wait=st.sampled_from([None, 0, 60]))
    def fail(self, batch: Batch, wait: int | None) -> None:
        number = batch.jobs[0].id
        retry_at = None if wait is None else self.clock.moment + timedelta(seconds=wait)
        fail = self.world.ledger.queue.fail
        if number not in self._mine(batch):
            with pytest.raises(StaleLease):
                fail(batch.token, number, PARSE_ERROR, retry_at=retry_at)
            return
        job = self.jobs[number]
        job.state = fail(batch.token, number, TIMEOUT, retry_at=retry_at).value
        assert job.state == ("quarantined" if wait is None else "retrying")
        job.ready_at = self.clock.now + (wait or 0)

    @rule(batch=claims)
    def release(self, batch: Batch) -> None:
        mine = self._mine(batch)
        assert self.world.ledger.queue.release(batch.token) == len(mine)
        for number in mine:
            self.jobs[number].state = "pending"

    @rule(batch=claims)
    def renew(self, batch: Batch) -> None:
        mine = self._mine(batch)
        assert self.world.ledger.queue.renew(batch.token, [job.id for job in batch.jobs], LEASE) == len(mine)
        for number in mine:
            self.jobs[number].lease_until = self.clock.now + LEASE.total_seconds()

    # Time, failures and operator actions

    @rule(seconds=st.sampled_from([30, 61, 301]))
    def wait(self, seconds: int) -> None:
        self.clock.forward(seconds=seconds)

    @rule(dead=st.sampled_from(["one", "two", "nobody"]))
    def recover(self, dead: str) -> None:
        self.world.ledger.queue.recover(None, lambda owner: owner != dead, MOST)
        running = Counter(job.token for job in self.jobs.values() if job.state == "running")
        for job in self.jobs.values():
            if job.state == "running" and (job.owner == dead or job.lease_until <= self.clock.now):
                to_blame = running[job.token] == 1 and job.attempt >= MOST
                job.state = "quarantined" if to_blame else "pending"

    @rule()
    def crash(self) -> None:
        self.world.reopen()

    @rule(name=st.sampled_from(NAMES))
    def cancel(self, name: str) -> None:
        if name not in self.items:
            return
        number = self.items[name].job
        job = self.jobs[number]
        if job.state in ("pending", "running", "retrying"):
            self.world.ledger.queue.cancel(number, "anna", "not now")
            job.state = "cancelled"
        else:
            with pytest.raises(IllegalTransition):
                self.world.ledger.queue.cancel(number, "anna", "not now")

    @rule()
    def retry_all(self) -> None:
        quarantined = [job for job in self.jobs.values() if job.state == "quarantined"]
        assert self.world.ledger.quarantine.retry(None, "anna") == len(quarantined)
        for job in quarantined:
            job.state, job.ready_at = "pending", self.clock.now

    # Invariants after each step

    @invariant()
    def the_model_is_right(self) -> None:
        if not hasattr(self, "world"):
            return
        rows = {row.job: (row.item, row.version, row.state, row.attempts) for row in self.world.ledger.queue.jobs()}
        assert rows == {n: (job.item, job.version, job.state, job.attempt) for n, job in self.jobs.items()}
        quarantined = {n for n, job in self.jobs.items() if job.state == "quarantined"}
        assert {entry.job for entry in self.world.ledger.quarantine.list()} == quarantined
        texts = {name: thing.text for name, thing in self.items.items() if thing.present and thing.text}
        names = self.world.ledger.library.names(self.world.source.id)
        assert {name.locator for name in names} == set(texts)
        hashes = {row.locator: row.content_hash for row in map(self._row, texts)}
        assert hashes == {name: content(text) for name, text in texts.items()}

    def _row(self, name: str) -> object:
        return next(
            row for row in self.world.ledger.intake.find(name) if row.locator == name and row.state == "present"
        )

    @invariant()
    def every_invariant_holds(self) -> None:
        if not hasattr(self, "world"):
            return
        ended = any(job.state == "running" and job.lease_until <= self.clock.now for job in self.jobs.values())
        findings = self.world.ledger.check()
        assert [f for f in findings if "its lease has ended" in f] == findings
        assert len(findings) == ended


def test_any_order_of_events_preserves_every_guarantee(sqlite_template: Path) -> None:
    class OnTemplate(Model):
        template = sqlite_template

    run_state_machine_as_test(
        OnTemplate,
        settings=settings(
            max_examples=20,
            stateful_step_count=40,
            database=None,
            phases=(Phase.generate, Phase.shrink),  # explaining would trace every line of the ledger
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
        ),
    )
