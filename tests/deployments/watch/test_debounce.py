"""When a source is asked for, in a world whose clock, changes, runs and failures Hypothesis makes up."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.watch.debounce import (
    BURST,
    LEAD,
    LONGEST,
    LONGEST_BY_QUIET,
    MOST,
    QUIET,
    QUIET_IN_BURST,
    Debounce,
    Standing,
)

HERE = Standing("deployment")


def test_one_changed_file_is_due_when_it_was_quiet_for_a_moment() -> None:
    debounce = Debounce()
    debounce.changed(10.0, "a.md")
    debounce.changed(10.2, "a.md")
    assert debounce.wake_at() == pytest.approx(10.2 + QUIET)
    assert not debounce.wants_look(10.4)
    assert debounce.wants_look(10.5)
    assert debounce.looked(10.5, HERE)


def test_a_burst_is_waited_for_longer() -> None:
    debounce = Debounce()
    for number in range(200):
        debounce.changed(10.0, f"{number}.md")
    assert debounce.wake_at() == 10.0 + QUIET_IN_BURST


def test_a_file_that_is_never_quiet_is_due_all_the_same() -> None:
    debounce = Debounce()
    for tenth in range(30):
        debounce.changed(10.0 + tenth / 10, "log.txt")
    assert debounce.wake_at() == 10.0 + LONGEST


def test_a_full_batch_is_due_at_once() -> None:
    debounce = Debounce()
    for number in range(MOST):
        debounce.changed(10.0, f"{number}.md")
    assert debounce.wants_look(10.0)


def test_a_source_with_a_quiet_of_its_own_waits_for_that_and_in_the_end_no_longer() -> None:
    debounce = Debounce(5.0)
    for number in range(2 * MOST):
        debounce.changed(10.0, f"{number}.md")
    assert debounce.wake_at() == 10.0 + 5
    for second in range(40):
        debounce.changed(10.0 + second, "log.txt")
    assert debounce.wake_at() == 10.0 + 5 * LONGEST_BY_QUIET


def test_a_source_that_wants_no_quiet_is_due_at_its_first_change() -> None:
    debounce = Debounce(0.0)
    debounce.changed(10.0, "a.md")
    assert debounce.wants_look(10.0)


def test_a_path_matters_once_a_batch_and_not_at_all_when_the_source_is_due() -> None:
    debounce = Debounce()
    assert debounce.needs("a.md")
    debounce.changed(10.0, "a.md")
    assert not debounce.needs("a.md")
    debounce.rescan(10.0)
    assert not debounce.needs("b.md")


def test_a_sync_is_asked_for_ahead_of_the_quiet_and_told_when_that_is() -> None:
    debounce = Debounce(lead=LEAD)
    debounce.changed(10.0, "a.md")
    assert debounce.wake_at() == pytest.approx(10.0 + QUIET - LEAD)
    assert debounce.wants_look(10.1)
    debounce.changed(10.2, "b.md")
    assert debounce.quiet_at() == pytest.approx(10.2 + QUIET, abs=0.01)
    debounce.changed(13.0, "b.md")
    assert debounce.quiet_at() == 10.0 + LONGEST


def test_the_quiet_of_a_burst_is_waited_for_after_a_sync_was_asked_for_too() -> None:
    debounce = Debounce(lead=LEAD)
    for number in range(BURST):
        debounce.changed(10.0, f"{number}.md")
    assert debounce.wants_look(10.0 + QUIET_IN_BURST - LEAD)
    assert debounce.quiet_at() == 10.0 + QUIET_IN_BURST


def test_nothing_is_asked_when_a_sync_has_taken_note_of_every_change() -> None:
    taken = False
    debounce = Debounce(taken=lambda: taken)
    debounce.changed(10.0, "a.md")
    assert debounce.wants_look(11.0)
    assert not debounce.looked(11.0, Standing("deployment", newest="one", running=True))
    taken = True
    assert not debounce.wants_look(debounce.wake_at())
    assert debounce.wake_at() == math.inf


def test_nothing_is_asked_while_a_run_waits_to_begin() -> None:
    debounce = Debounce()
    debounce.rescan(10.0)
    assert not debounce.looked(10.0, Standing("deployment", newest="one", waiting=True))
    assert debounce.wake_at() == math.inf


def test_a_source_that_is_paused_is_asked_for_when_it_goes_on() -> None:
    debounce = Debounce()
    debounce.rescan(10.0)
    assert not debounce.looked(10.0, Standing("deployment", paused=True))
    assert debounce.wants_look(debounce.wake_at())
    assert debounce.looked(debounce.wake_at(), HERE)


def test_an_event_that_no_run_comes_after_is_emitted_again_and_counted() -> None:
    debounce, now = Debounce(), 10.0
    debounce.rescan(now)
    for missed in range(3):
        assert debounce.looked(now, HERE)
        assert debounce.unanswered == missed
        debounce.emitted(now, HERE)
        later = debounce.wake_at()
        assert later > now
        now = later
        assert debounce.wants_look(now)
    assert not debounce.looked(now, Standing("deployment", newest="one"))
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

    def change(self, path: str) -> None:
        self.debounce.changed(self.now, path)
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
            if self.debounce.wants_look(self.now):
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
        standing = Standing("deployment", False, str(self.made), bool(self.waiting), self.running)
        if self.debounce.looked(self.now, standing):
            assert not self.waiting, "a second run was asked for while one waited"
            assert self.emitted_at is None, "a second run was asked for before the first one came"
            self.emitted_at = None if self.forgets else self.now
            self.debounce.emitted(self.now, standing)


WATCHED = [
    st.tuples(st.just("change"), st.sampled_from(["a.md", "b.md", "c/d.md"])),
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


@settings(max_examples=100)
@given(st.lists(st.one_of(SCHEDULED), max_size=60))
def test_no_change_is_lost_among_runs_of_the_schedule(actions: list[tuple[str, ...]]) -> None:
    world = World()
    for name, *values in actions:
        getattr(world, name)(*values)
    world.settles()
    assert world.is_seen
    assert world.debounce.wake_at() == math.inf
