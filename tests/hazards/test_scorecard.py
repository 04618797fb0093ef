"""Every mishap of the scorecard, done to Catchment: what it holds afterwards is right. And the judge itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.person import Person, upright
from tests.hazards.catchment import Catchment
from tests.hazards.folders import mishaps
from tests.hazards.model import Held, Mishap, judge, meet, told


@pytest.fixture(scope="module")
def catchment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catchment]:
    with upright(Person(tmp_path_factory.mktemp("hazards") / "home")) as person:
        yield Catchment(person)


@pytest.mark.acceptance
@pytest.mark.parametrize("mishap", list(mishaps()), ids=lambda mishap: mishap.name.replace(" ", "-"))
def test_what_is_held_after_a_mishap_is_right(catchment: Catchment, mishap: Mishap, tmp_path: Path) -> None:
    verdict, _, _ = meet(catchment, mishap, tmp_path / told(mishap.name))
    assert verdict.right, verdict


def test_the_judge_sees_what_is_wrong() -> None:
    held = Held({"ghost": ["x"], "old": ["before"], "twice": ["t", "t"], "fine": ["all of it"]}, frozenset({"named"}))
    verdict = judge({"old": "after", "twice": "t", "fine": "of", "named": "n", "lost": "l", "unread": None}, held)
    assert (verdict.ghosts, verdict.stale, verdict.doubled) == (["ghost"], ["old"], ["twice"])
    assert (verdict.missing, verdict.silent) == (["named"], ["lost", "unread"])
    assert not verdict.right
    assert judge({"fine": "of", "named": None}, Held({"fine": ["all of it"]}, frozenset({"named"}))).right
