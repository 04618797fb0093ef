"""The commands of docs/install.md to upgrade, move and uninstall, for a home of the first revision."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.acceptance import document
from tests.acceptance.person import COMMAND, PROJECT, Person
from tests.faults.versions import kept

pytestmark = [pytest.mark.acceptance, pytest.mark.long]


def test_home_is_upgraded_moved_and_removed_as_documented(tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    # The environment of the tests must not be made anew.
    (programs / "make").write_text(f'#!/bin/sh\nexec {shutil.which("make")} -o .venv/.ready "$@"\n')
    (programs / "make").chmod(0o700)
    path = os.pathsep.join([str(programs), str(COMMAND.parent), os.environ["PATH"]])
    person = Person(tmp_path / "home", variables={"HOME": str(tmp_path), "PATH": path})
    person.home.mkdir(mode=0o700)
    kept("0001", person.home)
    try:
        page = PROJECT / "docs" / "install.md"
        assert document.carry_out(page, person.environment, PROJECT, under="Upgrade, move, uninstall") == 4
    finally:
        person("down")
    assert person.left() == []
    assert not (person.home / "ledger.db").exists()
