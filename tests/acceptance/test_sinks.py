"""The document about sinks: every command of it, by a user with a vault; then a saved note and a withdrawn consent."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance import document
from tests.acceptance.person import COMMAND, PROJECT, Person
from tests.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.long]


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[tuple[Person, Path]]:
    """A user with a vault in the library and the command on the path; yields the user and the home folder."""
    folder = tmp_path / "me"
    shutil.copytree(PROJECT / "examples" / "vault" / "Reading", folder / "Vault")
    path = os.pathsep.join([str(COMMAND.parent), os.environ["PATH"]])
    person = Person(folder / ".local" / "share" / "catchment", variables={"HOME": str(folder), "PATH": path})
    person("add", "local_files", str(folder / "Vault"), "--name", "notes", "--watch").ok()
    person("up", "--detach").ok()
    person("sync", "notes", "--wait").ok()
    yield person, folder
    person("down")
    assert person.left() == []


def test_commands_of_the_document_work_and_changes_arrive(newcomer: tuple[Person, Path]) -> None:
    person, folder = newcomer
    person("sinks", "add", "folder", str(folder / "Kept"), "--name", "kept").ok()
    copies = folder / "Kept" / "notes"
    number = len(list((folder / "Vault").glob("*.md")))
    until(lambda: len(list(copies.glob("*.md"))) if copies.exists() else 0, lambda found: found == number)
    (folder / "Vault" / "New.md").write_text("# New\n\nThe quokka is here.\n")
    until((copies / "New.md").exists, bool)
    assert document.carry_out(PROJECT / "docs" / "sinks.md", person.environment, folder) == 10
    assert {sink["name"] for sink in person("status", "--json").ok().json["sinks"]} == {"kept"}
    shutil.copytree(folder / "Kept", folder / "Old")
    (folder / "Vault" / "New.md").write_text("# New\n\nThe wombat is here.\n")
    until((copies / "New.md").read_text, lambda text: "wombat" in text)
    shutil.rmtree(folder / "Kept")
    (folder / "Old").rename(folder / "Kept")
    # As the supervisor does every five minutes.
    command = [sys.executable, "-m", "deployments.health.page"]
    subprocess.run(command, env=person.environment, cwd="/", capture_output=True, check=False)
    until((copies / "New.md").read_text, lambda text: "wombat" in text)
    said = person("consent", "revoke", "notes", "--yes", "--json").ok().json
    assert said["sinks"].keys() == {"kept"}
    until(lambda: list(copies.glob("*.md")) if copies.exists() else [], lambda left: not left)
    person("sinks", "check", "kept").ok()
