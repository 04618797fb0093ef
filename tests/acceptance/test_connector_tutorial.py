"""The tutorial of docs/connectors.md: each command and each file of it, from an empty folder to a synced source."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance import document
from tests.acceptance.person import PROJECT, Person
from tests.outside_packages import environment

pytestmark = [pytest.mark.acceptance, pytest.mark.long]

_PAGE = PROJECT / "docs" / "connectors.md"
_FILE = re.compile(r'^```python title="([^"]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)


@pytest.fixture
def developer(tmp_path: Path) -> Iterator[Person]:
    """A developer in an environment with Catchment and pytest."""
    commands = environment(tmp_path / "environment")
    path = os.pathsep.join([str(commands), os.environ["PATH"]])
    person = Person(tmp_path / "state", variables={"PATH": path}, command=commands / "catchment")
    yield person
    person("down")
    assert person.left() == []


def test_each_step_of_the_tutorial_works_as_documented(developer: Person, tmp_path: Path) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    first, second, third = (heading for heading in document.headings(_PAGE)[:3])
    assert document.carry_out(_PAGE, developer.environment, folder, under=first) == 4
    files = _FILE.findall(_PAGE.read_text(encoding="utf-8"))
    assert [name for name, _ in files] == ["quotes/catchment_quotes.py", "quotes/test_quotes.py"]
    for name, text in files:
        assert (folder / name).exists()
        (folder / name).write_text(text, encoding="utf-8")
    assert list(document.commands(_PAGE, second)) == []
    assert document.carry_out(_PAGE, developer.environment, folder, under=third) > 8
