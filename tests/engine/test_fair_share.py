"""The fair queue of concurrent syncs in one process: shares by priority, waiting, and accounting."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping

import pytest

from benchmarks.fairness import jain
from catchment.errors import StaleLease
from catchment.model import Priority
from catchment.sync.fair_share import GAP_SECONDS, STUCK_SECONDS, FairQueue, Share
from tests.waiting import until

_SECONDS = 30
NORMAL_QUANTUM = 1.0


class Machine:
    """A queue with a clock that advances only when a step is done."""

    def __init__(self, slots: int = 1) -> None:
        self.now = 0.0
        self.queue = FairQueue(slots, lambda: self.now)
        self._ends: dict[tuple[Share, float], float] = {}

    def join(self, priority: Priority = Priority.NORMAL, kind: str = "notes", at_once: int = 8) -> Share:
        return self.queue.join(kind, at_once, priority)

    def work(
        self, steps: Mapping[Share, float], seconds: float, beside: Mapping[Share, float] | None = None
    ) -> Counter[Share]:
        """Let each share run steps of its length in sequence; return the seconds of its steps.

        `beside`: the lengths of the steps that a second thread of a share runs at the same time.
        """
        worked: Counter[Share] = Counter()
        end = self.now + seconds
        while self.now < end:
            for share, length in [*steps.items(), *(beside or {}).items()]:
                if (share, length) not in self._ends and self.queue.begin(share):
                    self._ends[share, length] = self.now + length
            self.now = min(self._ends.values())
            for share, length in [step for step, moment in self._ends.items() if moment <= self.now]:
                del self._ends[share, length]
                worked[share] += length  # type: ignore[assignment]  # seconds, not whole numbers
                self.queue.end(share)
        return worked


@pytest.mark.parametrize("slots", [1, 2])
def test_four_sources_with_unequal_steps_share_evenly(slots: int) -> None:
    machine = Machine(slots)
    steps = {machine.join(): length for length in (0.05, 0.4, 1.3, 2.5)}
    worked = machine.work(steps, 200)
    assert len(worked) == 4
    assert jain(worked.values()) >= 0.95


def test_threads_of_a_sync_do_not_extend_its_quantum_by_overlapping() -> None:
    machine = Machine(slots=2)
    wide, *narrow = (machine.join() for _ in range(3))
    worked = machine.work({wide: 0.4, narrow[0]: 0.2, narrow[1]: 0.3}, 300, beside={wide: 0.3})
    assert [worked[share] for share in narrow] == pytest.approx([200, 200], rel=0.1)


def test_priorities_weigh_nine_to_three_to_one() -> None:
    machine = Machine()
    high, normal, low = (machine.join(priority) for priority in (Priority.HIGH, Priority.NORMAL, Priority.LOW))
    worked = machine.work(dict.fromkeys((high, normal, low), 0.2), 1_300)
    assert worked[high] / worked[normal] == pytest.approx(3, rel=0.1)
    assert worked[normal] / worked[low] == pytest.approx(3, rel=0.1)


def test_small_source_waits_at_most_one_quantum() -> None:
    machine = Machine()
    machine.work({machine.join(): 0.1 for _ in range(3)}, 20)
    big = machine.join()
    small = machine.join()
    assert not machine.queue.begin(small)
    began = machine.now
    while not machine.queue.begin(small):
        if machine.queue.begin(big):
            machine.now += 0.1
            machine.queue.end(big)
        else:
            machine.now += 0.01
    assert machine.now - began <= NORMAL_QUANTUM + GAP_SECONDS + 0.1


def test_new_source_precedes_sources_waiting_for_their_next_quantum() -> None:
    machine = Machine()
    one, two = machine.join(), machine.join()
    machine.work({one: 0.1, two: 0.1}, 10)
    new = machine.join()
    waited = 0.0
    while not machine.queue.begin(new):
        before = machine.now
        machine.work({one: 0.1, two: 0.1}, 0.1)
        waited += machine.now - before
    assert waited <= NORMAL_QUANTUM + 0.2


def test_lone_source_is_never_charged() -> None:
    machine = Machine()
    alone = machine.join()
    machine.work({alone: 3.0}, 300)
    assert alone.seconds_left == alone.quantum
    newcomer = machine.join()
    worked = machine.work({alone: 0.1, newcomer: 0.1}, 60)
    assert worked[alone] == pytest.approx(worked[newcomer], rel=0.1)


def test_idle_source_saves_up_no_more_than_a_quantum() -> None:
    machine = Machine()
    busy, idle = machine.join(), machine.join()
    machine.work({busy: 0.5}, 600)
    worked = machine.work({busy: 0.1, idle: 0.1}, 20)
    assert abs(worked[busy] - worked[idle]) <= 2 * NORMAL_QUANTUM


def test_concurrency_limit_of_a_kind_is_respected() -> None:
    machine = Machine(slots=4)
    mails = [machine.join(kind="mail", at_once=2) for _ in range(2)]
    modest = machine.join(kind="mail", at_once=1)
    notes = machine.join()
    assert machine.queue.begin(mails[0])
    assert not machine.queue.begin(mails[1])
    assert machine.queue.begin(notes)
    machine.queue.leave(modest)
    assert machine.queue.begin(mails[1])


def test_long_step_does_not_delay_other_sources() -> None:
    machine = Machine()
    slow, other = machine.join(), machine.join()
    assert machine.queue.begin(slow)
    assert not machine.queue.begin(other)
    machine.now += STUCK_SECONDS - 1
    assert not machine.queue.begin(other)
    machine.now += 1
    assert machine.queue.begin(other)
    machine.now += 600
    machine.queue.end(slow)
    assert slow.seconds_left >= -STUCK_SECONDS


def test_source_with_seconds_left_keeps_its_slot_between_two_steps() -> None:
    machine = Machine()
    high, low = machine.join(Priority.HIGH), machine.join(Priority.LOW)
    assert machine.queue.begin(high)
    assert not machine.queue.begin(low)
    machine.now += 0.5
    machine.queue.end(high)
    machine.now += GAP_SECONDS / 2
    assert not machine.queue.begin(low)
    assert machine.queue.begin(high)
    machine.queue.end(high)
    machine.now += GAP_SECONDS
    assert machine.queue.begin(low)


def test_threads_of_one_sync_share_and_yield_its_slot_together() -> None:
    machine = Machine()
    wide, other = machine.join(), machine.join()
    assert machine.queue.begin(wide) and machine.queue.begin(wide)
    assert not machine.queue.begin(other)
    machine.now += 2
    machine.queue.end(wide)
    assert not machine.queue.begin(wide)
    assert not machine.queue.begin(other)
    machine.queue.end(wide)
    assert not machine.queue.begin(wide)
    assert machine.queue.begin(other)


def _in_thread(step: Callable[[], None]) -> tuple[threading.Thread, list[BaseException]]:
    errors: list[BaseException] = []

    def run() -> None:
        try:
            step()
        except StaleLease as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, errors


def test_closing_wakes_every_waiting_thread() -> None:
    queue = FairQueue(1)
    holder, waits = (queue.join("notes", 8, Priority.NORMAL) for _ in range(2))

    def step() -> None:
        with waits.step():
            pass

    with holder.step():
        threads = [_in_thread(step) for _ in range(3)]
        until(lambda: bool(queue._waiting))
        waits.close()
        for thread, errors in threads:
            thread.join(_SECONDS)
            assert not thread.is_alive()
            assert len(errors) == 1
    waits.close()
    assert holder.is_alone()


def test_waiting_thread_continues_when_the_slot_becomes_free() -> None:
    queue = FairQueue(1)
    busy, small = (queue.join("notes", 8, Priority.NORMAL) for _ in range(2))
    together: list[int] = []
    inside = threading.Semaphore(1)
    done = threading.Event()

    def work(share: Share) -> None:
        with share.step():
            if not inside.acquire(blocking=False):
                together.append(1)
                return
            done.wait(0.005)
            inside.release()

    def work_on() -> None:
        while not done.is_set():
            work(busy)

    worker, errors = _in_thread(work_on)
    for _ in range(3):
        work(small)
    done.set()
    worker.join(_SECONDS)
    assert (worker.is_alive(), errors, together) == (False, [], [])


def test_queue_is_idle_while_no_share_has_a_slot() -> None:
    machine = Machine()
    share = machine.join()
    assert machine.queue.is_idle()
    assert machine.queue.begin(share)
    assert not machine.queue.is_idle()
    machine.queue.end(share)
    machine.now += GAP_SECONDS
    assert machine.queue.is_idle()
