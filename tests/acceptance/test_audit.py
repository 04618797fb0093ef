"""The guide to the audit: every command works as documented, and the bundle is verified with Python alone."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from catchment.audit import comparison
from catchment.ledger import Ledger
from catchment.model import Priority
from catchment.runtime.home import Home
from tests.acceptance import document
from tests.acceptance.person import COMMAND, PROJECT, Person

pytestmark = pytest.mark.acceptance


def test_every_command_of_the_audit_guide_works_as_documented(tmp_path: Path) -> None:
    path = os.pathsep.join([str(COMMAND.parent), os.environ["PATH"]])
    person = Person(tmp_path / "home", variables={"HOME": str(tmp_path), "PATH": path})
    with closing(Ledger.open(Home(tmp_path / "home").make())) as ledger:
        ledger.sources.put("notes", "obsidian", Priority.NORMAL, "operator:anna")
    assert document.carry_out(PROJECT / "docs" / "audit.md", person.environment, tmp_path) == 10
    unpacked = tmp_path / "check"
    unpacked.mkdir()
    comparison.unpack(tmp_path / "notes.tar", unpacked)
    done = subprocess.run([sys.executable, "-I", unpacked / "verify.py"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("intact: ")
