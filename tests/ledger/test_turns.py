"""Whose turn it is to work: shares, caps, and turns of the dead."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from catchment.ledger import Ledger
from catchment.ledger.limits.turns import LONG, Standing, Turns, next_turns
from catchment.model import Priority
from tests.ledger.world import Clock, World

_LONG_SECONDS = LONG / 1_000_000


@dataclass
class Round:
    """Sources that take turns in a real ledger; the owner of each sync is named after it, and some have died."""

    ledger: Ledger
    cap: int
    dead: set[str] = field(default_factory=set)
    sources: dict[int, int] = field(default_factory=dict)
    turns: Turns = field(init=False)

    def __post_init__(self) -> None:
        self.turns = Turns(self.ledger._store, self.cap)

    def add(self, sync: int, kind: str = "obsidian", priority: Priority = Priority.NORMAL) -> int:
        """A source, known by the number of its sync."""
        self.sources[sync] = self.ledger.sources.put(f"source-{sync}", kind, priority).id
        return sync

    def alive(self, owner: str) -> bool:
        return owner not in self.dead

    def ask(self, sync: int, at_once: int = 8) -> bool:
        return self.turns.ask(self.sources[sync], sync, owner=str(sync), at_once=at_once, alive=self.alive)

    def granted(self, sync: int) -> bool:
        return self.turns.granted(sync, self.alive)

    def holders(self) -> set[int]:
        return {one.sync_id for one in self.turns.standings() if one.held}

    def work(self, clock: Clock, seconds: float) -> Counter[int]:
        """Everybody always wants to work, a second at a time; how long each has worked."""
        worked: Counter[int] = Counter()
        for sync in self.sources:
            self.ask(sync)
        for _ in range(int(seconds)):
            clock.forward(seconds=1)
            for sync in sorted(self.holders()):
                worked[sync] += 1
                if self.turns.account(sync, 1, moved=True):
                    self.turns.release(sync, 0)
                    self.ask(sync)
        return worked


@pytest.fixture
def make(world: World) -> Callable[[int], Round]:
    return lambda cap: Round(world.ledger, cap)


def test_who_is_alone_has_the_turn_at_once_and_keeps_it(make: Callable[[int], Round]) -> None:
    round_ = make(1)
    first = round_.add(1)
    assert round_.ask(first)
    assert not round_.turns.account(first, 1_000, moved=True)
    assert round_.ask(first)
    assert round_.holders() == {first}


def test_no_more_turns_are_held_than_the_cap_and_the_next_one_comes_when_one_is_released(
    make: Callable[[int], Round],
) -> None:
    round_ = make(2)
    one, two, three = (round_.add(sync) for sync in (1, 2, 3))
    assert [round_.ask(sync) for sync in (one, two, three)] == [True, True, False]
    assert not round_.granted(three)
    round_.turns.release(one, 1)
    assert round_.granted(three)
    round_.turns.leave(two)
    assert round_.ask(one)
    assert round_.holders() == {one, three}


def test_four_sources_share_two_turns_alike(make: Callable[[int], Round], clock: Clock) -> None:
    round_ = make(2)
    for sync in (1, 2, 3, 4):
        round_.add(sync)
    worked = round_.work(clock, 20)
    assert sorted(worked) == [1, 2, 3, 4]
    assert max(worked.values()) - min(worked.values()) <= 1


def test_priorities_share_nine_to_three_to_one(make: Callable[[int], Round], clock: Clock) -> None:
    round_ = make(1)
    high = round_.add(1, priority=Priority.HIGH)
    normal = round_.add(2)
    low = round_.add(3, priority=Priority.LOW)
    worked = round_.work(clock, 65)
    assert abs(worked[high] - 45) <= 1
    assert abs(worked[normal] - 15) <= 1
    assert abs(worked[low] - 5) <= 1


def test_a_newcomer_comes_next_and_has_saved_up_nothing(make: Callable[[int], Round], clock: Clock) -> None:
    round_ = make(1)
    old, older = round_.add(1), round_.add(2)
    round_.work(clock, 100)
    newcomer = round_.add(3)
    assert not round_.ask(newcomer)
    worked = round_.work(clock, 30)
    assert abs(worked[newcomer] - 10) <= 1
    assert abs(worked[old] - worked[older]) <= 1


def test_who_was_away_has_saved_up_nothing(make: Callable[[int], Round], clock: Clock) -> None:
    round_ = make(1)
    busy, away = round_.add(1), round_.add(2)
    round_.ask(away)
    round_.turns.release(away, 0)
    round_.ask(busy)
    round_.turns.account(busy, 1_000, moved=True)
    round_.ask(away)
    worked = round_.work(clock, 20)
    assert abs(worked[busy] - worked[away]) <= 1


def test_a_kind_has_no_more_turns_than_it_may_and_lets_others_pass(make: Callable[[int], Round]) -> None:
    round_ = make(3)
    mail = [round_.add(sync, kind="imap") for sync in (1, 2, 3)]
    notes = round_.add(4)
    assert [round_.ask(sync, at_once=2) for sync in mail] == [True, True, False]
    assert round_.ask(notes)
    round_.turns.leave(mail[0])
    assert round_.granted(mail[2])


def test_the_turn_of_a_dead_process_is_taken_back_by_whoever_looks(make: Callable[[int], Round]) -> None:
    round_ = make(1)
    dead, waits, gone = (round_.add(sync) for sync in (1, 2, 3))
    round_.ask(dead)
    round_.ask(gone)
    round_.ask(waits)
    assert not round_.granted(waits)
    round_.dead |= {str(dead), str(gone)}
    assert round_.granted(waits)
    assert [one.sync_id for one in round_.turns.standings()] == [waits]


def test_a_turn_in_which_nothing_moves_keeps_nobody_waiting(make: Callable[[int], Round], clock: Clock) -> None:
    round_ = make(1)
    slow, waits = round_.add(1), round_.add(2)
    round_.ask(slow)
    round_.ask(waits)
    clock.forward(seconds=_LONG_SECONDS - 1)
    assert not round_.granted(waits)
    clock.forward(seconds=2)
    assert round_.granted(waits)
    assert round_.holders() == {slow, waits}


def test_a_turn_in_which_something_moves_counts_however_long_it_is(make: Callable[[int], Round], clock: Clock) -> None:
    round_ = make(1)
    busy, waits = round_.add(1, priority=Priority.HIGH), round_.add(2, priority=Priority.LOW)
    round_.ask(busy)
    for _ in range(3):
        clock.forward(seconds=_LONG_SECONDS - 1)
        assert not round_.turns.account(busy, 0, moved=True)
    round_.ask(waits)
    assert not round_.granted(waits)


def test_a_source_that_begins_anew_takes_the_place_of_what_it_left(make: Callable[[int], Round]) -> None:
    round_ = make(1)
    round_.ask(round_.add(1))
    round_.sources[2] = round_.sources[1]
    assert round_.ask(2)
    round_.turns.release(1, 1)
    assert round_.holders() == {2}


class Model(RuleBasedStateMachine):
    """Sources ask, work, give up, leave and die in any order."""

    template: Path
    _cap = 2
    _at_once = 1

    @initialize(kinds=st.lists(st.sampled_from(["obsidian", "imap"]), min_size=6, max_size=6))
    def start(self, kinds: list[str]) -> None:
        self.folder = Path(tempfile.mkdtemp())
        shutil.copy2(self.template, self.folder / "ledger.db")
        self.clock = Clock()
        ledger = Ledger.open(f"sqlite:///{self.folder / 'ledger.db'}", clock=self.clock)
        # No power cut comes in this test. Its one thread has one connection.
        connection = ledger._store.engine.raw_connection()
        connection.cursor().execute("PRAGMA synchronous = OFF")
        connection.close()
        self.round = Round(ledger, self._cap)
        priorities = [*Priority, *Priority]
        for sync, (kind, priority) in enumerate(zip(kinds, priorities, strict=True), 1):
            self.round.add(sync, kind, priority)
        self.before: list[Standing] = []

    def teardown(self) -> None:
        if hasattr(self, "round"):
            self.round.ledger.close()
            shutil.rmtree(self.folder)

    @rule(sync=st.integers(1, 6), later=st.integers(0, 3))
    def ask(self, sync: int, later: int) -> None:
        self.clock.forward(seconds=later)
        self.round.dead.discard(str(sync))
        self.round.ask(sync, at_once=8 if sync % 2 else self._at_once)

    @rule(sync=st.integers(1, 6), seconds=st.floats(0, 5))
    def work(self, sync: int, seconds: float) -> None:
        self.clock.forward(seconds=seconds)
        if sync in self.round.holders() and self.round.turns.account(sync, seconds, moved=True):
            self.round.turns.release(sync, 0)

    @rule(sync=st.integers(1, 6))
    def leave(self, sync: int) -> None:
        self.round.turns.leave(sync)

    @rule(sync=st.integers(1, 6))
    def die(self, sync: int) -> None:
        self.round.dead.add(str(sync))

    @rule(sync=st.integers(1, 6))
    def look(self, sync: int) -> None:
        self.round.granted(sync)

    @rule()
    def nobody_waits_for_ever(self) -> None:
        """Whoever waits has its turn after as much work of the others as its tag is ahead of theirs, and one turn of each."""
        everyone = [one for one in self.round.turns.standings() if self.round.alive(one.owner)]
        waiting = [one for one in everyone if one.waits_since is not None]
        for one in waiting:
            ahead = sum(max(0, one.tag - other.tag) * other.weight // 1_000_000 + 2 for other in everyone)
            for _ in range(ahead):
                if self.round.granted(one.sync_id):
                    break
                for sync in self.round.holders():
                    if self.round.alive(str(sync)) and self.round.turns.account(sync, 1, moved=True):
                        self.round.turns.release(sync, 0)
                        self.round.ask(sync, at_once=8 if sync % 2 else self._at_once)
            assert self.round.granted(one.sync_id)
        self.before = self.round.turns.standings()

    @invariant()
    def the_caps_hold_and_the_lowest_tag_comes_first(self) -> None:
        if not hasattr(self, "round"):
            return
        now = int(self.clock() * 1_000_000)
        after = self.round.turns.standings()
        had = {one.sync_id for one in self.before if one.held}
        given = [one for one in after if one.held and one.sync_id not in had]
        held = [one for one in after if one.held]
        if given:
            assert sum((one.counts_until or 0) > now for one in held) <= self._cap
        room = {
            kind: min(one.at_once for one in after if one.kind == kind) - sum(one.kind == kind for one in held)
            for kind in {one.kind for one in after}
        }
        for one in given:
            assert room[one.kind] >= 0
            for other in after:
                kind_is_free = room[other.kind] > 0
                if other.waits_since is not None and kind_is_free:
                    assert one.tag <= other.tag
        self.before = after


def test_in_any_order_no_cap_is_exceeded_and_nobody_starves(sqlite_template: Path) -> None:
    Model.template = sqlite_template
    run_state_machine_as_test(
        Model,
        settings=settings(
            max_examples=15,
            stateful_step_count=20,
            phases=[Phase.explicit, Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        ),
    )


def _standing(sync: int, tag: int, waits: int | None, kind: str = "a", at_once: int = 8) -> Standing:
    return Standing(sync, sync, str(sync), kind, at_once, 1, tag, waits)


def test_of_equal_tags_the_one_that_waits_longest_comes_first() -> None:
    waiting = [_standing(1, 5, 30), _standing(2, 5, 20), _standing(3, 4, 40)]
    assert [one.sync_id for one in next_turns(waiting, 50, 2)] == [3, 2]
