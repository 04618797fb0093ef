"""`catchment init` by a person at a terminal: interrupted at each step, continued, and done within two minutes."""

from __future__ import annotations

import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.person import COMMAND, PROJECT, Person
from tests.terminal import Terminal

pytestmark = [pytest.mark.acceptance, pytest.mark.long]


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[Person]:
    """A user with the example vault in the folder of documents, and without a home."""
    folder = tmp_path / "me"
    shutil.copytree(PROJECT / "examples" / "vault", folder / "Documents" / "Vault")
    person = Person(tmp_path / "home", variables={"HOME": str(folder), "TERM": "dumb"})
    yield person
    person("down")
    assert person.left() == []


def test_init_continues_after_each_kill_and_ends_with_a_search_and_the_page(newcomer: Person) -> None:
    def started() -> Terminal:
        return Terminal([str(COMMAND), "init"], newcomer.environment)

    terminal = started()
    for prompt in ("number [1]: ", "every 1h."):
        terminal.reads(prompt)
        terminal.types("\n")
    terminal.reads("Start Catchment and read vault now?")
    terminal.types("\n")
    terminal.reads("added vault: ")
    terminal.process.kill()
    assert terminal.ends() == -signal.SIGKILL

    terminal = started()
    terminal.reads("Start Catchment and read vault now?")
    terminal.types("\n")
    terminal.reads("Starting ")
    terminal.process.kill()
    assert terminal.ends() == -signal.SIGKILL
    newcomer("up", "--detach").ok()

    terminal = started()
    terminal.reads("vault: ")
    assert terminal.ends() == 0, terminal.shown
    assert "88 added or updated" in terminal.shown
    assert re.search(r"catchment search \w+", terminal.shown)
    assert re.search(r"^Page: http://127.0.0.1:\d+/signin\?key=", terminal.shown, re.MULTILINE)

    terminal = started()
    terminal.reads("Catchment is set up here already.")
    assert terminal.ends() == 0
    assert [source["name"] for source in newcomer("status", "--json").ok().json["sources"]] == ["vault"]
