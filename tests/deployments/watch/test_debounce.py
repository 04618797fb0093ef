"""When a source is asked for, in a world whose clock, changes, runs and failures Hypothesis makes up."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.watch.debounce import LONGEST, LONGEST_BY_QUIET, QUIET, Debounce, DeploymentStatus

HERE = DeploymentStatus("deployment")


def emit(debounce: Debounce, now: float, standing: DeploymentStatus = HERE) -> None:
    """Let the source be due now, and emit its event."""
    assert debounce.needs_status(now)
    assert debounce.should_emit(now, standing)
    debounce.emitted(now, standing)


def test_first_change_is_due_at_once() -> None:
    debounce = Debounce()
    assert debounce.wake_at() == math.inf
    debounce.changed(10.0)
    assert debounce.wake_at() == 10.0
    emit(debounce, 10.0)


def test_lone_change_has_no_trailing_event() -> None:
    debounce = Debounce()
    debounce.changed(10.0)
    debounce.changed(10.0)
    emit(debounce, 10.01)
    assert not debounce.needs_status(10.01 + 2 * LONGEST)


def test_changes_after_the_event_are_due_when_quiet() -> None:
    debounce = Debounce()
    debounce.changed(10.0)
    emit(debounce, 10.0)
    debounce.changed(10.1)
    debounce.changed(10.2)
    assert debounce.wake_at() == pytest.approx(10.2 + QUIET)
    assert not debounce.needs_status(10.4)
    emit(debounce, 10.5, DeploymentStatus("deployment", newest="one"))


def test_unbroken_burst_is_due_once_a_second() -> None:
    debounce, events = Debounce(), []
    for tenth in range(40):
        now = 10.0 + tenth / 10
        debounce.changed(now)
        if debounce.needs_status(now):
            events.append(now)
            standing = DeploymentStatus("deployment", newest=f"{now}")
            assert debounce.should_emit(now, standing)
            debounce.emitted(now, standing)
    assert events == pytest.approx([10.0, 10.0 + 0.1 + LONGEST, 10.0 + 2 * (0.1 + LONGEST), 10.0 + 3 * (0.1 + LONGEST)])


def test_change_after_a_quiet_period_is_due_at_once_again() -> None:
    debounce = Debounce()
    debounce.changed(10.0)
    emit(debounce, 10.0)
    debounce.changed(10.0 + QUIET)
    assert debounce.wake_at() == 10.0 + QUIET


def test_quiet_period_of_a_source_delays_its_trailing_event() -> None:
    debounce = Debounce(5.0)
    debounce.changed(10.0)
    emit(debounce, 10.0)
    debounce.changed(11.0)
    assert debounce.wake_at() == 11.0 + 5
    assert not debounce.should_emit(11.0, DeploymentStatus("deployment", newest="one", running=True))
    for second in range(12, 50):
        debounce.changed(float(second))
    assert debounce.wake_at() == 11.0 + 5 * LONGEST_BY_QUIET


def test_source_without_quiet_period_is_due_at_each_change() -> None:
    debounce = Debounce(0.0)
    for number in range(3):
        debounce.changed(10.0 + number / 100)
        emit(debounce, 10.0 + number / 100, DeploymentStatus("deployment", newest=str(number)))


def test_no_trailing_event_if_a_sync_took_all_changes() -> None:
    taken = False
    debounce = Debounce(taken=lambda: taken)
    debounce.changed(10.0)
    emit(debounce, 10.0)
    debounce.changed(10.1)
    taken = True
    assert not debounce.needs_status(10.1 + QUIET)
    assert debounce.wake_at() == math.inf


def test_change_during_a_run_is_due_at_once_when_it_ends() -> None:
    debounce = Debounce()
    debounce.changed(10.0)
    assert debounce.needs_status(10.0)
    assert not debounce.should_emit(10.0, DeploymentStatus("deployment", newest="one", running=True))
    emit(debounce, debounce.wake_at(), DeploymentStatus("deployment", newest="one"))


def test_change_shortens_the_wait_for_a_resumed_source() -> None:
    debounce, now = Debounce(), 10.0
    debounce.rescan(now)
    while (now := debounce.wake_at()) < 60:
        assert debounce.needs_status(now)
        assert not debounce.should_emit(now, DeploymentStatus("deployment", paused=True))
    debounce.changed(60.0)
    assert debounce.wake_at() <= 60.0 + QUIET


def test_taken_change_is_not_requested_after_the_run() -> None:
    taken = False
    debounce = Debounce(taken=lambda: taken)
    debounce.changed(10.0)
    assert debounce.needs_status(10.0)
    assert not debounce.should_emit(10.0, DeploymentStatus("deployment", newest="one", running=True))
    taken = True
    assert not debounce.needs_status(debounce.wake_at())
    assert debounce.wake_at() == math.inf


def test_nothing_is_asked_while_a_run_waits_to_begin() -> None:
    debounce = Debounce()
    debounce.rescan(10.0)
    assert not debounce.should_emit(10.0, DeploymentStatus("deployment", newest="one", waiting=True))
    assert debounce.wake_at() == math.inf


def test_a_source_that_is_paused_is_asked_for_when_it_goes_on() -> None:
    debounce = Debounce()
    debounce.rescan(10.0)
    assert not debounce.should_emit(10.0, DeploymentStatus("deployment", paused=True))
    assert debounce.needs_status(debounce.wake_at())
    assert debounce.should_emit(debounce.wake_at(), HERE)


def test_an_event_that_no_run_comes_after_is_emitted_again_and_counted() -> None:
    debounce, now = Debounce(), 10.0
    debounce.rescan(now)
    for missed in range(3):
        assert debounce.should_emit(now, HERE)
        assert debounce.unanswered == missed
        debounce.emitted(now, HERE)
        later = debounce.wake_at()
        assert later > now
        now = later
        assert debounce.needs_status(now)
    assert not debounce.should_emit(now, DeploymentStatus("deployment", newest="one"))
    assert debounce.unanswered == 0


@dataclass
class World:
    """A source whose runs begin and end when they are told to, and a server that may be down or forget an event."""

    debounce: Debounce = field(default_factory=Debounce)
    now: float = 100.0
    up: bool = True
    forgets: bool = False
    waiting: list[int] = field(default_factory=list)
    running: bool = False
    made: int = 0
    emitted_at: float | None = None
    is_seen: bool = True

    def change(self) -> None:
        self.debounce.changed(self.now)
        self.is_seen = False

    def lose_events(self) -> None:
        self.debounce.rescan(self.now)
        self.is_seen = False

    def turn(self, what: str, value: bool) -> None:
        setattr(self, what, value)

    def automation_answers(self) -> None:
        if self.emitted_at is not None:
            self.emitted_at = None
            self.a_run_comes()

    def a_run_comes(self) -> None:
        """Of the automation, or of the schedule."""
        self.made += 1
        self.waiting.append(self.made)

    def worker_works(self) -> None:
        if self.running:
            self.running = False
        elif self.waiting:
            self.waiting.pop(0)
            self.running = True
            self.is_seen = True

    def passes(self, seconds: float) -> None:
        """Time passes, the watcher does what it is woken for, and an automation answers before the watcher gives it up."""
        end = self.now + seconds
        while self.debounce.wake_at() <= end:
            self.now = max(self.now, self.debounce.wake_at())
            if self.emitted_at is not None and self.now - self.emitted_at > 9:
                self.automation_answers()
            if self.debounce.needs_status(self.now):
                self._look()
        self.now = end

    def settles(self) -> None:
        """The server is up, and nothing more happens."""
        self.up, self.forgets = True, False
        for _ in range(60):
            self.passes(20.0)
            self.automation_answers()
            self.worker_works()

    def _look(self) -> None:
        if not self.up:
            self.debounce.failed(self.now)
            return
        standing = DeploymentStatus("deployment", False, str(self.made), bool(self.waiting), self.running)
        if self.debounce.should_emit(self.now, standing):
            assert not self.waiting, "a second run was asked for while one waited"
            assert self.emitted_at is None, "a second run was asked for before the first one came"
            self.emitted_at = None if self.forgets else self.now
            self.debounce.emitted(self.now, standing)


WATCHED = [
    st.tuples(st.just("change")),
    st.tuples(st.just("passes"), st.sampled_from([0.05, 0.3, 1.0, 3.0])),
    st.tuples(st.just("turn"), st.sampled_from(["up", "forgets"]), st.booleans()),
    st.tuples(st.sampled_from(["lose_events", "automation_answers", "worker_works"])),
]
SCHEDULED = [*WATCHED, st.tuples(st.just("a_run_comes"))]


@settings(max_examples=150)
@given(st.lists(st.one_of(WATCHED), max_size=60))
def test_no_change_goes_without_a_later_run_and_never_two_runs_wait(actions: list[tuple[str, ...]]) -> None:
    world = World()
    for name, *values in actions:
        getattr(world, name)(*values)
        assert len(world.waiting) <= 1
    world.settles()
    assert world.is_seen
    assert not world.running
    assert world.debounce.wake_at() == math.inf


@settings(max_examples=150)
@given(st.lists(st.one_of(SCHEDULED), max_size=60))
def test_no_change_is_lost_when_runs_take_the_changes(actions: list[tuple[str, ...]]) -> None:
    world = World()
    world.debounce = Debounce(taken=lambda: world.is_seen)
    for name, *values in actions:
        getattr(world, name)(*values)
    world.settles()
    assert world.is_seen
    assert world.debounce.wake_at() == math.inf


@settings(max_examples=100)
@given(st.lists(st.one_of(SCHEDULED), max_size=60))
def test_no_change_is_lost_among_runs_of_the_schedule(actions: list[tuple[str, ...]]) -> None:
    world = World()
    for name, *values in actions:
        getattr(world, name)(*values)
    world.settles()
    assert world.is_seen
    assert world.debounce.wake_at() == math.inf
