"""The hazards of mail, repositories, the web, programs and packages, applied to Catchment; see `make hazards`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.hazards import mail, programs, repositories, websites
from tests.hazards.model import Hazard

pytestmark = pytest.mark.soak


def each(hazards: Sequence[Hazard[Any]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("hazard", hazards, ids=[hazard.name.replace(" ", "-") for hazard in hazards])


@pytest.fixture(scope="module")
def mailbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The shared scene of the mail hazards."""
    with mail.AREA.scene(tmp_path_factory.mktemp("mail")) as made:
        yield made


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The shared scene of the repository hazards."""
    with repositories.FILES.scene(tmp_path_factory.mktemp("repositories")) as made:
        yield made


@pytest.fixture(scope="module")
def internet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The shared scene of the web's hazards."""
    with websites.AREA.scene(tmp_path_factory.mktemp("web")) as made:
        yield made


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[programs.Door]:
    """The shared scene of the hazards of programs and packages."""
    with programs.AREA.scene(tmp_path_factory.mktemp("programs")) as made:
        yield made


@each(programs.AREA.hazards)
def test_outcome_of_a_hazard_of_programs_is_right(door: programs.Door, hazard: Hazard[programs.Door]) -> None:
    verdict = hazard.happens(door)
    assert verdict.right, verdict


@each(mail.AREA.hazards)
def test_outcome_of_a_mail_hazard_is_right(mailbox: Any, hazard: Hazard[Any]) -> None:
    verdict = hazard.happens(mailbox)
    assert verdict.right, verdict


@each(repositories.FILES.hazards)
def test_outcome_of_a_repository_hazard_is_right(host: Any, hazard: Hazard[Any]) -> None:
    verdict = hazard.happens(host)
    assert verdict.right, verdict


@each(websites.AREA.hazards)
def test_outcome_of_a_web_hazard_is_right(internet: Any, hazard: Hazard[Any]) -> None:
    verdict = hazard.happens(internet)
    assert verdict.right, verdict
