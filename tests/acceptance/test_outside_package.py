"""A kind of source from a package of others, from its installation to its loss."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.acceptance.person import Person, upright
from tests.outside_packages import BITS, install

pytestmark = pytest.mark.acceptance


def test_kind_of_a_package_is_offered_synced_and_missed(tmp_path: Path) -> None:
    site, papers, books = tmp_path / "site", tmp_path / "papers", tmp_path / "books.txt"
    for folder in (site, papers):
        folder.mkdir()
    (papers / "note.md").write_text("# Alder\n")
    books.write_text("Walden\nMiddlemarch\n")
    install(site)
    person = Person(tmp_path / "home", variables={"PYTHONPATH": str(site)})

    assert "Books on a shelf" in person("sources", "kinds").ok().out
    said = person("add", "shelf", "--help").ok().out
    assert "List of books: a file with a book on each line" in said
    assert "In capital letters" in said
    person("add", "shelf", books, "--name", "books", "--watch").refused(2, "shelf sources announce no changes")

    with upright(person):
        person("add", "shelf", books, "--name", "books", "--every", "1h", "--set", "shout=true").ok()
        person("add", "local_files", papers, "--name", "papers").ok()
        (deployment,) = person.found("deployments", {"deployments": {"name": {"any_": ["books"]}}})
        assert (deployment["entrypoint"], deployment["version"]) == ("flows.shelf.sync_shelf", "1.2")
        assert person.sync("books")["succeeded"] == 2
        assert [hit["title"] for hit in person.hits("WALDEN")] == ["Walden"]
        person("sources", "pause", "books").ok()

    shutil.rmtree(site / "catchment_shelf-1.2.dist-info")
    with upright(person):
        (later,) = person.found("deployments", {"deployments": {"name": {"any_": ["books"]}}})
        assert (later["id"], later["paused"]) == (deployment["id"], True)
        assert [schedule["id"] for schedule in later["schedules"]] == [row["id"] for row in deployment["schedules"]]
        assert person.sync("papers")["succeeded"] == 1
        person("sources", "resume", "books").ok()
        assert "unknown kind of source 'shelf'" in person("sync", "books", "--wait").err
        assert "unknown kind of source 'shelf'" in person("status").out
        person("config", "validate").refused(2, "sources.yaml: books: unknown kind of source 'shelf'")

    install(site, "import no_such_module")
    shelf = "shelf: catchment-shelf cannot be loaded (ModuleNotFoundError: No module named 'no_such_module')"
    assert shelf in person("status").out
    assert shelf in person("check").out
    assert shelf in person("sources", "kinds").err


def test_files_are_read_by_a_reader_that_was_installed_later(tmp_path: Path) -> None:
    site, papers = tmp_path / "site", tmp_path / "papers"
    for folder in (site, papers):
        folder.mkdir()
    (papers / "note.md").write_text("# Alder\n")
    (papers / "pair.bits").write_bytes(b"\0\xff")
    (papers / "mark.txt").write_bytes(b"XY")
    person = Person(tmp_path / "home", variables={"PYTHONPATH": str(site)})
    with upright(person):
        person("add", "local_files", papers, "--name", "papers").ok()
        assert person.sync("papers")["skipped"] == 1
        assert "replay" not in person("doctor").out

    points = {"module": "two_bytes", "group": "catchment.readers", "points": ["bits = two_bytes:Bits"]}
    install(site, BITS, package="catchment-bits", **points)
    with upright(person):
        assert "another version read 3 files, or could not" in person("doctor").out
        person("replay", "--all", "--wait").ok()
        assert {hit["title"] for hit in person.hits("bits")} == {"Bits"}
        assert "00000000 and 11111111" in person("show", "pair.bits").ok().out
        assert "01011000 and 01011001" in person("show", "mark.txt").ok().out
        assert "replay" not in person("doctor").out
        person("backfill", "undo", "1").ok()
        assert person.hits("bits") == []

    install(site, "import no_such_module", package="catchment-bits", **points)
    assert "bits: catchment-bits cannot be loaded (ModuleNotFoundError" in person("status").out
