"""The hazards of mail and of repositories, done to Catchment; `make hazards` does those of the other areas too. Half an hour."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.hazards import mail, repositories
from tests.hazards.model import Hazard

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]

_HAZARDS = [(area, hazard) for area in (mail.AREA, repositories.FILES) for hazard in area.hazards]


@pytest.fixture(scope="module")
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The scene of an area, which its hazards have in common."""
    area = request.param
    with area.scene(tmp_path_factory.mktemp(area.name)) as made:
        yield made


@pytest.mark.parametrize(
    ("scene", "hazard"),
    _HAZARDS,
    ids=[f"{area.name}-{hazard.name.replace(' ', '-')}" for area, hazard in _HAZARDS],
    indirect=["scene"],
)
def test_what_comes_of_a_hazard_is_right(scene: Any, hazard: Hazard[Any]) -> None:
    verdict = hazard.happens(scene)
    assert verdict.right, verdict
