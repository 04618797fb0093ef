"""Killed at every transition, every commit and every change of a file's name, the engine goes on and ends as it would have."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from catchment.ledger.db.job_states import ARROWS
from tests.faults.crashes import ARROW, PROJECT, WITHIN
from tests.faults.lives import Life, Point, Recording, a_place
from tests.faults.scenes import SCENES, Scene

pytestmark = [pytest.mark.faults, pytest.mark.long]

_KILLS_IN_A_LIFE = 6
Points = dict[str, list[Point]]


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder for one life after the other."""
    with a_place() as folder:
        yield folder


@pytest.fixture(scope="module")
def recordings() -> dict[str, Recording]:
    """Of each scene, by its name."""
    found = {}
    for scene in SCENES:
        with a_place() as folder:
            found[scene.name] = Life(scene, folder).record()
    return found


@pytest.fixture(scope="module")
def points(recordings: dict[str, Recording], times: int) -> Points:
    """Where to kill in each scene: at the first and the last moment of each name over all scenes, and at more of them."""
    everywhere: defaultdict[str, list[tuple[str, Point]]] = defaultdict(list)
    for scene, recording in recordings.items():
        for act, heard in enumerate(recording.acts):
            for name, number in heard.items():
                everywhere[name] += [(scene, Point(act, name, n)) for n in sorted({1, 2, number}) if n <= number]
    chosen: Points = {scene: [] for scene in recordings}
    for found in everywhere.values():
        for number in {0, len(found) - 1, *range(1, min(times, len(found)))}:
            scene, point = found[number]
            chosen[scene].append(point)
    return chosen


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_killed_at_any_of_its_points_a_scene_ends_as_if_nobody_had_been(
    scene: Scene, place: Path, recordings: dict[str, Recording], points: Points, record_property: Callable[..., None]
) -> None:
    left, recording = sorted(points[scene.name], key=lambda point: point.act), recordings[scene.name]
    number = 0
    while left:
        life = Life(scene, place)
        life.begin()
        # What an earlier kill of the same life has already brought about is tried again at the beginning of another.
        due, spared = left[:_KILLS_IN_A_LIFE], left[_KILLS_IN_A_LIFE:]
        missed = [point for point in due if not life.killed_at(point)]
        life.end(recording)
        number += len(due) - len(missed)
        assert due[0] not in missed or _is_fleeting(due[0]), due[0]
        left = [point for point in missed if point != due[0]] + spared
    record_property("kills", number)


def _is_fleeting(point: Point) -> bool:
    """Whether the moment may be missed in a life that is like the recorded one."""
    return point.name.endswith(WITHIN)


def test_all_scenes_together_have_every_arrow_and_every_commit_of_the_ledger(recordings: dict[str, Recording]) -> None:
    heard = {name for recording in recordings.values() for act in recording.acts for name in act}
    arrows = {name.partition(": ")[2] for name in heard if ARROW in name}
    assert arrows == {f"{old}{ARROW}{new}" for old, followers in ARROWS.items() for new in followers}
    committed = {name.partition(":")[0] for name in heard if name.endswith("after commit")}
    missing = committing() - committed
    assert missing == set(), "a scene has to do this, so that it can be killed there"


def committing() -> set[str]:
    """Every function of the ledger that opens a writing transaction."""
    found = set()
    for file in (PROJECT / "catchment" / "ledger").rglob("*.py"):
        for name, node in _functions(ast.parse(file.read_text(encoding="utf-8")), ()):
            opened = [item.context_expr for part in ast.walk(node) if isinstance(part, ast.With) for item in part.items]
            calls = [call.func for call in opened if isinstance(call, ast.Call)]
            if any(isinstance(call, ast.Attribute) and call.attr == "write" for call in calls):
                found.add(f"{file.stem}.{name}")
    assert len(found) > 50
    return found


def _functions(tree: ast.AST, within: tuple[str, ...]) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield ".".join((*within, node.name)), node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, (*within, node.name))


def test_an_ordinary_run_has_at_least_three_hundred_kills(points: Points) -> None:
    assert sum(not _is_fleeting(point) for chosen in points.values() for point in chosen) >= 300
