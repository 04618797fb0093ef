"""Kill the engine at random moments, in any thread or parser: it resumes and reaches the same final state."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.faults.lives import Life, a_place
from tests.faults.scenes import SCENES, Scene

_LIVES = 3
_KILLS = 3
_AT_WORK = {
    "first ingest": pytest.mark.soak,
    "changes": pytest.mark.soak,
    "changes at work": pytest.mark.long,
    "proof": pytest.mark.soak,
}
"""The scenes, each with its tier."""


@pytest.mark.parametrize(
    "scene",
    [pytest.param(scene, marks=_AT_WORK[scene.name]) for scene in SCENES if scene.name in _AT_WORK],
    ids=lambda scene: scene.name,
)
def test_kills_at_random_moments_lead_to_the_same_final_state(
    scene: Scene, times: int, record_property: Callable[..., None]
) -> None:
    seed = random.randrange(1_000_000)
    chosen = random.Random(seed)
    print(f"seed {seed}")
    number = 0
    with a_place() as place:
        recording = Life(scene, place).record()
    with a_place() as place:
        for _ in range(_LIVES * times):
            life = Life(scene, place)
            life.begin()
            number += sum(life.killed_after(chosen.uniform(0, recording.seconds)) for _ in range(_KILLS))
            life.end(recording)
    record_property("kills", number)
