"""Concurrent processes, and processes killed during a transaction."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from catchment.ledger import Batch, Ledger
from catchment.ledger.items import purge
from tests.ledger.world import World, delivered, jobs_of, note, notes

pytestmark = pytest.mark.databases


def in_child(work: Callable[[], None]) -> Callable[[], int]:
    """Run `work` in a forked process. The returned function waits for it and returns the fatal signal or the exit code."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)

    def wait() -> int:
        _, status = os.waitpid(child, 0)
        return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)

    return wait


def test_concurrent_claims_of_two_processes_never_share_a_job(world: World, tmp_path: Path) -> None:
    world.see(*notes(210))
    world.ledger.close()

    def claim_all(name: str) -> None:
        ledger = Ledger.open(world.url, clock=world.clock)
        with (tmp_path / name).open("w") as out:
            while jobs := ledger.queue.claim(world.source.id, 7, owner=name).jobs:
                out.writelines(f"{job.id}\n" for job in jobs)

    ends = [in_child(lambda name=name: claim_all(name)) for name in ("one", "two")]  # type: ignore[misc]
    assert [end() for end in ends] == [0, 0]
    claimed = [[int(line) for line in (tmp_path / name).read_text().split()] for name in ("one", "two")]
    assert sorted(claimed[0] + claimed[1]) == list(range(1, 211))
    world.reopen()


def test_threads_share_a_ledger(world: World) -> None:
    world.see(*notes(120))

    def work(_: int) -> list[int]:
        done: list[int] = []
        while (batch := world.claim(10)).jobs:
            done += world.deliver(batch).succeeded
        return done

    with ThreadPoolExecutor(4) as threads:
        done = [job for part in threads.map(work, range(4)) for job in part]
    assert sorted(done) == list(range(1, 121))


def _kill_at(ledger: Ledger, statement: int) -> None:
    """Kill this process with SIGKILL before it executes that many further statements."""
    left = iter(range(statement, -1, -1))

    @event.listens_for(ledger._store.engine, "before_cursor_execute")
    def count(*_: Any) -> None:
        if next(left) == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def _deliver_and_die(world: World, batch: Batch, statement: int) -> None:
    ledger = Ledger.open(world.url, clock=world.clock)
    _kill_at(ledger, statement)
    ledger.queue.deliver(batch.token, [delivered(job.id, f"new words {job.id}") for job in batch.jobs])


@pytest.mark.full
@pytest.mark.databases
@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.long)])
def test_process_killed_during_a_delivery_leaves_it_atomic(world: World, step: int) -> None:
    world.ingest(*notes(3))
    world.see(*(note(f"n/{n}.md", "v2", f"n{n}") for n in range(3)))
    batch = world.claim()
    world.ledger.close()
    for statement in range(0, 200, step):
        end = in_child(lambda at=statement: _deliver_and_die(world, batch, at))()  # type: ignore[misc]
        world.reopen()
        assert world.ledger.check(deep=True) == []
        if end == 0:
            break
        assert end == -signal.SIGKILL
        assert (len(world.found("says v1")), world.found("new words")) == (3, [])
        assert {world.state(job) for job in jobs_of(batch)} == {"running"}
        world.ledger.close()
    assert statement > 10
    assert len(world.found("new words")) == 3
    assert world.found("says v1") == []


@pytest.mark.full
@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.long)])
def test_killed_removal_is_consistent_and_finished_by_the_next(
    sqlite_world: World, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    world = sqlite_world
    monkeypatch.setattr(purge, "_ITEMS_AT_ONCE", 2)
    world.ingest(*notes(5))
    world.record(mark="all is as it was")

    def remove_and_die(statement: int) -> None:
        ledger = Ledger.open(world.url, clock=world.clock)
        _kill_at(ledger, statement)
        ledger.sources.remove("notes", "anna", "not wanted")

    for statement in range(0, 500, step):
        world.ledger.close()
        end = in_child(lambda at=statement: remove_and_die(at))()  # type: ignore[misc]
        world.reopen()
        assert world.ledger.check(deep=True) == []
        if end == 0:
            break
        if len(world.found("says")) < 5:
            assert world.ledger.sources.get("notes").state == "paused"
            assert world.ledger.intake.known(world.source.id).marks() == {}
    assert statement > 30
    assert world.ledger.sources.all() == []
    assert world.ledger.library.sizes() == {}


@pytest.mark.parametrize("statement", [1, 2, 3, 4])
def test_process_killed_during_a_claim_holds_no_job(sqlite_world: World, statement: int) -> None:
    world = sqlite_world
    world.see(*notes(3))
    world.ledger.close()

    def claim_and_die() -> None:
        ledger = Ledger.open(world.url, clock=world.clock)
        _kill_at(ledger, statement)
        ledger.queue.claim(world.source.id, 3, owner="dead")

    assert in_child(claim_and_die)() == -signal.SIGKILL
    world.reopen()
    assert [job.attempt for job in world.claim().jobs] == [1, 1, 1]
    assert world.ledger.check() == []
