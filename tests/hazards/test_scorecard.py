"""Every folder mishap, applied to the engine, and the judge of the scorecard itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hazards.catchment import Engine
from tests.hazards.folders import mishaps
from tests.hazards.model import Held, Mishap, folder_name, judge, meet

pytestmark = pytest.mark.long


@pytest.mark.parametrize("mishap", list(mishaps()), ids=lambda mishap: mishap.name.replace(" ", "-"))
def test_engine_holds_the_right_contents_after_a_mishap(mishap: Mishap, tmp_path: Path) -> None:
    verdict, _, _ = meet(Engine(tmp_path / "home"), mishap, tmp_path / folder_name(mishap.name))
    assert verdict.right, verdict


def test_judge_detects_every_type_of_problem() -> None:
    held = Held({"ghost": ["x"], "old": ["before"], "twice": ["t", "t"], "fine": ["all of it"]}, frozenset({"named"}))
    verdict = judge({"old": "after", "twice": "t", "fine": "of", "named": "n", "lost": "l", "unread": None}, held)
    assert (verdict.ghosts, verdict.stale, verdict.doubled) == (["ghost"], ["old"], ["twice"])
    assert (verdict.missing, verdict.silent) == (["named"], ["lost", "unread"])
    assert not verdict.right
    assert judge({"fine": "of", "named": None}, Held({"fine": ["all of it"]}, frozenset({"named"}))).right
