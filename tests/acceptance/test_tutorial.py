"""The tutorial: every command of it, in its order, by a user with a clone and an assistant's program."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance import document
from tests.acceptance.person import COMMAND, PROJECT, Person

pytestmark = [pytest.mark.acceptance, pytest.mark.long]


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[tuple[Person, Path]]:
    """A user with a clone, the command on the path, and Claude Code; yields the user and the home folder."""
    folder = tmp_path / "me"
    (folder / ".claude").mkdir(parents=True)
    (folder / "catchment").symlink_to(PROJECT)
    path = os.pathsep.join([str(COMMAND.parent), os.environ["PATH"]])
    person = Person(folder / ".local" / "share" / "catchment", variables={"HOME": str(folder), "PATH": path})
    yield person, folder
    person("down")
    assert person.left() == []


def test_every_command_of_the_tutorial_works_as_documented(newcomer: tuple[Person, Path]) -> None:
    person, folder = newcomer
    assert document.carry_out(PROJECT / "docs" / "tutorial.md", person.environment, folder) > 15
