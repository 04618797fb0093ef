"""Mishaps of folders, hazards of the recognition, containers and commands, applied to the engine; and the scorecard's judge."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hazards import commands, containers, recognition
from tests.hazards.catchment import Engine
from tests.hazards.folders import mishaps
from tests.hazards.model import Hazard, Held, Mishap, folder_name, judge, meet

pytestmark = pytest.mark.long


@pytest.mark.parametrize("mishap", list(mishaps()), ids=lambda mishap: mishap.name.replace(" ", "-"))
def test_engine_holds_the_right_contents_after_a_mishap(mishap: Mishap, tmp_path: Path) -> None:
    verdict, _, _ = meet(Engine(tmp_path / "home"), mishap, tmp_path / folder_name(mishap.name))
    assert verdict.right, verdict


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[recognition.Desk]:
    """The shared scene of the hazards of the recognition."""
    with recognition.AREA.scene(tmp_path_factory.mktemp("recognition")) as made:
        yield made


@pytest.mark.parametrize("hazard", recognition.AREA.hazards, ids=lambda hazard: hazard.name.replace(" ", "-"))
def test_outcome_of_a_hazard_of_the_recognition_is_right(
    desk: recognition.Desk, hazard: Hazard[recognition.Desk]
) -> None:
    verdict = hazard.happens(desk)
    assert verdict.right, verdict


@pytest.mark.parametrize("hazard", containers.AREA.hazards, ids=lambda hazard: hazard.name.replace(" ", "-"))
def test_outcome_of_a_hazard_of_containers_is_right(hazard: Hazard[Path], tmp_path: Path) -> None:
    verdict = hazard.happens(tmp_path)
    assert verdict.right, verdict


@pytest.mark.parametrize("hazard", commands.AREA.hazards, ids=lambda hazard: hazard.name.replace(" ", "-"))
def test_outcome_of_a_hazard_of_commands_is_right(hazard: Hazard[Path], tmp_path: Path) -> None:
    verdict = hazard.happens(tmp_path)
    assert verdict.right, verdict


def test_judge_detects_every_type_of_problem() -> None:
    held = Held({"ghost": ["x"], "old": ["before"], "twice": ["t", "t"], "fine": ["all of it"]}, frozenset({"named"}))
    verdict = judge({"old": "after", "twice": "t", "fine": "of", "named": "n", "lost": "l", "unread": None}, held)
    assert (verdict.ghosts, verdict.stale, verdict.doubled) == (["ghost"], ["old"], ["twice"])
    assert (verdict.missing, verdict.silent) == (["named"], ["lost", "unread"])
    assert not verdict.right
    assert judge({"fine": "of", "named": None}, Held({"fine": ["all of it"]}, frozenset({"named"}))).right
