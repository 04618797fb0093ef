"""The document about growing: a library that began on SQLite is moved to PostgreSQL, and is equal there and in a copy.

tests/scale carries out its sections about several machines.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance import document
from tests.acceptance.person import COMMAND, PROJECT, Person
from tests.postgres_server import PostgresServer
from tests.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.postgres, pytest.mark.long]


@pytest.fixture
def address() -> Iterator[str]:
    """The address of an empty database."""
    with tempfile.TemporaryDirectory(prefix="growing-pg-") as folder:
        server = PostgresServer(Path(folder))
        server.start("-c", "fsync=off")
        yield server.url.replace("postgresql+psycopg", "postgresql")
        server.stop()


def test_commands_of_the_document_move_a_library_and_keep_it_equal(tmp_path: Path, address: str) -> None:
    folder = tmp_path / "me"
    shutil.copytree(PROJECT / "examples" / "vault" / "Reading", folder / "Vault")
    path = os.pathsep.join([str(COMMAND.parent), os.environ["PATH"]])
    person = Person(
        folder / ".local" / "share" / "catchment", variables={"HOME": str(folder), "PATH": path, "LEDGER": address}
    )
    person("add", "local_files", str(folder / "Vault"), "--name", "notes").ok()
    person("up", "--detach").ok()
    person("sync", "notes", "--wait").ok()
    person("sinks", "add", "folder", str(folder / "Copy"), "--name", "copy").ok()
    before = {hit["document"] for hit in person.hits("straw")}
    for section in ("Move to PostgreSQL", "Back up and move back"):
        assert document.carry_out(PROJECT / "docs" / "growing.md", person.environment, folder, under=section) > 4
    assert {hit["document"] for hit in person.hits("straw")} == before != set()
    (folder / "Vault" / "New.md").write_text("# New\n\nThe quokka is here.\n")
    person("sync", "notes", "--wait").ok()
    until((folder / "Copy" / "notes" / "New.md").exists, bool)
    person("sinks", "check", "copy").ok()
    person("down")
    assert person.left() == []
