"""Folder mishaps in a running system: the library matches the folder. `tests/hazards` tests all mishaps without a
server.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.person import Person
from tests.hazards.catchment import Catchment
from tests.hazards.folders import mishaps
from tests.hazards.model import folder_name, meet

pytestmark = pytest.mark.acceptance

_OF_ALL_KINDS = (
    "a folder is renamed",
    "a delete, and the same file again",
    "a folder is emptied",
    "a disk is not mounted",
    "a name that is not UTF-8",
    "a zip bomb",
    "a sparse file of 300 MB",
    "a pipe among the files",
)
"""One mishap of each type; `make hazards` covers the others."""


@pytest.mark.parametrize("name", _OF_ALL_KINDS)
def test_library_is_correct_after_a_mishap(person: Person, name: str, tmp_path: Path) -> None:
    (mishap,) = [mishap for mishap in mishaps() if mishap.name == name]
    verdict, _, _ = meet(Catchment(person), mishap, tmp_path / folder_name(name))
    assert verdict.right, verdict
