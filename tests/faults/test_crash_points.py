"""Kill the engine at every transition, commit and rename: it resumes and reaches the same final state."""

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
_NOT_HERE = {
    "__init__.Ledger.try_writing": "never commits",
    "backup._replace_tables": "test_killed_restore_on_postgresql_is_completed_by_the_next",
    "backup.back_up": "test_killed_backup_of_postgresql_leaves_no_file_or_a_whole_one",
    "joined_hosts.JoinedHosts.join": "test_killed_join_is_completed_by_the_next",
    "joined_hosts.JoinedHosts.leave": "test_killed_leave_is_named_and_completed_by_the_next",
    "purge.Purging.done_here": "test_killed_clearing_of_a_disk_is_completed_by_the_next",
}
"""Functions of the ledger that no scene commits: only PostgreSQL does, where the named test kills it, or none."""
Points = dict[str, list[Point]]


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder for consecutive lives."""
    with a_place() as folder:
        yield folder


@pytest.fixture(scope="module")
def recordings() -> dict[str, Recording]:
    """The recording of each scene by name."""
    found = {}
    for scene in SCENES:
        with a_place() as folder:
            found[scene.name] = Life(scene, folder).record()
    return found


@pytest.fixture(scope="module")
def points(recordings: dict[str, Recording], times: int) -> Points:
    """The kill points of each scene: the first and last occurrence of each moment over all scenes, and a sample of
    others. Of the start of a transaction, the first is enough: until its commit, a kill always leaves the old state.
    """
    everywhere: defaultdict[str, list[tuple[str, Point]]] = defaultdict(list)
    for scene, recording in recordings.items():
        for act, heard in enumerate(recording.acts):
            for name, number in heard.items():
                everywhere[name] += [(scene, Point(act, name, n)) for n in sorted({1, 2, number}) if n <= number]
    chosen: Points = {scene: [] for scene in recordings}
    for name, found in everywhere.items():
        last = 0 if name.endswith(": begin") else len(found) - 1
        for number in {0, last, *range(1, min(times, len(found)))}:
            scene, point = found[number]
            chosen[scene].append(point)
    return chosen


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_kill_at_any_crash_point_leads_to_the_same_final_state(
    scene: Scene, place: Path, recordings: dict[str, Recording], points: Points, record_property: Callable[..., None]
) -> None:
    left, recording = sorted(points[scene.name], key=lambda point: point.act), recordings[scene.name]
    number = 0
    while left:
        life = Life(scene, place)
        life.begin()
        # A later process first repeats the effects of earlier kills of the same life.
        due, spared = left[:_KILLS_IN_A_LIFE], left[_KILLS_IN_A_LIFE:]
        missed = [point for point in due if not life.killed_at(point)]
        life.end(recording)
        number += len(due) - len(missed)
        assert due[0] not in missed or _is_fleeting(due[0]), due[0]
        left = [point for point in missed if point != due[0]] + spared
    record_property("kills", number)


def _is_fleeting(point: Point) -> bool:
    """Return whether the moment may be absent from a life that resembles the recorded one."""
    return point.name.endswith(WITHIN)


def test_scenes_cover_every_transition_and_commit_of_the_ledger(recordings: dict[str, Recording]) -> None:
    heard = {name for recording in recordings.values() for act in recording.acts for name in act}
    arrows = {name.partition(": ")[2] for name in heard if ARROW in name}
    assert arrows == {f"{old}{ARROW}{new}" for old, followers in ARROWS.items() for new in followers}
    committed = {name.partition(":")[0] for name in heard if name.endswith("after commit")}
    assert committed.isdisjoint(_NOT_HERE), f"a scene does this, so it is no exception: {committed & _NOT_HERE.keys()}"
    missing = committing() - committed - _NOT_HERE.keys()
    assert sorted(missing) == [], f"a scene has to do this, so that it can be killed there: {sorted(missing)}"


def committing() -> set[str]:
    """Return every function of the ledger that opens a write transaction."""
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


def test_ordinary_run_has_at_least_three_hundred_kills(points: Points) -> None:
    assert sum(not _is_fleeting(point) for chosen in points.values() for point in chosen) >= 300
