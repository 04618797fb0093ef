"""Kinds of source that packages of others add, and packages that cannot be used."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import connectors
import sinks
from catchment.errors import BadInput, Refused, SourceUnavailable
from connectors import connector_class, kinds, problems
from deployments.sources.definition import definition
from deployments.sources.editor_schema import schema
from deployments.sources.profile import job_variables
from deployments.sources.sources_file import SourcesFile
from flows.flow_form import flow_form
from tests.outside_packages import SHELF, install, site_of

_SOURCES = """\
version: 2
pull: []
deployments:
- name: books
  entrypoint: flows.shelf.sync_shelf
  tags: [source, shelf]
  parameters: {name: books, settings: {file: /books.txt, shout: true}}
  work_pool: {name: catchment}
- name: papers
  entrypoint: flows.local_files.sync_local_files
  tags: [source, local_files]
  parameters: {name: papers, settings: {root: /papers}}
  work_pool: {name: catchment}
"""


@pytest.fixture(autouse=True)
def site(tmp_path: Path) -> Iterator[Path]:
    """A folder of installed packages."""
    with site_of(tmp_path) as folder:
        yield folder


def test_package_adds_a_kind_of_source(site: Path) -> None:
    install(site)
    assert "shelf" in kinds()
    assert problems() == []
    assert connectors.problem("shelf") is None
    form = flow_form("shelf")
    assert (form["name"], form["version"]) == ("sync-shelf", "1.2")
    assert form["description"].startswith("Sync a shelf to the library.")
    assert "changed_only" not in form["parameter_schema"]["properties"]
    assert connector_class("shelf").settings.model_json_schema()["properties"].keys() >= {"file", "shout"}


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("import no_such_module", r"ModuleNotFoundError: No module named 'no_such_module'\); upgrade or uninstall it"),
        ("raise SystemExit('line 1\\nline 2')", r"SystemExit: line 1\); upgrade or uninstall it"),
        ("Shelf = 'a text'", "no complete connector of this kind; upgrade or uninstall it"),
        (SHELF.replace('"shelf"', '"other"', 1), "no complete connector of this kind"),
        (SHELF.replace('    identity = ("file",)\n', ""), "no complete connector of this kind"),
        (SHELF.replace("def fetch(", "def fetched("), "no complete connector of this kind"),
        (f"{SHELF}\nShelf.contract = 2", "version 2 of the contract, and Catchment has version 1; install versions"),
    ],
    ids=["does not import", "exits", "no class", "other kind", "no identity", "no fetch", "other contract"],
)
def test_package_that_cannot_be_used_concerns_only_its_sources(site: Path, code: str, problem: str) -> None:
    install(site, code)
    (line,) = problems()
    assert line.startswith("shelf: catchment-shelf ")
    with pytest.raises(BadInput, match=problem):
        connector_class("shelf").settings.located("/books.txt")
    _only_books_fail(site, line)


def test_list_of_kinds_has_levels_and_problems(site: Path) -> None:
    install(site, "import no_such_module")
    rows = {row.kind: row for row in connectors.described()}
    assert (rows["web"].manifest.level, rows["web"].problem) == ("gold", None)
    assert (rows["shelf"].manifest.level, rows["shelf"].version) == ("", "1.2")
    assert str(rows["shelf"].problem).startswith("shelf: catchment-shelf cannot be loaded")


def test_source_of_a_package_that_was_uninstalled_keeps_its_settings(site: Path) -> None:
    assert problems() == []
    _only_books_fail(site, connectors.problem("shelf"))


def _only_books_fail(site: Path, problem: str | None) -> None:
    sources = SourcesFile(site / "sources.yaml", _SOURCES)
    books, papers = sources.entries
    connector = connector_class("shelf")(books.settings)
    with pytest.raises(SourceUnavailable) as raised:
        connector.probe()
    assert str(raised.value) == problem
    assert books.settings.model_dump(exclude_defaults=True) == {"file": "/books.txt", "shout": True}
    assert papers.kind == "local_files"
    assert [definition(sources.file, index, site).name for index in (0, 1)] == ["books", "papers"]
    assert job_variables(books.kind, books.settings, {})["at_once"]
    sources.remove("papers")
    assert sources.entries == (books,)


def test_setting_of_a_package_may_have_the_name_of_one_of_ours(site: Path) -> None:
    """Of pushed documents alone, `folder` is the name of the source."""
    install(site, SHELF.replace("file: FullPath", "folder: FullPath").replace('("file",)', '("folder",)'))
    sources = SourcesFile(site / "sources.yaml", _SOURCES.replace("file: /books.txt", "folder: /books"))
    assert sources.entries[0].settings.model_dump(mode="json")["folder"] == "/books"


@pytest.mark.parametrize("taken", ["flows", "web", "tasks"])
def test_package_with_a_top_level_name_of_ours_is_refused(site: Path, taken: str) -> None:
    install(site, brings=[taken])
    name = f"shelf: catchment-shelf brings the package {taken}, a name of Catchment; uninstall catchment-shelf"
    assert problems() == [name]
    assert "shelf_of_books" not in sys.modules


@pytest.mark.parametrize(
    ("kind", "problem"), [("sync", "sync: the name of another flow"), ("Shelf-2", "'Shelf-2': not a name of a kind")]
)
def test_kind_whose_name_no_flow_can_have_is_refused(site: Path, kind: str, problem: str) -> None:
    install(site, points=[f"{kind} = shelf_of_books:Shelf"])
    (line,) = problems()
    assert line.startswith(problem)


def test_package_cannot_replace_a_kind_of_ours(site: Path) -> None:
    install(site, points=["obsidian = shelf_of_books:Shelf"])
    assert connector_class("obsidian").__module__ == "connectors.obsidian"
    assert problems() == ["obsidian: catchment-shelf adds what catchment adds; uninstall catchment-shelf"]


def test_of_two_packages_with_one_kind_the_first_is_used(site: Path) -> None:
    install(site)
    install(site, package="another-shelf", module="another_shelf", points=["shelf = another_shelf:Shelf"])
    assert problems() == ["shelf: catchment-shelf adds what another-shelf adds; uninstall catchment-shelf"]
    assert connector_class("shelf").__module__ == "another_shelf"


def test_editors_know_the_settings_of_each_kind(site: Path) -> None:
    install(site)
    install(site, "", package="broken", module="broken", points=["broken = broken:Missing", "worse = broken:Missing"])
    conditions = {
        rule["if"]["properties"]["entrypoint"]["const"]: rule["then"]
        for rule in schema()["$defs"]["Deployment"]["allOf"]
    }
    assert conditions.keys() >= {"flows.shelf.sync_shelf", "flows.broken.sync_broken", "flows.worse.sync_worse"}
    references = [
        str(rule["properties"]["parameters"]["properties"]["settings"]["$ref"]) for rule in conditions.values()
    ]
    assert {reference.rpartition("/")[2] for reference in references} <= schema()["$defs"].keys()


def test_package_adds_a_kind_of_sink(site: Path) -> None:
    code = "class Heap:\n    is_folder = True\n"
    install(site, code, group="catchment.sinks", points=["heap = shelf_of_books:Heap", "other = shelf_of_books:Other"])
    assert sinks.is_folder("heap")
    assert "heap" in sinks.kinds()
    with pytest.raises(Refused, match="other: catchment-shelf cannot be loaded"):
        sinks.is_folder("other")


def test_sink_whose_extra_is_missing_names_it(site: Path) -> None:
    install(site, "import no_such_module", group="catchment.sinks", points=["heap = shelf_of_books:Heap [heap]"])
    with pytest.raises(BadInput, match=r'no_such_module: not installed; run: pip install "catchment-shelf\[heap\]"'):
        sinks.is_folder("heap")


def test_reader_that_cannot_be_made_is_named(site: Path) -> None:
    code = "class Bits:\n    def __init__(self):\n        raise ValueError('no')\n"
    install(site, code, group="catchment.readers", points=["bits = shelf_of_books:Bits"])
    assert problems() == ["bits: catchment-shelf cannot be loaded (ValueError: no); upgrade or uninstall it"]
