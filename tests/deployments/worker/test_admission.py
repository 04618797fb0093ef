"""The limit of concurrent runs and the order of their start, with given readings and times."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment.model import Priority
from deployments.runs.admission import Limit, MachineReading, WaitingRun, admit
from deployments.sources.profile import Profile

_EVERY = 2.0
_NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
_CALM, _BETWEEN, _BUSY = (0.10, 0.40), (0.72, 0.40), (0.95, 0.40)
_SMALL = Profile("notes")


class _Clock:
    """Feeds readings to a limit, at intervals of two seconds."""

    def __init__(self, limit: Limit) -> None:
        self.limit = limit
        self.at = 0.0

    def pass_by(self, seconds: float, cpu: float, memory: float) -> list[int]:
        """Return the limit after each reading."""
        return list(self._readings(seconds, cpu, memory))

    def _readings(self, seconds: float, cpu: float, memory: float) -> Iterator[int]:
        end = self.at + seconds
        while self.at < end:
            self.limit.heed(MachineReading(self.at, cpu, memory))
            self.at += _EVERY
            yield self.limit.now


def test_busy_processor_lowers_the_limit_to_two() -> None:
    seen = _Clock(Limit(4)).pass_by(60, *_BUSY)

    assert seen[:3] == [4, 4, 4]
    assert sorted(set(seen), reverse=True) == [4, 3, 2]
    assert seen[-1] == 2


def test_short_memory_lowers_the_limit_to_one() -> None:
    seen = _Clock(Limit(4)).pass_by(60, 0.1, 0.9)

    assert sorted(set(seen), reverse=True) == [4, 3, 2, 1]
    assert seen[-1] == 1


@pytest.mark.parametrize(("cpu", "memory", "after"), [(0.81, 0.1, 2), (0.80, 0.1, 3), (0.1, 0.86, 2), (0.1, 0.85, 3)])
def test_limit_falls_above_80_percent_cpu_or_85_percent_memory(cpu: float, memory: float, after: int) -> None:
    assert _Clock(Limit(3)).pass_by(8, cpu, memory)[-1] == after


def test_short_peak_keeps_the_limit() -> None:
    clock = _Clock(Limit(4))

    for _ in range(20):
        clock.pass_by(4, *_BUSY)
        clock.pass_by(2, *_BETWEEN)

    assert clock.limit.now == 4


def test_calm_machine_restores_the_limit_up_to_the_cap() -> None:
    clock = _Clock(Limit(3))
    clock.pass_by(60, *_BUSY)

    seen = clock.pass_by(300, *_CALM)

    assert sorted(set(seen)) == [2, 3]
    assert seen[-1] == 3


def test_load_between_calm_and_hot_keeps_the_limit() -> None:
    clock = _Clock(Limit(4))
    clock.pass_by(8, *_BUSY)
    assert clock.limit.now == 3

    assert set(clock.pass_by(600, *_BETWEEN)) == {3}


def test_limit_does_not_oscillate_with_the_load_of_one_run() -> None:
    clock = _Clock(Limit(3))
    changes = 0
    while clock.at < 3_600:
        before = clock.limit.now
        [after] = clock.pass_by(_EVERY, *(_BUSY if before == 3 else _CALM))
        changes += after != before

    # Without the growing delay it would be 300 in an hour.
    assert changes < 45


def test_limit_at_its_cap_follows_the_cap() -> None:
    limit = Limit(2)
    limit.set_cap(6)
    assert (limit.now, limit.cap) == (6, 6)
    limit.set_cap(0)
    assert (limit.now, limit.cap) == (1, 1)


def test_lowered_limit_stays_low_when_the_cap_is_raised() -> None:
    clock = _Clock(Limit(4))
    clock.pass_by(8, *_BUSY)

    clock.limit.set_cap(8)

    assert (clock.limit.now, clock.limit.cap) == (3, 8)


@given(
    st.integers(1, 8),
    st.lists(st.tuples(st.floats(0.1, 30), st.floats(0, 1), st.floats(0, 1)), max_size=60),
)
def test_limit_stays_in_bounds_and_changes_by_one(cap: int, readings: list[tuple[float, float, float]]) -> None:
    limit, at = Limit(cap), 0.0
    for pause, cpu, memory in readings:
        at += pause
        before = limit.now
        changed = limit.heed(MachineReading(at, cpu, memory))
        assert 1 <= limit.now <= cap
        assert abs(limit.now - before) == changed


def _waiting(name: str, profile: Profile = _SMALL, minutes: float = 0) -> WaitingRun[str]:
    return WaitingRun(name, _NOON + timedelta(minutes=minutes), profile)


def _names(waiting: list[WaitingRun[str]], live: list[Profile], limit: int = 4) -> list[str]:
    return [one.run for one in admit(waiting, live, Limit(limit))]


def test_runs_start_in_due_order_while_slots_are_free() -> None:
    waiting = [_waiting("third", minutes=2), _waiting("first"), _waiting("second", minutes=1)]

    assert _names(waiting, [_SMALL], 3) == ["first", "second"]
    assert _names(waiting, [_SMALL] * 3, 3) == []


def test_kind_at_its_limit_lets_others_pass() -> None:
    mail = Profile("mail", at_once=1)
    waiting = [_waiting("mail", mail), _waiting("more mail", mail), _waiting("notes", minutes=1)]

    assert _names(waiting, []) == ["mail", "notes"]
    assert _names(waiting, [mail]) == ["notes"]


def test_priority_moves_the_due_time_by_a_minute() -> None:
    high, low = Profile("notes", priority=Priority.HIGH), Profile("notes", priority=Priority.LOW)
    waiting = [_waiting("low", low), _waiting("normal", minutes=0.5), _waiting("high", high, minutes=0.9)]

    assert _names(waiting, []) == ["high", "normal", "low"]
    assert _names([_waiting("low", low), _waiting("high", high, minutes=3)], []) == ["low", "high"]


def test_background_runs_need_no_slot() -> None:
    background = Profile("embed", 1, Priority.LOW, is_background=True)
    waiting = [_waiting("first"), _waiting("embed", background), _waiting("second embed", background, minutes=5)]

    assert _names(waiting, [_SMALL], 1) == ["embed"]
    assert _names(waiting, [background], 1) == ["first"]


_profiles = st.builds(Profile, kind=st.sampled_from("abc"), at_once=st.none() | st.integers(1, 3))


@given(st.lists(_profiles, max_size=8), st.lists(_profiles, max_size=4), st.integers(1, 6))
def test_admission_obeys_all_limits_and_starts_a_run_if_idle(
    waiting: list[Profile], live: list[Profile], cap: int
) -> None:
    lines = [_waiting(str(i), profile, i) for i, profile in enumerate(waiting)]

    chosen = [one.profile for one in admit(lines, live, Limit(cap))]

    assert not chosen or len(live) + len(chosen) <= cap
    for index, one in enumerate(chosen):
        before = [other for other in [*live, *chosen[:index]] if other.kind == one.kind]
        assert one.at_once is None or len(before) < one.at_once
    assert live or not waiting or chosen
