"""Every mishap of a folder, done to the engine, and some to the whole system: what is held is right. And the judge itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.person import Person, upright
from tests.hazards.catchment import Catchment, Engine
from tests.hazards.folders import mishaps
from tests.hazards.model import Held, Mishap, judge, meet, told

_OF_ALL_KINDS = (
    "a folder is renamed",
    "a delete, and the same file again",
    "a folder is emptied",
    "a disk is not mounted",
    "a name that is no UTF-8",
    "a zip bomb",
    "a sparse file of 300 MB",
    "a pipe among the files",
)
"""Those that a person's whole system is put to in every run of the tests; the rest of it by `make hazards`."""


@pytest.fixture(scope="module")
def catchment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catchment]:
    with upright(Person(tmp_path_factory.mktemp("hazards") / "home")) as person:
        yield Catchment(person)


@pytest.mark.parametrize("mishap", list(mishaps()), ids=lambda mishap: mishap.name.replace(" ", "-"))
def test_what_the_engine_holds_after_a_mishap_is_right(mishap: Mishap, tmp_path: Path) -> None:
    verdict, _, _ = meet(Engine(tmp_path / "home"), mishap, tmp_path / told(mishap.name))
    assert verdict.right, verdict


@pytest.mark.acceptance
@pytest.mark.parametrize("name", _OF_ALL_KINDS)
def test_what_is_held_after_a_mishap_is_right(catchment: Catchment, name: str, tmp_path: Path) -> None:
    (mishap,) = [mishap for mishap in mishaps() if mishap.name == name]
    verdict, _, _ = meet(catchment, mishap, tmp_path / told(name))
    assert verdict.right, verdict


def test_the_judge_sees_what_is_wrong() -> None:
    held = Held({"ghost": ["x"], "old": ["before"], "twice": ["t", "t"], "fine": ["all of it"]}, frozenset({"named"}))
    verdict = judge({"old": "after", "twice": "t", "fine": "of", "named": "n", "lost": "l", "unread": None}, held)
    assert (verdict.ghosts, verdict.stale, verdict.doubled) == (["ghost"], ["old"], ["twice"])
    assert (verdict.missing, verdict.silent) == (["named"], ["lost", "unread"])
    assert not verdict.right
    assert judge({"fine": "of", "named": None}, Held({"fine": ["all of it"]}, frozenset({"named"}))).right
