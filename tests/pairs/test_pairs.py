"""Two concurrent acts, one of them killed, keep the promises of both; `make pairs` tries more steps."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

from tests.faults.lives import a_place
from tests.pairs.acts import ACTS
from tests.pairs.matrix import PAIRS, Pair
from tests.pairs.trials import Arena, Mode, Trial

pytestmark = pytest.mark.faults
_KILLS = 4
_SOME = 4


@pytest.fixture(scope="module")
def arena() -> Iterator[Arena]:
    """A place for consecutive trials."""
    with a_place() as place:
        yield Arena(place)


@pytest.mark.parametrize("pair", PAIRS[::_SOME], ids=lambda pair: pair.name)
def test_act_killed_beside_another_leaves_what_both_promise(
    arena: Arena, pair: Pair, record_property: Callable[..., None]
) -> None:
    middle = len(arena.steps(pair.acts[0], pair.state)) // 2
    result = arena.run(pair, Trial(Mode.KILLED, middle))
    record_property("kills", int(result.killed))
    assert not result.problem, f"{result.trial} ({result.step})\n{result.problem}"


@pytest.mark.long
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_acts_at_any_step_of_each_other_leave_what_both_promise(
    arena: Arena, pair: Pair, times: int, record_property: Callable[..., None]
) -> None:
    chosen = random.Random(pair.name if times == 1 else None)
    kills = 0
    for trial in arena.chosen(pair, _KILLS * times, chosen):
        result = arena.run(pair, trial)
        kills += result.killed
        assert not result.problem, f"{result.trial} ({result.step})\n{result.problem}"
    record_property("kills", kills)


def test_every_act_has_a_pair() -> None:
    assert {name for pair in PAIRS for name in (pair.first, pair.second)} == set(ACTS)
    assert len({pair.name for pair in PAIRS}) == len(PAIRS)
