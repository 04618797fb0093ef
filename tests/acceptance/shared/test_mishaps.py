"""Mishaps of a folder in a running system: the library holds what is there; `tests/hazards` does all of them to the engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.person import Person
from tests.hazards.catchment import Catchment
from tests.hazards.folders import mishaps
from tests.hazards.model import meet, told

pytestmark = pytest.mark.acceptance

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
"""One of each kind; `make hazards` does the others too."""


@pytest.mark.parametrize("name", _OF_ALL_KINDS)
def test_what_is_held_after_a_mishap_is_right(person: Person, name: str, tmp_path: Path) -> None:
    (mishap,) = [mishap for mishap in mishaps() if mishap.name == name]
    verdict, _, _ = meet(Catchment(person), mishap, tmp_path / told(name))
    assert verdict.right, verdict
