"""The growing pause before something that died is started again."""

from __future__ import annotations

import pytest

from catchment.runtime.child_process import RestartPause


class Life:
    """A pause with a clock that the test advances."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.pause = RestartPause(lambda: self.now)

    def short(self) -> float:
        """Start when it is due, and die after a second. Returns the pause."""
        self.now += self.pause.left
        return self.lasting(1.0)

    def lasting(self, seconds: float) -> float:
        self.pause.begin()
        self.now += seconds
        return self.pause.died()


def test_pause_doubles_with_each_short_life_up_to_a_minute() -> None:
    life = Life()
    assert [life.short() for _ in range(9)] == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert life.pause.left == 60


def test_long_life_resets_the_pause() -> None:
    life = Life()
    for _ in range(5):
        life.short()
    assert life.lasting(61.0) == 1
    assert life.short() == 2


@pytest.mark.parametrize("deaths", [0, 1])
def test_single_death_is_no_growing_pause(deaths: int) -> None:
    life = Life()
    for _ in range(deaths):
        life.short()
    assert not life.pause.is_growing


def test_repeated_deaths_are_reported_until_a_life_was_long() -> None:
    life = Life()
    for _ in range(8):
        life.short()
        life.now += life.pause.left
    assert life.pause.is_growing, "also while the next start is due"
    life.pause.begin()
    life.now += 59
    assert life.pause.is_growing
    life.now += 2
    assert not life.pause.is_growing
